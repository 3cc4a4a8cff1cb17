"""Laplace's formulas against searches, and the evidence of the mean field."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from bayesprune.formulas import laplace
from bayesprune.formulas.gaussian import log_evidence_gain


@pytest.mark.parametrize("k", [0.2, 1.0, 1.5, 7.0, 300.0])
def test_25_7_no_removal_gains_under_a_precision_of_ones_own(k, float64) -> None:
    """(25.7): the precision by a search of (25.1), with the posterior's mean that it has, in (2.2)."""
    h, w_ml = 2.5, np.sqrt(k / 2.5)

    def evidence(log_delta: float) -> float:
        return float(stats.norm(0, np.sqrt(1 / h + np.exp(-log_delta))).logpdf(w_ml))

    best = optimize.minimize_scalar(lambda x: -evidence(x), bounds=(-12, 14), method="bounded", options={"xatol": 1e-9}).x
    p = h + np.exp(best)
    gain = float(log_evidence_gain(h * w_ml / p, p**-0.5, 0.0, np.exp(-best / 2), 0.0, 0.0))
    assert gain == pytest.approx(-(k - 1 - np.log(k)) / 2 if k > 1 else 0.0, abs=2e-5)


@pytest.mark.slow
def test_25_6_is_the_least_divergence_of_matrix_normals(float64) -> None:
    """(25.6), against a search over the logarithms of all variances; and exact without a prior."""
    rng = np.random.default_rng(0)
    rows, columns, delta = rng.gamma(1.0, 3.0, 4), rng.gamma(1.0, 1.0, 3), 0.8
    p = np.outer(rows, columns) + delta

    def divergence(logs: np.ndarray) -> float:
        variances = np.exp(logs[:4, None] + logs[4:])
        return 0.5 * float((p * variances - np.log(p * variances) - 1).sum())

    u, v = laplace.nearest_matrix_normal(jnp.array(rows), jnp.array(columns), delta)
    best = optimize.minimize(divergence, np.zeros(7), method="BFGS")
    assert divergence(np.log(np.concatenate([u, v]))) == pytest.approx(best.fun, rel=1e-5, abs=1e-8)
    u, v = laplace.nearest_matrix_normal(jnp.array(rows), jnp.array(columns), 0.0)
    np.testing.assert_allclose(np.outer(u, v), 1 / np.outer(rows, columns), rtol=1e-9)
