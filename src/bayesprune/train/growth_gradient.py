"""The gradient that a sparsifier is shown: in every weight, those included that are dead."""

import dataclasses

import jax
import jax.numpy as jnp

from bayesprune.core.types import Dataset, Mask, Node, Params
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.transforms import noise
from bayesprune.posteriors.params import locs
from bayesprune.prune.needs import needs_of
from bayesprune.train.batches import Block, Reading
from bayesprune.train.objective import Objective
from bayesprune.train.remat import products_only
from bayesprune.train.state import Carry

Grads = dict[str, jax.Array]


def look(
    loop: Objective,
    carry: Carry,
    params: Params,
    mask: Mask,
    posterior: dict[str, Node],
    data: Dataset | Block,
    rng_key: jax.Array,
) -> Grads:
    """The gradient that the sparsifier of ``loop`` needs, site -> array; see `core.types.Gradient` for its kinds.

    ``params``, unconstrained, and ``mask`` are whole arrays, whatever the storage of ``carry``.
    """
    wanted = needs_of(loop.recipe.sparsifier).gradient
    if wanted.at_mean:
        loop = dataclasses.replace(loop, recipe=dataclasses.replace(loop.recipe, elbo=MeanFieldELBO(noise=noise.none)))
    probe = {name: jnp.zeros_like(node.loc) for name, node in posterior.items()}

    def one(reading: Reading, key: jax.Array) -> tuple[Reading, Grads]:
        """At one draw, of one minibatch; and where the reading of the data then stands."""
        reading, batch = loop.draw(carry._replace(batches=reading), data)
        loss = lambda q, p: loop.loss(q, carry, key, batch, mask, p)[0]  # noqa: E731
        loss = products_only(loss) if loop.recipe.remat else loss
        if not wanted.divergence:
            return reading, jax.grad(loss, 1)(params, probe)
        whole, found = jax.grad(loss, (0, 1))(params, probe)
        of_site = locs(params, probe)
        return reading, {site: jnp.where(mask[site], whole[of_site[site]], found[site]) for site in probe}

    if wanted.num_draws == 1:
        return one(carry.batches, rng_key)[1]

    def add(state: tuple[Reading, Grads], number: jax.Array) -> tuple[tuple[Reading, Grads], None]:
        reading, total = state
        reading, found = one(reading, jax.random.fold_in(rng_key, number))
        return (reading, jax.tree.map(lambda t, g: t + jnp.abs(g) / wanted.num_draws, total, found)), None

    (_, mean), _ = jax.lax.scan(add, (carry.batches, probe), jnp.arange(wanted.num_draws))
    return mean
