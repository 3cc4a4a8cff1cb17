"""What a fit minimises: the loss of a minibatch, as the steps of the training and the acts of a sparsifier see it."""

from dataclasses import dataclass, replace
from typing import TypeVar, cast

import jax
import jax.numpy as jnp

from bayesprune.core.streams import OfAStep, stream
from bayesprune.core.types import Dataset, Mask, Params
from bayesprune.model.handlers import masked, probed, scaled
from bayesprune.model.inputs import rows_taken
from bayesprune.train import batches as batching
from bayesprune.train.batches import Batches, Block, Count, Padded, Reading, Streamed
from bayesprune.train.estimators import loss_of
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
