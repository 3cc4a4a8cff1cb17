"""Positions of every n-th True of a long array: an even sample of a mask, without a running sum over all of it."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int

# Entries counted together. Within the rows that hold what is looked for places are found by a product with a triangle of ones.
ROW = 32


def every_nth(there: Bool[Array, " n"], step: Int[ArrayLike, ""], size: int) -> Int[Array, " size"]:
    """Positions of the 1st, (1 + step)-th, (1 + 2 step)-th ... True of ``there``, ``size`` of them; n where there are no more.

    ``step``, at least 1, may be traced. A running sum over a million entries takes as long as several training steps: here it
    runs over counts of `ROW` of them.

    >>> print(every_nth(jnp.array([True, False, True, True, False, True]), 2, 3))
    [0 3 6]
    """
    rows = jnp.pad(there, (0, -there.size % ROW)).reshape(-1, ROW)
    counts = jnp.sum(rows, axis=1, dtype=jnp.int32)
    ends = jnp.cumsum(counts)
    wanted = jnp.arange(size, dtype=jnp.int32) * step
    row = jnp.searchsorted(ends, wanted, side="right")
    found, row = row < len(rows), jnp.minimum(row, len(rows) - 1)
    inside = rows[row]
    # How many come before each entry of its row: whole numbers up to `ROW`, exact in any float.
    before = jnp.dot(inside.astype(np.float32), np.triu(np.ones((ROW, ROW), np.float32), 1))
    rank = (wanted - (ends - counts)[row]).astype(np.float32)
    column = jnp.argmax(inside & (before == rank[:, None]), axis=1)
    return jnp.where(found, row * ROW + column, there.size)
