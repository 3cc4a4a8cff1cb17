"""IVON's formulas, against NumPy and exact integrals."""

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from bayesprune.formulas import ivon

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
