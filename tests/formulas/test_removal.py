"""Removal from correlated posteriors, against the evidence of regressions with and without the column."""

import numpy as np
import pytest
from scipy import stats

from bayesprune.formulas import gaussian, removal

SCALE = 1.3


def regression(rho: float):
    """Rows of three inputs, two of them correlated; the posterior's mean and covariance under N(0, SCALE²), noise 1."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 3))
    x[:, 1] = rho * x[:, 0] + np.sqrt(1 - rho**2) * x[:, 1]
    y = x @ np.array([1.5, 0.0, -0.7]) + rng.normal(size=40)
    covariance = np.linalg.inv(x.T @ x + np.eye(3) / SCALE**2)
    return x, y, covariance @ x.T @ y, covariance


def evidence(x: np.ndarray, y: np.ndarray) -> float:
    """log p(y), the weights integrated out."""
    return stats.multivariate_normal.logpdf(y, cov=np.eye(len(y)) + SCALE**2 * x @ x.T)


@pytest.mark.parametrize("rho", [0.0, 0.8, 0.99])
def test_20_1_is_the_evidence_of_the_regression_without_the_column(rho, float64) -> None:
    """(20.1)."""
    x, y, loc, covariance = regression(rho)
    exact = [evidence(np.delete(x, index, axis=1), y) - evidence(x, y) for index in range(3)]
    np.testing.assert_allclose(removal.removal_gains(loc, covariance, SCALE), exact, rtol=1e-8)


def test_20_2_is_the_posterior_of_the_regression_without_the_column(float64) -> None:
    """(20.2), removed one after the other."""
    x, y, loc, covariance = regression(0.8)
    mean, rest = removal.remove(loc, covariance, 1)
    kept = x[:, [0, 2]]
    smaller = np.linalg.inv(kept.T @ kept + np.eye(2) / SCALE**2)
    np.testing.assert_allclose(np.asarray(mean)[[0, 2]], smaller @ kept.T @ y, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(rest)[np.ix_([0, 2], [0, 2])], smaller, rtol=1e-9)
    assert mean[1] == 0 and not np.asarray(rest)[1].any() and not np.asarray(rest)[:, 1].any()


def test_mean_field_is_too_sure_of_correlated_weights(float64) -> None:
    """With conditional variances (2.5) is far below (20.1) where the weight matters, and near it without correlation."""
    for rho, apart in ((0.95, True), (0.0, False)):
        _, _, loc, covariance = regression(rho)
        conditional = np.diag(np.linalg.inv(covariance)) ** -0.5
        diagonal = np.asarray(gaussian.log_evidence_gain_of_removal(loc, conditional, SCALE))
        exact = np.asarray(removal.removal_gains(loc, covariance, SCALE))
        assert (diagonal[0] < 3 * exact[0]) == apart
