"""Log densities reckoned from draws, against SciPy and against those of the compiled program."""

import numpy as np
import pytest
from scipy import stats

import bayesprune as bp
from bayesprune.infer.predict import predict_draws
from bayesprune.sklearn import densities
from bayesprune.sklearn.temperature import cool
from tests.sklearn.problems import NET, linear_rows


def test_a_sure_noise_gives_a_mixture_of_gaussians() -> None:
    """Of two outputs with noise of a scale of their own that is known all but surely, by SciPy's densities."""
    rng = np.random.default_rng(0)
    draws, y = rng.standard_normal((7, 5, 2)), rng.standard_normal((5, 2))
    scale = np.array([0.5, 2.0])
    params = {"noise_precision_log_loc": -2 * np.log(scale), "noise_precision_log_scale": np.full(2, 1e-9)}
    wanted = np.log(stats.norm.pdf(y, draws, scale).prod(axis=2).mean(axis=0))
    np.testing.assert_allclose(densities.of_numbers(rng, params, draws, y), wanted, rtol=1e-6)


def test_a_noise_that_is_not_sure_has_the_density_of_its_law() -> None:
    """20,000 draws of a log-normal precision, by SciPy's quadrature: one draw's density has a deviation below its mean, so that
    their mean is off by 4 % less often than once in 1e7 runs of another key."""
    params = {"noise_precision_log_loc": np.array(0.3), "noise_precision_log_scale": np.array(0.5)}
    nats = densities.of_numbers(np.random.default_rng(0), params, np.zeros((20_000, 1, 1)), np.array([[1.5]]))
    law = stats.norm(0.3, 0.5)
    wanted = law.expect(lambda log_c: stats.norm.pdf(1.5, scale=np.exp(-0.5 * log_c)))
    assert abs(np.exp(nats[0]) / wanted - 1) < 0.04


def test_student_noise_gives_a_mixture_of_ts() -> None:
    """Two outputs, seven networks, one without a variance: by SciPy's densities and moments."""
    rng = np.random.default_rng(0)
    y, loc, scale = rng.standard_normal((5, 2)), rng.standard_normal((7, 5, 2)), rng.uniform(0.5, 2.0, (7, 5, 2))
    df = np.broadcast_to([2.5, 7.0], loc.shape)
    laws = np.stack([df, loc, scale], axis=-1)
    wanted = np.log(stats.t.pdf(y, df, loc, scale).prod(axis=2).mean(axis=0))
    np.testing.assert_allclose(densities.of_t(laws, y), wanted, rtol=1e-10)
    mean, variance = densities.moments_of_t(laws)
    first, second = (stats.t.stats(df, loc, scale, moments="mv")[part] for part in range(2))
    np.testing.assert_allclose(mean, first.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(variance, second.mean(axis=0) + first.var(axis=0), rtol=1e-10)
    laws[0, 0, 0, 0] = 2.0
    assert np.isinf(densities.moments_of_t(laws)[1]).sum() == 1


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_fit_of_heavy_tails_judges_rows_by_the_density_and_moments_that_it_tells(outputs: int) -> None:
    """By NumPyro's own density of the compiled program, and by its draws and variances."""
    x, y = linear_rows()
    y = y if outputs == 1 else np.stack([y, x[:, 0]], axis=1)
    model = bp.BayesianSparseRegressor(**NET, likelihood="student_t").fit(x, y)
    units = np.log(np.ravel(model._target_scaling.scale)).sum()
    judged = model._judged(x, model._target_scaling.apply(np.reshape(y, (len(x), -1))))
    np.testing.assert_allclose(judged.nats - units, model.log_density(x, y), atol=1e-4)
    draws = np.concatenate(list(model._streamed(predict_draws, x)), axis=1, dtype=np.float64).reshape((-1, len(x), outputs))
    variance = np.concatenate(list(model._streamed(densities.variances, x)), axis=1).reshape(draws.shape)
    mean, square = np.moveaxis(judged.foreseen, -1, 0)
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(square - mean**2, draws.var(axis=0) + variance.mean(axis=0), rtol=1e-3)


@pytest.mark.slow
def test_a_fit_judges_rows_by_the_density_that_it_tells() -> None:
    """The public method draws its noise by other numbers: of 20 networks and 120 rows the law of the noise is narrow."""
    x, y = linear_rows()
    model = bp.BayesianSparseRegressor(**NET).fit(x, y)
    nats = model._judged(x, model._target_scaling.apply(y[:, None])[:, 0]).nats
    np.testing.assert_allclose(nats - np.log(model._target_scaling.scale), model.log_density(x, y), atol=0.15)


@pytest.mark.slow
def test_labels_are_judged_by_the_probabilities_that_are_told() -> None:
    x, y = linear_rows()
    labels = (y > 0).astype(int)
    model = bp.BayesianSparseClassifier(**NET).fit(x, labels)
    judged = model._judged(x, labels)
    np.testing.assert_allclose(judged.foreseen[np.arange(len(x)), labels], np.exp(judged.nats), atol=1e-12)
    # At the temperature that these rows ask for, by which the network's own probabilities are cooled.
    model.params_ = cool(model.bnn_, model.params_, float(np.exp(judged.log_temperature)))
    np.testing.assert_allclose(judged.nats, model.log_density(x, labels), atol=1e-5)
