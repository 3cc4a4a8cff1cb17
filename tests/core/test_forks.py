"""A process forked from one that computes cannot compute: it is refused at once, not left waiting."""

import multiprocessing
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from tests.deploy.functions import compact_of, program_of

import bayesprune as bp
from bayesprune.sklearn import BayesianSparseClassifier

X, Y = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2


SMALL = compact_of(program_of(lambda w, x: jax.numpy.tanh(x), {}, (3,)))


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


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("call", [fit_a_network, predict, fit_an_estimator, predict_small, draw_small])
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
