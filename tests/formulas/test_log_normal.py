"""Log-normal scales: divergences and probabilities against quadrature and SciPy's distributions, in double precision."""

import jax
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from bayesprune.formulas import log_normal, quadrature, regularised

# Mean and standard deviation of log s.
LAWS = [(-3.0, 0.1), (-0.25, 0.5), (0.4, 1.0), (2.0, 0.7)]


def divergence(loc: float, scale: float, prior: object) -> float:
    """KL by an integral over log s, where the prior's density has the factor s."""

    def term(x: float) -> float:
        return stats.norm.pdf(x, loc, scale) * (stats.norm.logpdf(x, loc, scale) - x - prior.logpdf(np.exp(x)))

    return integrate.quad(term, loc - 10 * scale, loc + 10 * scale, limit=400)[0]


@pytest.mark.parametrize("law", LAWS)
def test_divergences_3_2_from_gamma_and_inverse_gamma(law, float64) -> None:
    """(3.2)."""
    a, b = 2.5, 0.6
    np.testing.assert_allclose(log_normal.kl_gamma(*law, a, b), divergence(*law, stats.gamma(a, scale=1 / b)), rtol=1e-8)
    inverse = divergence(*law, stats.invgamma(a, scale=b))
    np.testing.assert_allclose(log_normal.kl_inverse_gamma(*law, a, b), inverse, rtol=1e-8)


@pytest.mark.parametrize("law", LAWS)
def test_divergence_3_3_from_the_half_cauchy(law, float64) -> None:
    """(3.3)."""
    ours = log_normal.kl_half_cauchy(*law, 0.3)
    np.testing.assert_allclose(ours, divergence(*law, stats.halfcauchy(scale=0.3)), atol=1e-6)


@pytest.mark.parametrize(("scale", "error"), [(2.0, 1e-4), (5.0, 1e-2)])
def test_the_error_of_3_3_is_what_its_page_says(scale, error, float64) -> None:
    off = abs(log_normal.kl_half_cauchy(-0.25, scale, 0.3) - divergence(-0.25, scale, stats.halfcauchy(scale=0.3)))
    assert 1e-8 < off < error


@pytest.mark.parametrize(("scale", "gap"), [(0.1, 0.00035), (0.5, 0.021), (1.0, 0.363), (2.0, 5.14)])
def test_the_auxiliary_3_4_costs_the_gap_of_jensen(scale, gap, float64) -> None:
    """(3.4) is the optimum over the auxiliary, here found by search, and lies above the divergence by what is said."""
    loc, b = -0.25, 0.3
    joined = np.log(np.exp(-2 * loc + 2 * scale**2) + b**-2)
    bound = loc - 0.5 * np.log(8 * np.pi * np.e * scale**2) + np.log(np.pi * b) + joined
    rates = np.geomspace(1e-3, 1e6, 40_001)
    # q(lam) = InvGamma(1, rate): E log p(s² | lam) + E log p(lam) + its entropy, in closed form, and the entropy of log s².
    m, v = 2 * loc, 4 * scale**2
    log_lam = np.log(rates) + np.euler_gamma
    inverse = 1 / rates
    within = -0.5 * log_lam - np.log(np.sqrt(np.pi)) - m / 2 - np.exp(-m + v / 2) * inverse
    prior = -np.log(b * np.sqrt(np.pi)) - 1.5 * log_lam - inverse / b**2
    entropy = 1 + np.log(rates) + 2 * np.euler_gamma
    worst = -(within + prior + entropy) - 0.5 * np.log(2 * np.pi * np.e * v)
    np.testing.assert_allclose(bound, worst.min(), atol=1e-4)
    np.testing.assert_allclose(bound - log_normal.kl_half_cauchy(loc, scale, b), gap, rtol=0.05)


def test_probability_below_3_5_is_of_the_product(float64) -> None:
    """(3.5)."""
    ours = log_normal.probability_below(0.02, -3.0 - 1.0, np.hypot(0.6, 0.8))
    np.testing.assert_allclose(ours, stats.lognorm(s=1.0, scale=np.exp(-4.0)).cdf(0.02), rtol=1e-12)
    np.testing.assert_array_equal(log_normal.probability_below(1.0, np.array([-1.0, 1.0]), 0.0), [1.0, 0.0])


@pytest.mark.parametrize("law", LAWS)
def test_expected_shrinkage_3_6(law, float64) -> None:
    """(3.6)."""
    factor = integrate.quad(lambda x: stats.norm.pdf(x, *law) / (1 + np.exp(2 * x)), law[0] - 10, law[0] + 10, limit=400)[0]
    np.testing.assert_allclose(log_normal.expected_shrinkage(*law), factor, rtol=1e-5)


@pytest.mark.parametrize("law", LAWS)
def test_log_mode_16_4_and_moments(law, float64) -> None:
    """(16.4): where the density is highest, found by search; and SciPy's variance."""
    exact = stats.lognorm(s=law[1], scale=np.exp(law[0]))
    found = optimize.minimize_scalar(lambda x: -exact.logpdf(np.exp(x)), bounds=(law[0] - 9, law[0] + 9), method="bounded")
    np.testing.assert_allclose(log_normal.log_mode(*law), found.x, atol=1e-4)
    np.testing.assert_allclose(log_normal.variance(*law), exact.var(), rtol=1e-10)


def test_a_half_cauchy_scale_has_the_horseshoe_as_shrinkage() -> None:
    """kappa of (3.6) with s ~ C+(0, 1) is Beta(1/2, 1/2): 20,000 draws, five standard errors (fixed key)."""
    s = stats.halfcauchy.rvs(size=20_000, random_state=0)
    kappa = 1 / (1 + s**2)
    for share in (0.1, 0.5, 0.9):
        below = np.mean(kappa < stats.beta(0.5, 0.5).ppf(share))
        assert abs(below - share) < 5 * np.sqrt(share * (1 - share) / 20_000)


def test_quadrature_is_exact_for_polynomials(float64) -> None:
    moment = quadrature.expect(lambda t: t**6, np.array([0.0, 1.0]), 2.0, count=4)
    np.testing.assert_allclose(moment, [15 * 64, 1 + 15 * 4 + 45 * 16 + 15 * 64], rtol=1e-12)


@pytest.mark.parametrize("spread", [(0.0, 0.0), (0.5, 0.3), (1.0, 1.0)])
def test_expected_scale_of_3_1_against_an_integral(spread, float64) -> None:
    """E gamma over both scales, by the trapezoidal rule on a fine grid."""
    (loc, precision), (sd_loc, sd_precision) = (0.3, -0.8), spread

    z = np.linspace(-9, 9, 1201)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    s2, c2 = np.exp(2 * (loc + sd_loc * z)), np.exp(-(precision + sd_precision * z))
    exact = weight @ np.sqrt(np.outer(s2, c2) / np.add.outer(s2, c2)) @ weight
    ours = regularised.expected_scale(loc, sd_loc, (precision, sd_precision))
    np.testing.assert_allclose(ours, exact, rtol=1e-4)


def test_the_slab_bounds_without_overflow() -> None:
    """(3.1) in float32, from 1e-30 to 1e30, with slopes."""
    widths = np.array([1e-30, 1e-3, 1.0, 1e30], np.float32)
    value, slope = jax.vmap(jax.value_and_grad(regularised.scale), (0, None))(widths, 4.0)
    np.testing.assert_allclose(value, [1e-30, 1e-3, 5**-0.5, 0.5], rtol=1e-5)
    np.testing.assert_allclose(slope[:3], [1.0, 1.0, 5**-1.5], rtol=1e-4)
    assert 0 <= slope[3] < 1e-20
