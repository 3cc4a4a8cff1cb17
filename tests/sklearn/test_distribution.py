"""The predictive distribution of a regressor: its methods against one another, and against its own moments."""

import copy

import numpy as np
import pytest
from scipy.integrate import trapezoid

import bayesprune as bp
from tests.sklearn.problems import LINEAR, linear_rows


@pytest.fixture(scope="module")
def fitted():
    x, y = linear_rows()
    return bp.BayesianSparseRegressor(**LINEAR).fit(x, 7.0 + 3.0 * y), x[:5], 7.0 + 3.0 * y[:5]


@pytest.mark.slow
def test_quantiles_are_those_of_the_density(fitted):
    """The density integrates to 1, and to a level up to its quantile; both are computed apart."""
    model, x, _ = fitted
    row, grid = x[:1], np.linspace(-20.0, 34.0, 500)
    density = np.exp(model.log_density(np.repeat(row, len(grid), axis=0), grid))
    assert trapezoid(density, grid) == pytest.approx(1, abs=2e-3)
    for level in (0.1, 0.5, 0.9):
        (quantile,) = model.predict_quantiles(row, [level])[0]
        below = grid <= quantile
        assert trapezoid(density[below], grid[below]) == pytest.approx(level, abs=0.02)  # the grid's step


@pytest.mark.slow
def test_samples_have_the_moments_of_the_prediction(fitted):
    """4,000 targets of a row: the mean is off by more than 5 standard errors once in 2 million rows."""
    model, x, _ = fitted
    drawn = model.sample_y(x, 4000)
    mean, std = copy.copy(model).set_params(num_samples=1000).predict(x, return_std=True)
    assert drawn.shape == (5, 4000)
    # Other networks than those of the prediction: a thousand of them have an error of their own.
    assert (np.abs(drawn.mean(axis=1) - mean) < 5 * std * np.sqrt(1 / 4000 + 1 / 1000)).all()
    np.testing.assert_allclose(drawn.std(axis=1), std, rtol=0.15)
    np.testing.assert_array_equal(drawn, model.sample_y(x, 4000))
    assert (drawn != model.sample_y(x, 4000, random_state=1)).any()


def test_an_interval_is_two_quantiles_and_bad_levels_are_named(fitted):
    model, x, _ = fitted
    # (1 - .8) / 2 is not .1 to the last bit.
    np.testing.assert_allclose(model.predict_interval(x, 0.8), model.predict_quantiles(x, (0.1, 0.9)), rtol=1e-12)
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 90"):
        model.predict_interval(x, 90)
    with pytest.raises(ValueError, match=r"quantiles must be a list of probabilities in \(0, 1\), got 0.5"):
        model.predict_quantiles(x, 0.5)


def test_draws_are_the_networks_of_the_prediction_and_its_spread_has_two_parts(fitted):
    model, x, _ = fitted
    draws, (mean, std), parts = model.predict_draws(x), model.predict(x, return_std=True), model.uncertainty(x)
    assert draws.shape == (50, 5)
    np.testing.assert_allclose(draws.mean(axis=0), mean, rtol=1e-6)
    np.testing.assert_allclose(parts.epistemic, draws.var(axis=0), rtol=1e-4)
    np.testing.assert_allclose(parts.total, std**2, rtol=0.05)  # 50 draws of the noise beside its mean in closed form
    np.testing.assert_allclose(parts.total, parts.aleatoric + parts.epistemic)


@pytest.mark.slow
def test_networks_drawn_predict_what_the_estimator_does(fitted):
    """A linear model by hand, in standard units and back: the mean of 400 networks, off by 5 standard errors at most."""
    model, x, _ = fitted
    rows, y = linear_rows()
    drawn = model.sample_posterior(400)
    assert {site: values.shape for site, values in drawn.items()} == {"Dense_0.kernel": (400, 6, 1), "Dense_0.bias": (400, 1)}
    assert (drawn["Dense_0.kernel"][:, ~model.mask_["Dense_0.kernel"]] == 0).all()
    z, unit = (x - rows.mean(0)) / rows.std(0), (7.0 + 3.0 * y).std()
    by_hand = (7.0 + 3.0 * y).mean() + unit * ((z @ drawn["Dense_0.kernel"])[..., 0] + drawn["Dense_0.bias"])
    error = by_hand.std(axis=0) * np.sqrt(1 / 400 + 1 / 50)
    assert (np.abs(by_hand.mean(axis=0) - model.predict(x)) < 5 * error).all()
    kernel = drawn["Dense_0.kernel"]
    np.testing.assert_array_equal(kernel, model.sample_posterior(400)["Dense_0.kernel"])
    assert (kernel != model.sample_posterior(400, random_state=1)["Dense_0.kernel"]).any()
    with pytest.raises(ValueError, match="n_samples must be"):
        model.sample_posterior(0)


@pytest.mark.every
@pytest.mark.slow
def test_several_targets_and_counts():
    x, y = linear_rows()
    both = bp.BayesianSparseRegressor(**LINEAR).fit(x, np.column_stack([y, 100 * y]))
    assert both.predict_draws(x).shape == (50, 120, 2)
    parts = both.uncertainty(x)
    np.testing.assert_allclose(parts.total[:, 1] / parts.total[:, 0], 1e4, rtol=0.5)
    assert both.predict_interval(x).shape == (120, 2, 2) and both.sample_y(x, 3).shape == (120, 2, 3)
    assert both.log_density(x, np.column_stack([y, 100 * y])).shape == (120,)
    counts = np.random.default_rng(0).poisson(np.exp(0.5 * y)).astype(float)
    model = bp.BayesianSparseRegressor(**LINEAR, likelihood="poisson").fit(x, counts)
    quantiles = model.predict_quantiles(x, (0.05, 0.95))
    np.testing.assert_array_equal(quantiles, np.round(quantiles))
    assert 0.85 < np.mean((quantiles[:, 0] <= counts) & (counts <= quantiles[:, 1])) <= 1


def test_one_column_is_not_the_target_of_every_output(fitted):
    model, x, y = fitted
    rng = np.random.default_rng(0)
    two = bp.BayesianSparseRegressor(hidden=(), num_steps=20, num_samples=5, random_state=0).fit(x, rng.standard_normal((5, 2)))
    for targets, estimator, wanted in ((y, two, 2), (y[:, None], two, 2), (np.stack([y, y], axis=1), model, 1)):
        with pytest.raises(ValueError, match=rf"y has {3 - wanted} column\(s\), and the fit had {wanted}"):
            estimator.log_density(x, targets)


def test_masked_quantiles_and_weights_are_refused(fitted):
    model, x, y = fitted
    with pytest.raises(ValueError, match="quantiles is a masked array"):
        model.predict_quantiles(x, np.ma.array([0.5, 0.9], mask=[0, 1]))
    with pytest.raises(ValueError, match="sample_weight is a masked array"):
        model.score(x, y, sample_weight=np.ma.array(np.ones(5), mask=[0, 0, 0, 0, 1]))
