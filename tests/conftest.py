"""What every test may ask for."""

import os
from collections.abc import Iterator

import jax
import pytest

os.environ.setdefault("MPLBACKEND", "Agg")  # figures are files here; a screen is never asked for


@pytest.fixture
def rng_key() -> jax.Array:
    """The one fixed key: a stochastic test that wants others splits it or states its own."""
    return jax.random.key(0)


@pytest.fixture
def float64() -> Iterator[None]:
    """Double precision for the length of one test, for oracles that hold to rounding."""
    with jax.enable_x64(True):
        yield
