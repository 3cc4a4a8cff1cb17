"""What every test may ask for."""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

MAPS = Path("/proc/self/maps")  # Linux alone has it, and alone has the limit
MANY_MAPS = 25_000  # of the 65,530 that a process may hold by default
MANY_LOWERED = 1_500  # programs whose MLIR contexts JAX keeps: each of them makes the next one slower to lower
DEAR = (
    "fit_svi(",
    "fit_sgmcmc(",
    ".fit(",
    "laplace(",
    "swag(",
    "compact(",
    "compare(",
    "fit_rewound(",
    "fit_replicates(",
)  # of examples in docstrings
LOWERED: list[str] = []
AFTER_IMPORT = pytest.StashKey[dict[str, dict]]()  # the state of each file's random numbers
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: LOWERED.append(event) if event.endswith("mlir_module_duration") else None
)

os.environ.setdefault("MPLBACKEND", "Agg")  # figures are files here; a screen is never asked for


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``fast_cases(n)``: of a parametrised test the first n cases are fast, the others carry the marker ``slow``.

    ``slow_cases(n)``: the cases after the first n carry ``every`` as well. So do docstrings carry ``slow`` whose examples train
    a network or make one smaller: compiling them takes seconds each.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    for item in items:
        if isinstance(item, pytest.DoctestItem) and any(word in line.source for line in item.dtest.examples for word in DEAR):
            item.add_marker(pytest.mark.slow)
        for name, further in (("fast_cases", ("slow",)), ("slow_cases", ("slow", "every"))):
            if (mark := item.get_closest_marker(name)) is None:
                continue
            test = (name, str(item.path), item.originalname)  # type: ignore[attr-defined]
            seen[test] += 1
            for marker in further if seen[test] > mark.args[0] else ():
                item.add_marker(marker)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is there once all tests are known stays to the end: to look through it for garbage took a seventh of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Between files, forget what was compiled before it is too much: every program is memory mapped a few times over.

    A process that reaches the kernel's limit of maps is killed in the midst of whatever test it is at.
    """
    if nextitem is not None and nextitem.path == item.path:
        return
    many_maps = MAPS.exists() and len(MAPS.read_bytes().splitlines()) > MANY_MAPS
    if many_maps or len(LOWERED) > MANY_LOWERED:
        LOWERED.clear()
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def rng_key() -> jax.Array:
    """The one fixed key: a stochastic test that wants others splits it or states its own."""
    return jax.random.key(0)


@pytest.fixture
def float64() -> Iterator[None]:
    """Double precision for the length of one test, for oracles that hold to rounding."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def _draws_of_its_own(request: pytest.FixtureRequest) -> None:
    """A file's ``RNG`` stands for every test where the file's import left it, whatever ran before it in this process."""
    module = getattr(request, "module", None)
    if isinstance(rng := getattr(module, "RNG", None), np.random.Generator):
        rng.bit_generator.state = request.config.stash.setdefault(AFTER_IMPORT, {}).setdefault(
            module.__name__, rng.bit_generator.state
        )
