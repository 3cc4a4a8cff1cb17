"""Fits of nearly as many rows share what is compiled."""

import numpy as np
import pytest

import bayesprune as bp
from bayesprune.train.loop import compile_loop


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["auto", "flat"])
def test_folds_of_other_sizes_compile_nothing(prior) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 3))
    settings = {"hidden": (4,), "prior": prior, "num_steps": 3, "batch_size": 32, "num_samples": 2, "random_state": 0}
    make = lambda: bp.BayesianSparseRegressor(**settings)  # noqa: E731
    make().fit(x[:142], x[:142, 0])
    before = compile_loop.cache_info()
    models = [make().fit(x[:rows], x[:rows, 0]) for rows in (139, 141, 144)]
    after = compile_loop.cache_info()
    assert after.misses == before.misses
    assert len({model.predict(x).tobytes() for model in models}) == 3  # of other rows, other fits
