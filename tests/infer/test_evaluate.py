"""Held-out figures, against NumPy on the very predictions they are of."""

import sys
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesprune as bp
from tests.infer import programs
from tests.infer.test_predict import start, tiny

X = programs.classes(rows=20).x
predict_module = sys.modules["bayesprune.infer.predict"]  # `bayesprune.infer` has the function by that name


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


@pytest.mark.fast_cases(1)
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


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [bp.likelihoods.Normal(0.5), bp.likelihoods.Normal(noise="known")], ids=["one", "known"])
def test_memory_of_a_regression_does_not_grow_with_rows(likelihood, rng_key, monkeypatch) -> None:
    """Sizes of arrays, not seconds; and the figures are those of all draws at once."""
    monkeypatch.setattr(predict_module, "_ROWS", 25)
    monkeypatch.setattr(predict_module, "_CHUNKS", 4)
    bnn, networks, peaks = scalar_net(likelihood), 64, []
    params = start(bnn)
    for rows in (300, 4030):
        x = np.resize(X, (rows, 4))
        y = x[:, 0] - x[:, 1]
        y = np.stack([y, np.full(rows, 0.5, np.float32)], 1) if likelihood.known else y
        bp.evaluate(rng_key, bnn, params, bp.Dataset(x, y), num_samples=networks)  # compiled, and read
        tracemalloc.start()
        try:
            figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(x, y), num_samples=networks)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 0.2 * 4 * networks * (4030 - 300)
    draws = bp.predict_draws(rng_key, bnn, params, x, num_samples=networks)
    whole = bp.metrics.regression_summary(draws, x[:, 0] - x[:, 1], 0.5)
    assert figures == {name: pytest.approx(value, rel=1e-9) for name, value in whole.items()}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("column", [False, True], ids=["vector", "column"])
def test_bits(column, rng_key) -> None:
    y = (X[:, 0] > 0).astype(np.int32)
    bnn = scalar_net(bp.likelihoods.Bernoulli())
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, y[:, None] if column else y), num_samples=3)
    mean = bp.predict(rng_key, bnn, params, X, num_samples=3)
    assert figures["accuracy"] == pytest.approx(np.mean((mean > 0.5) == y))
    assert figures["brier"] == pytest.approx(np.mean((mean - y) ** 2), rel=1e-5)


class Laplace:
    """A likelihood of a user's own: real targets, wide tails, and the four methods of the protocol alone."""

    def observe(self, outputs, y):
        with numpyro.plate("rows", outputs.shape[0]):
            return numpyro.sample("obs", dist.Laplace(outputs[:, 0], 0.5), obs=y)

    def guide(self, family):
        return None

    def mean(self, outputs):
        return outputs[:, 0]

    def check(self, y, num_outputs):
        return None


@pytest.mark.slow
def test_real_targets_of_a_likelihood_of_ones_own_are_scored_by_its_density(rng_key) -> None:
    bnn, y = scalar_net(Laplace()), X[:, 0] - X[:, 1]
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, y), num_samples=3)
    draws = bp.predict_draws(rng_key, bnn, params, X, num_samples=3)[..., 0].astype(np.float64)
    assert set(figures) == {"rmse", "nll", "crps", "coverage", "interval_width"}
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((draws.mean(0) - y) ** 2)), rel=1e-5)
    density = np.exp(-np.abs(y - draws) / 0.5)  # over 2 * 0.5
    assert figures["nll"] == pytest.approx(-np.mean(np.log(density.mean(0))), rel=1e-4)


class Sharp(Laplace):
    """Says itself what its figures are."""

    def metrics(self, draws, y, params):
        assert draws.shape == (3, 20, 1) and y.shape == (20,) and "Dense_0.kernel_auto_loc" in params
        return {"within": np.mean(np.abs(draws.mean(0)[:, 0] - y) < 1.0)}


def test_a_likelihood_may_name_its_own_figures(rng_key) -> None:
    bnn, y = scalar_net(Sharp()), X[:, 0]
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, y), num_samples=3)
    mean = bp.predict_draws(rng_key, bnn, params, X, num_samples=3).mean(0)[:, 0]
    assert figures == {"within": float(np.mean(np.abs(mean - y) < 1.0))} and type(figures["within"]) is float


class Smoothed(Laplace):
    """Class labels, one in ten of which is any label; its noise is part of its mean."""

    def observe(self, outputs, y):
        with numpyro.plate("rows", outputs.shape[0]):
            return numpyro.sample("obs", dist.Categorical(probs=self.mean(outputs)), obs=y)

    def mean(self, outputs):
        return 0.9 * jax.nn.softmax(outputs) + 0.1 / outputs.shape[-1]


def test_labels_of_a_likelihood_of_ones_own_are_scored_as_classes(rng_key) -> None:
    bnn, data = tiny(likelihood=Smoothed()), programs.classes(rows=20)
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, data, num_samples=3)
    probs = bp.predict(rng_key, bnn, params, data.x, num_samples=3)
    assert figures["accuracy"] == pytest.approx(np.mean(probs.argmax(1) == data.y))
    assert figures["nll"] == pytest.approx(-np.mean(np.log(probs[np.arange(20), data.y])), rel=1e-5)


class Silent(Smoothed):
    """Neither a density of each row nor a mean of the targets' shape."""

    def observe(self, outputs, y):
        numpyro.factor("penalty", -jnp.sum(outputs**2))

    def mean(self, outputs):
        return outputs


def test_a_likelihood_that_says_nothing_has_no_figures(rng_key) -> None:
    bnn, data = tiny(likelihood=Silent()), programs.classes(rows=20)
    with pytest.raises(TypeError, match=r"give it a method metrics\(draws, y, params\)"):
        bp.evaluate(rng_key, bnn, start(bnn), data, num_samples=3)


def test_rows_alone_are_refused(rng_key) -> None:
    bnn = tiny()
    with pytest.raises(TypeError, match=r"data must have fields x and y, got ndarray: wrap your arrays as bp\.Dataset"):
        bp.evaluate(rng_key, bnn, start(bnn), X)
    with pytest.raises(ValueError, match=r"data\.x and data\.y must have one row per example, got \(20, 4\) and \(3,\)"):
        bp.evaluate(rng_key, bnn, start(bnn), bp.Dataset(X, np.zeros(3, int)))


@pytest.mark.parametrize(("params", "got"), [(None, "NoneType"), (bp.Pruned({}, {}, {}), "Pruned: give its .params")])
def test_what_is_no_parameters_is_refused(rng_key, params, got) -> None:
    bnn = bp.BNN(bp.nets.MLP((3,), 1), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=(4,))
    with pytest.raises(TypeError, match=f"params must be parameters by name, got {got}"):
        bp.evaluate(rng_key, bnn, params, bp.Dataset(X, X[:, 0]))


def test_a_program_has_no_figures(rng_key) -> None:
    data, _ = programs.line()
    with pytest.raises(TypeError, match=r"bnn must be a bp\.BNN, got Program"):
        bp.evaluate(rng_key, programs.linear_program(), {}, data)
    with pytest.raises(TypeError, match=r"bnn must be a bp\.BNN, got Program"):
        bp.fit_svi(rng_key, programs.linear_program(), data, num_steps=1, eval_data=data)


@pytest.mark.parametrize("likelihood", [bp.likelihoods.Bernoulli(), bp.likelihoods.Poisson()], ids=["bits", "sampled"])
@pytest.mark.parametrize("given", [lambda array: array, np.ndarray.tolist], ids=["arrays", "lists"])
def test_bits_and_lists_are_taken_as_a_fit_takes_them(likelihood, given, rng_key) -> None:
    bnn, y = scalar_net(likelihood), X[:, 0] > 0
    params = start(bnn)
    numbers = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, y.astype(np.int32)), num_samples=3)
    assert bp.evaluate(rng_key, bnn, params, bp.Dataset(given(X), given(y)), num_samples=3) == numbers


def test_labels_of_two_classes_may_be_bits(rng_key) -> None:
    bnn = bp.BNN(bp.nets.MLP((3,), 2), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    params, y = start(bnn), X[:, 0] > 0
    numbers = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, y.astype(np.int32)), num_samples=3)
    assert bp.evaluate(rng_key, bnn, params, bp.Dataset(X.tolist(), y.tolist()), num_samples=3) == numbers
    small = bp.compact(bnn, params, None)
    numbers = bp.evaluate(rng_key, small, None, bp.Dataset(X, y.astype(np.int32)), num_samples=3)
    assert bp.evaluate(rng_key, small, None, bp.Dataset(X, y), num_samples=3) == numbers


def test_other_numbers_than_bits_are_refused_of_a_compact_network_too(rng_key) -> None:
    bnn = scalar_net(bp.likelihoods.Bernoulli())
    small = bp.compact(bnn, start(bnn), None)
    for y in (np.arange(20) % 2 + 1, np.full(20, 0.5)):
        with pytest.raises(ValueError, match=r"data\.y must hold only 0 and 1"):
            bp.evaluate(rng_key, small, None, bp.Dataset(X, y), num_samples=2)
