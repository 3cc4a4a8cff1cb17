"""The bound of given rows as a function of the mask, at finished parameters: by what a one-shot pruning is verified."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bayesprune.core.given import GivenRows
from bayesprune.core.send import send
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.handlers import masked, scaled
from bayesprune.model.program import Trainable

ROWS = 4096  # looked at, evenly spaced among all
DRAWS = 4


def some_rows(data: GivenRows) -> tuple[Any, int]:
    """At most `ROWS` rows of x and y, evenly spaced, and how many there are in all."""
    num_rows = len(data.y)
    rows = np.unique(np.linspace(0, num_rows - 1, min(ROWS, num_rows)).round().astype(int))
    return jax.tree.map(lambda leaf: send(np.asarray(leaf)[rows]), (data.x, data.y)), num_rows


def data_bound(
    program: Trainable, params: dict[str, Any], rows: tuple[Any, Any], num_rows: int, rng_key: jax.Array
) -> Callable[[dict[str, Any]], jax.Array]:
    """mask -> the ELBO of a data set of ``num_rows`` rows, nats, as ``rows`` and `DRAWS` draws estimate it.

    The divergence has its full weight. What is drawn is the same under every mask.
    """
    x, y = rows
    elbo = MeanFieldELBO(num_particles=DRAWS)
    keywords = program.keywords(num_rows)

    def bound(mask: dict[str, Any]) -> jax.Array:
        model = scaled(masked(program.model, mask), observed=num_rows / len(y))
        found = elbo.loss_with_mutable_state(rng_key, params, model, masked(program.guide, mask), x, y, **keywords)
        return -found["loss"]

    return bound
