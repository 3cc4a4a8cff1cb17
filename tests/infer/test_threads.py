"""Fits and predictions in several threads: NumPyro's handlers are of no thread, so tracing is by one at a time."""

from concurrent.futures import ThreadPoolExecutor

import jax
import pytest

import bayesprune as bp
from tests.infer import programs

DATA = programs.classes(rows=36)


def work(number: int) -> tuple:
    """A fit and a prediction that no other thread compiles: the numbers of rows are of its own."""
    bnn = bp.BNN(bp.nets.MLP((4,), 3), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    fit = bp.fit_svi(jax.random.key(number), bnn, DATA, num_steps=3, batch_size=12 + number, progress=False)
    return fit.params, bp.predict(jax.random.key(1), bnn, fit.params, DATA.x[: 10 + number], num_samples=2)


@pytest.mark.slow
def test_threads_give_what_one_after_another_gives() -> None:
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(work, range(2)))
    for number, (params, probs) in enumerate(together):
        alone = work(number)
        assert programs.same_bits(params, alone[0])
        assert probs.tobytes() == alone[1].tobytes()
