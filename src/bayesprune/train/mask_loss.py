"""The loss of the data as a function of the mask: what a sparsifier compares masks by."""

import dataclasses
from collections.abc import Callable

import jax

from bayesprune.core.types import Dataset, Mask, Params
from bayesprune.train.batches import Block
from bayesprune.train.objective import Objective
from bayesprune.train.remat import products_only
from bayesprune.train.state import Carry


def mask_loss(
    loop: Objective, carry: Carry, params: Params, data: Dataset | Block, rng_key: jax.Array
) -> Callable[..., jax.Array]:
    """`core.types.Evidence.loss` of the next minibatch, with what the training loop's own loss has but the divergence.

    ``params``, unconstrained, are whole arrays, whatever the storage of ``carry``. One key serves all masks: what is drawn,
    weights of a posterior with spread or a network's dropout, is the same under each.
    """
    of_data = dataclasses.replace(loop, recipe=dataclasses.replace(loop.recipe, kl_weight=_nothing))
    _, batch = loop.draw(carry, data)

    def loss(mask: Mask, shift: dict[str, jax.Array]) -> jax.Array:
        per_row, _ = of_data.loss(params, carry, rng_key, batch, mask, shift)
        return per_row * loop.num_rows

    thrifty = products_only(loss) if loop.recipe.remat else loss
    return lambda mask, shift=None: thrifty(mask, shift or {})


def _nothing(step: jax.Array) -> float:
    """The weight of the divergence: what is left are the data."""
    return 0.0
