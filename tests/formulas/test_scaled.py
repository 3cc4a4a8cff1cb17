"""Moments of products: exact by quadrature of polynomials."""

import numpy as np

from bayesprune.formulas import rounding


def test_moments_16_2_of_a_product(float64) -> None:
    """(16.2): both factors Gaussian, by Gauss-Hermite in two dimensions."""
    x, weight = np.polynomial.hermite_e.hermegauss(8)
    weight = weight / weight.sum()
    product = np.multiply.outer(-0.7 + 0.4 * x, 1.3 + 0.9 * x)
    mean = weight @ product @ weight
    variance = weight @ (product - mean) ** 2 @ weight
    np.testing.assert_allclose(rounding.moments(-0.7, 0.4**2, 1.3, 0.9), (mean, variance), rtol=1e-12)
