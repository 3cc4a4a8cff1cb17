"""Held-out figures, against NumPy on the very predictions they are of."""

import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from tests.infer import programs
from tests.infer.test_predict import start, tiny

X = programs.classes(rows=20).x


def scalar_net(likelihood) -> bp.BNN:
    return bp.BNN(bp.nets.MLP(hidden=(3,), num_outputs=1), prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(4,))


def test_classification(rng_key) -> None:
    bnn, data = tiny(), programs.classes(rows=20)
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, data, num_samples=3)
    probs = bp.predict(rng_key, bnn, params, data.x, num_samples=3)
    assert set(figures) == {"accuracy", "nll", "ece", "brier", "ece_quantile", "calibration_marginal"}
    assert all(type(value) is float for value in figures.values())
    assert figures["accuracy"] == pytest.approx(np.mean(probs.argmax(1) == data.y))
    assert figures["nll"] == pytest.approx(-np.mean(np.log(probs[np.arange(20), data.y])), rel=1e-5)


@pytest.mark.parametrize("column", [False, True], ids=["vector", "column"])
def test_regression_and_its_noise(column, rng_key) -> None:
    y = (X[:, 0] - X[:, 1])[:, None] if column else X[:, 0] - X[:, 1]
    bnn = scalar_net(bp.likelihoods.Normal())
    params = start(bnn)
    params["noise_precision_log_loc"] = jnp.log(4.0)
    params["noise_precision_log_scale"] = jnp.float32(0.1)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, y), num_samples=3)
    draws = bp.predict_draws(rng_key, bnn, params, X, num_samples=3)[..., 0].astype(np.float64)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((draws.mean(0) - np.ravel(y)) ** 2)), rel=1e-5)
    density = np.exp(-0.5 * ((np.ravel(y) - draws) / 0.5) ** 2) / (0.5 * np.sqrt(2 * np.pi))
    assert figures["nll"] == pytest.approx(-np.mean(np.log(density.mean(0))), rel=1e-4)
    assert {"rmse", "nll", "coverage"} <= set(figures)


@pytest.mark.parametrize("column", [False, True], ids=["vector", "column"])
def test_bits(column, rng_key) -> None:
    y = (X[:, 0] > 0).astype(np.int32)
    bnn = scalar_net(bp.likelihoods.Bernoulli())
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, y[:, None] if column else y), num_samples=3)
    mean = bp.predict(rng_key, bnn, params, X, num_samples=3)
    assert figures["accuracy"] == pytest.approx(np.mean((mean > 0.5) == y))
    assert figures["brier"] == pytest.approx(np.mean((mean - y) ** 2), rel=1e-5)


def test_a_program_has_no_figures(rng_key) -> None:
    data, _ = programs.line()
    with pytest.raises(TypeError, match=r"bnn must be a bp\.BNN, got Program"):
        bp.evaluate(rng_key, programs.linear_program(), {}, data)
    with pytest.raises(TypeError, match=r"bnn must be a bp\.BNN, got Program"):
        bp.fit_svi(rng_key, programs.linear_program(), data, num_steps=1, eval_data=data)
