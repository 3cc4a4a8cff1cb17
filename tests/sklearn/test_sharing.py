"""Fits of nearly as many rows share what is compiled."""

import logging

import jax
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


@pytest.mark.slow
def test_what_settled_the_noise_predicts_any_rows(caplog) -> None:
    """One program for the rows that were trained on, those held out, and new ones: means, deviations, intervals, draws."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 3))
    settings = {"hidden": (4,), "num_steps": 3, "batch_size": 32, "num_samples": 2, "random_state": 0, "held_out": 0.2}
    model = bp.BayesianSparseRegressor(**settings)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        model.fit(x, x[:, 0])
        assert compiled(caplog)  # else nothing would be seen below
        caplog.clear()
        for rows in (1, 150, 600):
            model.predict(rng.normal(size=(rows, 3)), return_std=True, interval=0.5)
        model.predict_draws(x)
        assert compiled(caplog) == []


def compiled(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if "XLA compilation" in record.getMessage()]
