"""What a fit minimises, the loss of a minibatch, and what acts read of the next ones: gradients in every weight, loss and bound by the mask."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import jax
import jax.numpy as jnp

from bayesprune.core.streams import OfAStep, stream
from bayesprune.core.types import Dataset, Mask, Params
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.handlers import masked, probed, scaled
from bayesprune.model.inputs import rows_taken
from bayesprune.model.transforms import noise
from bayesprune.posteriors.params import locs
from bayesprune.prune.needs import needs_of
from bayesprune.train import batches as batching
from bayesprune.train.batches import Batches, Block, Count, Padded, Reading, Streamed
from bayesprune.train.estimators import loss_of
from bayesprune.train.remat import products_only
from bayesprune.train.share import by_rows
from bayesprune.train.sites import Sites
from bayesprune.train.state import Carry, Data, Recipe, as_it_is

Me = TypeVar("Me", bound="Objective")


@dataclass(frozen=True)
class Objective:
    """The loss of one fit as pure functions; ``num_rows``: of the whole data set."""

    recipe: Recipe
    sites: Sites
    num_rows: Count

    def of(self: Me, data: Data) -> tuple[Me, Dataset | Block]:
        """The objective of as many rows as the data say, and the data without that."""
        if not isinstance(data, Padded):
            return self, data
        return replace(self, num_rows=data.num_rows), Dataset(data.x, data.y)

    def weight(self, carry: Carry) -> jax.Array:
        """The divergence's weight in the next step."""
        return jnp.asarray(self.recipe.kl_weight(carry.step), float)

    def values(self, params: Params, carry: Carry) -> Params:
        """What the program reads: parameters under their constraints, and the mutable values."""
        return self.sites.constrain(params) | jax.lax.stop_gradient(carry.mutable)

    def loss(
        self,
        values: Params,
        carry: Carry,
        rng_key: jax.Array,
        batch: Dataset,
        mask: Mask,
        probe: dict[str, jax.Array],
        weight: jax.Array | None = None,
    ) -> tuple[jax.Array, Params]:
        """Negative ELBO per row of the data set, and the program's mutable values; ``probe`` is added to the weights.

        ``values``: of `values`. ``weight``: of the divergence; None: that of the next step.
        """
        weight = self.weight(carry) if weight is None else weight
        model = scaled(
            masked(probed(self.recipe.program.model, probe), mask), observed=self.num_rows / batch.y.shape[0], latent=weight
        )
        guide = scaled(masked(self.recipe.program.guide, mask), observed=weight, latent=weight)
        keywords = dict(self.recipe.keywords)
        if "num_rows" in keywords and not isinstance(self.num_rows, int):
            keywords["num_rows"] = self.num_rows
        loss, mutable_state = loss_of(self.recipe.elbo, rng_key, values, model, guide, batch.x, batch.y, **keywords)
        return loss / self.num_rows, mutable_state

    def draw(self, carry: Carry, data: Dataset | Block) -> tuple[Reading, Dataset]:
        """The next minibatch, its rows spread over the devices of the mesh if there is one."""
        reading, size = carry.batches, self.recipe.batch_size
        if isinstance(data, Block):
            reading, batch = batching.take_from_block(cast(Streamed, reading), data, size, self.num_rows)
        elif size < len(data.y):
            reading, rows = batching.take(cast(Batches, reading), size, self.num_rows)
            batch = jax.tree.map(lambda leaf: leaf[rows], data)
        else:
            batch = data
        if self.recipe.augment is not as_it_is:
            key = stream(carry.step_key, OfAStep.AUGMENTING)
            # A batch's own key: a sparsifier may look at several of one step.
            x = rows_taken(self.recipe.program, batch.x)  # as the network sees them, not the bytes that they are kept as
            batch = batch._replace(x=self.recipe.augment(jax.random.fold_in(key, carry.batches.offset), x))
        return reading, by_rows(batch, self.recipe.mesh)


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
