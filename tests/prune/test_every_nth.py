"""Positions of every n-th True, against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.prune.verified import ROW, every_nth


@pytest.mark.parametrize("size", [1, ROW - 1, ROW, 5 * ROW + 3, 4000])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_every_nth_is_where_numpy_finds_it(size: int, share: float) -> None:
    there = np.random.default_rng(size).random(size) < share
    found = jax.jit(every_nth, static_argnums=2)
    for step in (1, 2, 7, 100):
        places = np.flatnonzero(there)[::step][:64]
        expected = np.concatenate([places, np.full(64 - len(places), size)])
        assert np.array_equal(found(jnp.asarray(there), step, 64), expected)
