"""Removal from correlated posteriors, against the evidence of regressions with and without the column."""

import jax
import jax.numpy as jnp
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
    np.testing.assert_allclose(gaussian.log_evidence_gain_of_removal(loc, np.diag(covariance) ** 0.5, SCALE), exact, rtol=1e-8)


@pytest.mark.slow
def test_20_2_is_the_posterior_of_the_regression_without_the_column(float64) -> None:
    """(20.2), removed one after the other."""
    x, y, loc, covariance = regression(0.8)
    alive = jnp.array([True, False, True])
    mean, factor = removal.given_zero(jnp.array(loc)[:, None], jnp.linalg.cholesky(jnp.array(covariance)), alive)
    mean, rest = mean[:, 0], factor @ factor.T
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
        exact = np.asarray(gaussian.log_evidence_gain_of_removal(loc, np.diag(covariance) ** 0.5, SCALE))
        assert (diagonal[0] < 3 * exact[0]) == apart


def turned(loc, covariance, alive):
    """Mean and covariance given that the dead weights are zero, by the textbook's blocks."""
    dead = ~alive
    slope = covariance[np.ix_(alive, dead)] @ np.linalg.inv(covariance[np.ix_(dead, dead)])
    return loc[alive] - slope @ loc[dead], covariance[np.ix_(alive, alive)] - slope @ covariance[np.ix_(dead, alive)]


@pytest.mark.slow
@pytest.mark.parametrize("alive", [[1, 0, 1, 0, 0, 1], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
def test_20_3_is_the_posterior_given_zeros(alive, float64) -> None:
    """(20.3), three columns at once, against the blocks; what is dead is exactly zero, and a second time changes nothing."""
    rng, alive = np.random.default_rng(4), np.array(alive, bool)
    factor, loc = np.tril(rng.normal(size=(6, 6))), rng.normal(size=(6, 3))
    np.fill_diagonal(factor, rng.uniform(0.2, 2, 6))
    mean, left = (np.asarray(part) for part in jax.jit(removal.given_zero)(*map(jnp.array, (loc, factor, alive))))
    assert not mean[~alive].any() and not left[~alive].any() and not left[:, ~alive].any() and (np.tril(left) == left).all()
    assert np.all(np.diagonal(left)[alive] > 0)
    if alive.any() and not alive.all():
        for column in range(3):
            expected, covariance = turned(loc[:, column], factor @ factor.T, alive)
            np.testing.assert_allclose(mean[alive, column], expected, rtol=1e-9)
            np.testing.assert_allclose((left @ left.T)[np.ix_(alive, alive)], covariance, rtol=1e-8, atol=1e-12)
    for one, other in zip(removal.given_zero(*map(jnp.array, (mean, left, alive))), (mean, left), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.slow
def test_20_3_keeps_its_digits_in_single_precision() -> None:
    """Twins of correlation 1 - 5e-7 with a third weight: what is left of it, 1e-3 of its variance, to a part in a thousand."""
    exact = np.array([[1.0, 0, 0], [1.0, 1e-3, 0], [0.999, 0.03, 0.0316]])
    alive = np.array([False, False, True])
    _, left = removal.given_zero(jnp.zeros((3, 1), jnp.float32), jnp.asarray(exact, jnp.float32), jnp.array(alive))
    np.testing.assert_allclose(np.asarray(left)[2, 2], 0.0316, rtol=1e-3)


@pytest.mark.parametrize("columns", [np.array([True, True, True]), np.array([True, False, True])])
def test_20_4_is_the_ratio_of_densities_at_zero(columns, float64) -> None:
    """(20.4) by SciPy's multivariate normal densities of a row, of posterior and prior; dead columns have no say."""
    rng = np.random.default_rng(5)
    loc, prior = rng.normal(size=(4, 3)), rng.uniform(0.5, 2, (4, 3))
    u, v = ((a := rng.normal(size=(size, size))) @ a.T + np.eye(size) for size in (4, 3))
    expected = [
        stats.multivariate_normal.logpdf(np.zeros(columns.sum()), loc[r, columns], u[r, r] * v[np.ix_(columns, columns)])
        - stats.norm.logpdf(0, 0, prior[r, columns]).sum()
        for r in range(4)
    ]
    # V of the living columns by its factor; the dead have no deviation, and no mean in units of it.
    lower = np.linalg.cholesky(v[np.ix_(columns, columns)])
    whitened = np.zeros((4, 3))
    whitened[:, columns] = np.linalg.solve(lower, loc[:, columns].T).T
    half = np.log(np.diag(lower)).sum()
    got = removal.row_removal_gains(jnp.array(whitened), jnp.sqrt(jnp.diagonal(u)), half, jnp.array(prior), jnp.array(columns))
    np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_one_row_after_another_is_20_3_of_them_all(float64) -> None:
    """Two rows, then a column, by reflections: the covariances, and the mean in both sides' units, against the blocks."""
    rng, row_given_zero = np.random.default_rng(6), jax.jit(removal.row_given_zero)
    a, b, z = (rng.normal(size=shape) for shape in ((5, 5), (4, 4), (5, 4)))
    rows, columns = (a, a @ z), (b, b @ z.T)
    for index in (3, 1):
        factor, by_rows, by_columns = row_given_zero(*map(jnp.array, (*rows, columns[1])), index)
        rows, columns = (factor, by_rows), (columns[0], by_columns)
    factor, by_columns, by_rows = row_given_zero(*map(jnp.array, (*columns, rows[1])), 2)
    alive, living = np.array([1, 0, 1, 0, 1], bool), np.array([1, 1, 0, 1], bool)
    mean, u = turned(a @ z @ b.T, a @ a.T, alive)
    mean, v = turned(mean.T, b @ b.T, living)
    for left, kept, expected in ((rows[0], alive, u), (factor, living, v)):
        np.testing.assert_allclose(np.asarray(left @ left.T)[np.ix_(kept, kept)], expected, atol=1e-12)
        assert not np.asarray(left)[~kept].any()
    np.testing.assert_allclose((by_rows @ factor.T)[alive][:, living], mean.T, atol=1e-12)
    np.testing.assert_allclose((by_columns @ rows[0].T).T[alive][:, living], mean.T, atol=1e-12)


@pytest.mark.slow
def test_a_row_of_zeros_moves_nothing() -> None:
    factor, mean = jnp.array([[0.0, 0.0], [0.6, 0.8]]), jnp.array([[0.0], [1.0]])
    left, moved, across = removal.row_given_zero(factor, mean, jnp.array([[0.3, 0.5]]), 0)
    assert (left == factor).all() and (moved == mean).all() and across.tolist() == [[0.30000001192092896, 0.5]]
