"""The steps of a fit, compiled beside its start: once, and by a thread of its own."""

from collections.abc import Callable, Iterator

import jax
import pytest
from tests.infer import programs

import bayesprune as bp

DATA = programs.classes(rows=44)


def fitted(rng_key: jax.Array, data: bp.Dataset, width: int) -> bp.FitResult:
    bnn = bp.BNN(
        bp.nets.MLP((width,), 3), prior=bp.priors.Gaussian(0.7), likelihood=bp.likelihoods.Categorical(), input_shape=(4,)
    )
    return bp.fit_svi(rng_key, bnn, data, num_steps=3, batch_size=11, progress=False)


@pytest.fixture
def compilations(caplog) -> Iterator[Callable[[], list[str]]]:
    """The names of the threads by which steps were compiled; of all threads, which the context manager of JAX is not."""
    before = jax.config.jax_log_compiles
    jax.config.update("jax_log_compiles", True)
    caplog.set_level("WARNING")
    yield lambda: [r.threadName for r in caplog.records if "Finished XLA compilation of jit(run)" in r.getMessage()]
    jax.config.update("jax_log_compiles", before)


@pytest.mark.parametrize(
    ("committed", "width", "by"),
    [(False, 6, "bayesprune-compile"), pytest.param(True, 7, "MainThread", marks=pytest.mark.slow)],
)
def test_the_steps_are_compiled_once_ahead_unless_arrays_are_committed(compilations, committed, width, by) -> None:
    put = (lambda tree: jax.device_put(tree, jax.devices()[0])) if committed else (lambda tree: tree)
    fitted(put(jax.random.key(0)), put(DATA), width)
    fitted(put(jax.random.key(1)), put(DATA), width)
    assert [name.partition("_")[0] for name in compilations()] == [by]
