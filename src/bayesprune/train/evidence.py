"""What an act reads of the next minibatches: the gradient in every weight, dead ones included; loss and bound by the mask."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from bayesprune.core.types import Dataset, Mask, Params
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
    loop: Objective, carry: Carry, params: Params, mask: Mask, probe: Grads, data: Dataset | Block, rng_key: jax.Array
) -> Grads:
    """The gradient that the sparsifier of ``loop`` needs, site -> array; see `core.types.Gradient` for its kinds.

    ``params``, unconstrained, and ``mask`` are whole arrays, whatever the storage of ``carry``; ``probe``: zeros for
    each weight.
    """
    wanted = needs_of(loop.recipe.sparsifier).gradient
    if wanted.at_mean:
        loop = dataclasses.replace(loop, recipe=dataclasses.replace(loop.recipe, elbo=MeanFieldELBO(noise=noise.none)))

    def one(reading: Reading, key: jax.Array) -> tuple[Reading, Grads]:
        """At one draw, of one minibatch; and where the reading of the data then is."""
        reading, batch = loop.draw(carry._replace(batches=reading), data)
        loss = lambda q, p: loop.loss(loop.values(q, carry), carry, key, batch, mask, p)[0]  # noqa: E731
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


def mask_loss(
    loop: Objective, carry: Carry, params: Params, data: Dataset | Block, rng_key: jax.Array
) -> Callable[..., jax.Array]:
    """`core.types.Evidence.loss` of the next minibatch, with what the training loop's own loss has but the divergence.

    ``params``, unconstrained, are whole arrays, whatever the storage of ``carry``. One key serves all masks: what is drawn,
    weights of a posterior with spread or a network's dropout, is the same under each.
    """
    _, batch = loop.draw(carry, data)

    def loss(mask: Mask, shift: dict[str, jax.Array]) -> jax.Array:
        values = loop.values(params, carry)
        per_row, _ = loop.loss(values, carry, rng_key, batch, mask, shift, weight=jnp.zeros(()))
        return per_row * loop.num_rows

    thrifty = products_only(loss) if loop.recipe.remat else loss
    return lambda mask, shift=None: thrifty(mask, shift or {})


def joint_bound(
    loop: Objective, carry: Carry, params: Params, data: Dataset | Block, rng_key: jax.Array, num_batches: int
) -> Callable[[Mask], jax.Array]:
    """mask -> the ELBO of the whole data set, nats, as the next ``num_batches`` minibatches and a draw for each estimate it.

    It is the training loop's own loss, with the present weight of the divergence and whatever else is in it. ``params``,
    unconstrained, are whole arrays. One key serves all masks: what is drawn is the same under each.
    """
    reading, batches = carry.batches, []
    for _ in range(num_batches):
        reading, batch = loop.draw(carry._replace(batches=reading), data)
        batches.append(batch)

    values = loop.values(params, carry)  # once for all masks

    def bound(mask: Mask) -> jax.Array:
        losses = [
            loop.loss(values, carry, jax.random.fold_in(rng_key, number), batch, mask, {})[0]
            for number, batch in enumerate(batches)
        ]
        return -sum(losses[1:], losses[0]) * (loop.num_rows / num_batches)

    return bound
