"""IVON's formulas, against NumPy, exact integrals and (2.5)."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from bayesprune.formulas import gaussian, ivon

LAM, DELTA = 50.0, 0.02


def test_both_estimates_have_the_mean_second_derivative(float64) -> None:
    """(24.1): by Gauss-Hermite quadrature of f(w) = w^4/24 - w^3, f'' = w²/2 - 6 w, at N(m, s²)."""
    m, h = 0.7, 0.3
    s = (LAM * (h + DELTA)) ** -0.5
    nodes, weights = hermegauss(20)
    w, share = m + s * nodes, weights / weights.sum()
    slope = w**3 / 6 - 3 * w**2
    exact = share @ (w**2 / 2 - 6 * w)
    np.testing.assert_allclose(share @ np.asarray(ivon.curvature_of_draw(slope, w - m, h, LAM, DELTA)), exact, rtol=1e-10)
    of_divergence = (s * LAM * DELTA - 1 / s) / LAM  # d/ds of KL(N(m, s²) || N(0, 1/(lam delta))) / lam
    whole = slope * nodes + of_divergence
    np.testing.assert_allclose(
        np.asarray(ivon.curvature_of_spread(whole, s, LAM, DELTA)), slope * nodes / s, rtol=1e-8, err_msg="draw by draw"
    )
    np.testing.assert_allclose(ivon.curvature_of_spread(share @ whole, s, LAM, DELTA), exact, rtol=1e-8)


def test_the_curvature_is_the_published_form_and_stays_positive(float64) -> None:
    """(24.2)."""
    rng = np.random.default_rng(0)
    h, hh, b2 = rng.uniform(-0.9 * DELTA, 1.0, 1000), 100.0 * rng.standard_cauchy(1000), 0.6
    plain = b2 * h + (1 - b2) * hh + (1 - b2) ** 2 * (h - hh) ** 2 / (2 * (h + DELTA))
    found = np.asarray(ivon.curvature_after(h, hh, DELTA, b2))
    np.testing.assert_allclose(found, plain, rtol=1e-9, atol=1e-9)
    assert (found + DELTA >= 0.5 * (h + DELTA) * (1 - 1e-9)).all() and (hh < -1.0).sum() > 100


def test_the_step_is_newton_s_on_a_quadratic(float64) -> None:
    """(24.3): with the exact gradient and curvature of h (w - a)²/2 + delta w²/2 one step of rate 1 ends at its minimum."""
    h, a, m = np.array([0.5, 2.0]), np.array([1.0, -3.0]), np.array([4.0, 0.1])
    moved = m - np.asarray(ivon.newton_step(m, (1 - 0.9) * h * (m - a), h, DELTA, 1 - 0.9))
    np.testing.assert_allclose(moved, h * a / (h + DELTA), rtol=1e-12)


@pytest.mark.parametrize("h", [0.0, 0.01, 5.0])
def test_the_evidence_is_that_of_the_posterior(h, float64) -> None:
    """(24.4) is (2.5) of N(m, 1/(lam (h + delta))) under N(0, 1/(lam delta)); curvatures below zero count as none."""
    m = jnp.array([0.0, 0.1, -2.0])
    scale, prior = (LAM * (h + DELTA)) ** -0.5, (LAM * DELTA) ** -0.5
    expected = gaussian.log_evidence_gain_of_removal(m, scale, prior)
    np.testing.assert_allclose(ivon.evidence_of_removal(m, h, LAM, DELTA), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(
        ivon.evidence_of_removal(m, -0.5 * DELTA, LAM, DELTA), ivon.evidence_of_removal(m, 0.0, LAM, DELTA)
    )
