"""The bound of the data as a function of the mask: by what acts are verified."""

from collections.abc import Callable

import jax

from bayesprune.core.types import Dataset, Mask, Params
from bayesprune.train.batches import Block
from bayesprune.train.objective import Objective
from bayesprune.train.state import Carry


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
            loop.loss_at(values, carry, jax.random.fold_in(rng_key, number), batch, mask, {})[0]
            for number, batch in enumerate(batches)
        ]
        return -sum(losses[1:], losses[0]) * (loop.num_rows / num_batches)

    return bound
