"""Regression scores against scikit-learn, SciPy quadrature and root finding, and sampling."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, stats
from sklearn.metrics import root_mean_squared_error

from bayesprune.report import metrics
from bayesprune.report.regression import predictive_quantile

RNG = np.random.default_rng(0)
DRAWS = RNG.normal(2.0, 1.5, (7, 11, 2))
Y = RNG.normal(2.0, 2.0, (11, 2))


def slow_nll(draws, y, noise):
    total = 0.0
    for i in range(y.shape[0]):
        per_draw = [np.prod([stats.norm.pdf(y[i, o], d[i, o], noise) for o in range(y.shape[1])]) for d in draws]
        total -= np.log(np.mean(per_draw))
    return total / y.shape[0]


def test_rmse_equals_scikit_learn():
    assert metrics.rmse(DRAWS.mean(0)[:, 0], Y[:, 0]) == pytest.approx(root_mean_squared_error(Y[:, 0], DRAWS.mean(0)[:, 0]))


def test_nll_equals_the_mixture_density_row_by_row():
    assert metrics.gaussian_nll(DRAWS, Y, 0.8) == pytest.approx(slow_nll(DRAWS, Y, 0.8), rel=1e-10)


def test_the_likelihood_integrates_to_one():
    def density(t):
        return np.exp(-metrics.gaussian_nll(DRAWS[:, :1, 0], np.array([t]), 0.3))

    points = sorted(DRAWS[:, 0, 0])
    assert integrate.quad(density, -15, 15, points=points, limit=200)[0] == pytest.approx(1.0, abs=1e-6)


def test_a_far_target_gives_a_large_finite_number():
    assert metrics.gaussian_nll(np.zeros((3, 1)), np.array([1e3]), 0.1) == pytest.approx(0.5e8, rel=1e-6)


def test_interval_ends_are_the_quantiles_of_the_mixture():
    low, high = metrics.predictive_interval(DRAWS, 0.4, level=0.9)
    for i, o in [(0, 0), (4, 1), (10, 0)]:
        for end, probability in ((low, 0.05), (high, 0.95)):
            root = optimize.brentq(
                lambda t, m=DRAWS[:, i, o], p=probability: np.mean(stats.norm.cdf(t, m, 0.4)) - p, -30, 30, xtol=1e-12
            )
            assert end[i, o] == pytest.approx(root, abs=1e-9)


def test_coverage_is_nominal_where_the_model_is_true():
    # Failure budget: 20 000 targets from the predictive distribution itself; 5 standard errors, about 6e-7 for this seed.
    rng = np.random.default_rng(2)
    rows = 20_000
    centre = rng.normal(0, 2, (3, rows))
    y = centre[rng.integers(0, 3, rows), np.arange(rows)] + 0.5 * rng.normal(size=rows)
    assert metrics.coverage(centre, y, 0.5) == pytest.approx(0.95, abs=5 * np.sqrt(0.95 * 0.05 / rows))


def test_without_noise_the_interval_is_that_of_the_draws():
    low, high = metrics.predictive_interval(DRAWS, 0.0)
    np.testing.assert_allclose(low, np.quantile(DRAWS, 0.025, axis=0))
    np.testing.assert_allclose(high, np.quantile(DRAWS, 0.975, axis=0))
    assert metrics.interval_width(DRAWS, 0.0) == pytest.approx(np.mean(high - low))
    assert metrics.coverage(DRAWS, DRAWS.mean(0), 0.0) == 1.0


def test_a_single_draw_gives_the_gaussian_interval():
    assert metrics.interval_width(np.zeros((1, 4)), 2.0) == pytest.approx(2 * stats.norm.ppf(0.975) * 2.0)


def test_noise_per_output_and_per_draw():
    per_output = metrics.gaussian_nll(DRAWS, Y, np.array([0.5, 2.0]))
    slow = [np.mean([np.prod(stats.norm.pdf(Y[i], d[i], [0.5, 2.0])) for d in DRAWS]) for i in range(11)]
    assert per_output == pytest.approx(-np.mean(np.log(slow)), rel=1e-10)
    scales = np.linspace(0.5, 1.5, 7)
    slow = [np.mean([stats.norm.pdf(Y[i, 0], DRAWS[k, i, 0], scales[k]) for k in range(7)]) for i in range(11)]
    got = metrics.gaussian_nll(DRAWS[..., :1], Y[:, 0], scales[:, None, None])
    assert got == pytest.approx(-np.mean(np.log(slow)), rel=1e-10)


def test_summary_agrees_with_its_parts_and_takes_jax():
    got = metrics.regression_summary(jnp.asarray(DRAWS), jnp.asarray(Y), 0.8)
    draws, y = np.asarray(jnp.asarray(DRAWS)), np.asarray(jnp.asarray(Y))
    assert got["rmse"] == metrics.rmse(draws.astype(float).mean(0), y)
    assert got["nll"] == metrics.gaussian_nll(draws, y, 0.8)
    assert got["coverage"] == metrics.coverage(draws, y, 0.8)
    assert got["interval_width"] == metrics.interval_width(draws, 0.8)
    assert all(type(v) is float for v in got.values())


def test_a_column_and_a_vector_are_the_same_targets():
    assert metrics.regression_summary(DRAWS[..., :1], Y[:, 0], 1.0) == metrics.regression_summary(DRAWS[..., 0], Y[:, :1], 1.0)


@pytest.mark.parametrize(
    ("draws", "y", "noise", "message"),
    [
        (DRAWS[0, :, 0], Y[:, 0], 1.0, "leading axis"),
        (DRAWS, Y[:5], 1.0, "y must match"),
        (DRAWS, Y, 0.0, "must be positive"),
        (DRAWS, Y, -1.0, "must not be negative"),
        (DRAWS, Y, np.nan, "noise_scale must be finite"),
        (DRAWS, Y, np.ones(7), r"noise_scale\[:, None, None\]"),
        (DRAWS, Y, np.ma.array(1.0, mask=True), "noise_scale is a masked array"),
        (DRAWS * np.inf, Y, 1.0, "draws must be finite"),
        (DRAWS, Y * np.nan, 1.0, "y must be finite"),
    ],
)
def test_the_door(draws, y, noise, message):
    with pytest.raises(ValueError, match=message):
        metrics.gaussian_nll(draws, y, noise)
    if message != "must be positive":
        with pytest.raises(ValueError, match=message):
            metrics.coverage(draws, y, noise)


def test_rmse_and_level_are_checked():
    with pytest.raises(ValueError, match="same shape"):
        metrics.rmse(np.zeros(3), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="level"):
        metrics.predictive_interval(DRAWS, 1.0, level=95.0)
    with pytest.raises(ValueError, match="everywhere"):
        metrics.predictive_interval(DRAWS, np.array([0.0, 1.0]))


def test_noise_of_some_targets_alone_has_no_quantiles():
    for quantiles in (
        lambda noise: predictive_quantile(DRAWS, noise, 0.9),
        lambda noise: metrics.predictive_interval(DRAWS, noise),
    ):
        with pytest.raises(ValueError, match="positive everywhere or zero everywhere"):
            quantiles(np.arange(2.0))
