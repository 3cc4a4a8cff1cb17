"""Bayesian linear regression, whose evidences and posteriors are exact: (2.2) and (2.3) have to hold to rounding."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesprune.formulas import gaussian
from tests.oracles import gaussian_full

DIM, ROWS, NOISE = 5, 40, 0.5


class Problem(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    prior: tuple[np.ndarray, np.ndarray]
    reduced: tuple[np.ndarray, np.ndarray]


def evidence(problem: Problem, prior: tuple[np.ndarray, np.ndarray]) -> float:
    x, y = problem.x, problem.y
    return stats.multivariate_normal.logpdf(y, x @ prior[0], x @ prior[1] @ x.T + NOISE**2 * np.eye(len(y)))


def posterior(problem: Problem, prior: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """By conditioning (the Kalman form), which takes singular priors and inverts no prior covariance."""
    x, (mean, covariance) = problem.x, prior
    gain = covariance @ x.T @ np.linalg.inv(x @ covariance @ x.T + NOISE**2 * np.eye(len(problem.y)))
    return mean + gain @ (problem.y - x @ mean), covariance - gain @ x @ covariance


def covariance(rng: np.random.Generator) -> np.ndarray:
    root = rng.normal(size=(DIM, DIM))
    return root @ root.T / DIM + 0.5 * np.eye(DIM)


def problem(kind: str, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, DIM))
    y = x @ np.array([1.0, -0.5, 0.0, 0.0, 0.3]) + NOISE * rng.normal(size=ROWS)
    prior = (rng.normal(size=DIM), covariance(rng))
    if kind == "removal":  # of the third and fourth weight: the reduced covariance is singular
        keep = np.diag([1.0, 1.0, 0.0, 0.0, 1.0])
        return Problem(x, y, (np.zeros(DIM), prior[1]), (np.zeros(DIM), keep @ prior[1] @ keep))
    return Problem(x, y, prior, (rng.normal(size=DIM), 0.4 * covariance(rng)))


@pytest.mark.parametrize(("double", "rtol"), [(False, 1e-4), (True, 1e-9)])
@pytest.mark.parametrize("kind", ["removal", "another prior"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gain_2_2_is_the_difference_of_exact_evidences(kind: str, seed: int, double: bool, rtol: float) -> None:
    p = problem(kind, seed)
    expected = evidence(p, p.reduced) - evidence(p, p.prior)
    with jax.enable_x64(double):
        arrays = [jnp.asarray(a, float) for a in (*posterior(p, p.prior), *p.prior, *p.reduced)]
        np.testing.assert_allclose(gaussian_full.log_evidence_gain(*arrays), expected, rtol=rtol)


@pytest.mark.parametrize(("double", "tolerance"), [(False, 1e-4), (True, 1e-9)])
@pytest.mark.parametrize("kind", ["removal", "another prior"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_reduced_posterior_2_3_is_exact(kind: str, seed: int, double: bool, tolerance: float) -> None:
    p = problem(kind, seed)
    with jax.enable_x64(double):
        arrays = [jnp.asarray(a, float) for a in (*posterior(p, p.prior), *p.prior, *p.reduced)]
        got = gaussian_full.reduced_posterior(*arrays)
    for ours, exact in zip(got, posterior(p, p.reduced), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=tolerance, atol=tolerance * np.abs(exact).max())
    np.testing.assert_array_equal(got[1], got[1].T)


@pytest.mark.slow
def test_independent_weights_are_the_diagonal_case(float64: None) -> None:
    loc, scale = jnp.asarray([0.3, -1.0]), jnp.asarray([0.2, 0.6])
    prior, reduced = (jnp.asarray([0.1, 0.0]), jnp.asarray([1.0, 1.5])), (jnp.asarray([0.0, -0.5]), jnp.asarray([0.4, 1.0]))
    apart = gaussian.log_evidence_gain(loc, scale, *prior, *reduced).sum()
    together = [(m, jnp.diag(s**2)) for m, s in ((loc, scale), prior, reduced)]
    np.testing.assert_allclose(gaussian_full.log_evidence_gain(*sum(together, ())), apart, rtol=1e-12)


@pytest.mark.slow
def test_gradients_are_finite() -> None:
    p = problem("removal", 0)
    arrays = [jnp.asarray(a, float) for a in (*posterior(p, p.prior), *p.prior, *p.reduced)]
    slopes = jax.grad(gaussian_full.log_evidence_gain, argnums=tuple(range(6)))(*arrays)
    assert all(np.isfinite(slope).all() for slope in slopes)
