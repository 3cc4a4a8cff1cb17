"""What every test may ask for."""

import os
from collections.abc import Iterator

import jax
import pytest

os.environ.setdefault("MPLBACKEND", "Agg")  # figures are files here; a screen is never asked for


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``fast_cases(n)``: of a parametrised test the first n cases are fast, the others carry the marker ``slow``."""
    seen: dict[tuple[str, str], int] = {}
    for item in items:
        if (mark := item.get_closest_marker("fast_cases")) is None:
            continue
        test = (str(item.path), item.originalname)  # type: ignore[attr-defined]
        seen[test] = seen.get(test, 0) + 1
        if seen[test] > mark.args[0]:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def rng_key() -> jax.Array:
    """The one fixed key: a stochastic test that wants others splits it or states its own."""
    return jax.random.key(0)


@pytest.fixture
def float64() -> Iterator[None]:
    """Double precision for the length of one test, for oracles that hold to rounding."""
    with jax.enable_x64(True):
        yield
