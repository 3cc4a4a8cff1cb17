"""Matrix-normal evidence: multivariate regression is exact, and Kronecker products are enumerated by NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesprune.formulas.matrix_normal import (
    MatrixNormal,
    log_evidence_gain,
    log_evidence_gain_of_shrinkage,
    reduced_posterior,
)

ROWS, COLUMNS, DATA = 3, 2, 12


def spd(rng: np.random.Generator, dim: int) -> np.ndarray:
    root = rng.normal(size=(dim, dim))
    return root @ root.T / dim + 0.5 * np.eye(dim)


@pytest.fixture
def regression() -> tuple[np.ndarray, np.ndarray, MatrixNormal]:
    """Y = X W + E, E ~ MN(0, I, V), prior W ~ MN(M, U, V): the posterior is matrix-normal too."""
    rng = np.random.default_rng(3)
    prior = MatrixNormal(rng.normal(size=(ROWS, COLUMNS)), spd(rng, ROWS), spd(rng, COLUMNS))
    x = rng.normal(size=(DATA, ROWS))
    return x, x @ rng.normal(size=(ROWS, COLUMNS)) + rng.normal(size=(DATA, COLUMNS)), prior


def evidence(x: np.ndarray, y: np.ndarray, noise: np.ndarray, prior: MatrixNormal) -> float:
    """log p(Y) by the full covariance of vec Y, rows first, written out as a product of four indices."""
    spread = np.einsum("ai,ij,bj->ab", x, prior.row_covariance, x)
    total = np.einsum("ab,cd->acbd", spread, prior.column_covariance) + np.einsum("ab,cd->acbd", np.eye(DATA), noise)
    size = DATA * COLUMNS
    return stats.multivariate_normal.logpdf(y.reshape(-1), (x @ prior.loc).reshape(-1), total.reshape(size, size))


def posterior(x: np.ndarray, y: np.ndarray, prior: MatrixNormal) -> MatrixNormal:
    gain = prior.row_covariance @ x.T @ np.linalg.inv(x @ prior.row_covariance @ x.T + np.eye(DATA))
    rows = prior.row_covariance - gain @ x @ prior.row_covariance
    return MatrixNormal(prior.loc + gain @ (y - x @ prior.loc), rows, prior.column_covariance)


def arrays(q: MatrixNormal) -> MatrixNormal:
    return MatrixNormal(*(jnp.asarray(a, float) for a in q))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("double", "rtol"), [(False, 1e-4), (True, 1e-9)])
def test_gain_is_the_difference_of_exact_evidences(regression: tuple, double: bool, rtol: float) -> None:
    x, y, prior = regression
    rng = np.random.default_rng(4)
    reduced = MatrixNormal(rng.normal(size=(ROWS, COLUMNS)), 0.3 * spd(rng, ROWS), 0.7 * spd(rng, COLUMNS))
    noise = prior.column_covariance
    expected = evidence(x, y, noise, reduced) - evidence(x, y, noise, prior)
    with jax.enable_x64(double):
        gain = log_evidence_gain(arrays(posterior(x, y, prior)), arrays(prior), arrays(reduced))
        np.testing.assert_allclose(gain, expected, rtol=rtol)


def test_removing_a_row_is_exact(regression: tuple, float64: None) -> None:
    x, y, prior = regression
    keep = np.diag([1.0, 0.0, 1.0])
    prior = prior._replace(loc=np.zeros((ROWS, COLUMNS)))
    reduced = prior._replace(row_covariance=keep @ prior.row_covariance @ keep)
    noise, q = prior.column_covariance, arrays(posterior(x, y, prior))
    expected = evidence(x, y, noise, reduced) - evidence(x, y, noise, prior)
    np.testing.assert_allclose(log_evidence_gain(q, arrays(prior), arrays(reduced)), expected, rtol=1e-9)
    mean, covariance = reduced_posterior(q, arrays(prior), arrays(reduced))
    exact = posterior(x, y, reduced)
    np.testing.assert_allclose(mean, exact.loc, atol=1e-10)
    spread = np.einsum("ab,cd->acbd", exact.row_covariance, exact.column_covariance).reshape(covariance.shape)
    np.testing.assert_allclose(covariance, spread, atol=1e-10)
    assert (np.abs(mean[1]) < 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize(("double", "rtol"), [(False, 1e-4), (True, 1e-9)])
@pytest.mark.parametrize("theta", [0.0, 0.2, 1.0])
def test_shrinkage_is_exact(regression: tuple, theta: float, double: bool, rtol: float) -> None:
    x, y, prior = regression
    reduced = prior._replace(row_covariance=theta**2 * prior.row_covariance)
    noise = prior.column_covariance
    expected = evidence(x, y, noise, reduced) - evidence(x, y, noise, prior)
    with jax.enable_x64(double):
        gain = log_evidence_gain_of_shrinkage(arrays(posterior(x, y, prior)), arrays(prior), theta)
        np.testing.assert_allclose(gain, expected, rtol=rtol, atol=1e-5 if not double else 1e-10)
