"""A process forked from one that computes cannot compute: it is refused at once, not left waiting."""

import multiprocessing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from tests.deploy.functions import compact_of, program_of

import bayesprune as bp
from bayesprune.deploy.program.weights import Draws
from bayesprune.sklearn import BayesianSparseClassifier

X, Y = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2


SMALL = compact_of(program_of(lambda w, x: x @ w["a"], {"a": (3, 2)}, (3,)), Draws({"a": np.ones((2, 3, 2), np.float32)}))
PARAMS = {"w_auto_loc": np.ones(3, np.float32), "w_auto_scale": np.ones(3, np.float32)}


def fit_a_network(bnn: bp.BNN, rng_key: Any) -> None:
    bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=1, progress=False)


def predict(bnn: bp.BNN, rng_key: Any) -> None:
    bp.predict(rng_key, bnn, {}, X)


def fit_an_estimator(bnn: bp.BNN, rng_key: Any) -> None:
    BayesianSparseClassifier(hidden=(4,), num_steps=1, random_state=0).fit(X, Y)


def predict_small(bnn: bp.BNN, rng_key: Any) -> None:
    """By JAX; its kernels of NumPy run in any process."""
    SMALL.predict(X, engine="jax")


def draw_small(bnn: bp.BNN, rng_key: Any) -> None:
    SMALL.predict_draws(rng_key, X, 2)


def cut(bnn: bp.BNN, rng_key: Any) -> None:
    bp.bmr_prune(PARAMS, prior_scale=1.0)


def own_params(bnn: bp.BNN, rng_key: Any) -> None:
    bnn.net_params(PARAMS)


def prior_of_today(bnn: bp.BNN, rng_key: Any) -> None:
    bp.priors.Posterior(SimpleNamespace(params=PARAMS, mask={}))


CALLS = [fit_a_network, predict, fit_an_estimator, predict_small, draw_small, cut, own_params, prior_of_today]


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("call", CALLS)
def test_a_forked_process_is_refused_at_once(call: Callable[..., None]) -> None:
    bnn = bp.BNN(bp.nets.MLP((), 2), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(3,))
    rng_key = jax.random.key(0)
    jax.block_until_ready(rng_key)  # the parent has computed
    forking = multiprocessing.get_context("fork")
    mine, childs = forking.Pipe()

    def child() -> None:
        try:
            call(bnn, rng_key)
        except Exception as error:
            childs.send(f"{type(error).__name__}: {error}")

    process = forking.Process(target=child)
    process.start()
    try:
        assert mine.poll(30), "the child waits"
        assert (said := mine.recv()).startswith("RuntimeError: this process was forked") and "loky" in said
    finally:
        process.kill()
        process.join()
