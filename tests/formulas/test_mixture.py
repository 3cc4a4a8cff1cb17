"""Spike and slab against enumeration of the two components and SciPy's densities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import entr
from scipy import integrate, optimize, stats

from bayesprune.formulas import mixture

# loc, scale, spike, slab, pi
CASES = [
    (0.0, 0.1, 0.05, 1.0, 0.5),
    (0.2, 0.05, np.exp(-2.0), np.e, 0.25),
    (-1.0, 0.3, 0.4, 2.0, 0.75),
    (0.01, 0.002, np.exp(-6.0), np.e, 0.5),
]


def cross_entropy(loc: float, scale: float, width: float) -> float:
    """E_q[-log N(w; 0, width²)] by quadrature."""
    edges = (loc - 12 * scale, loc + 12 * scale)
    return integrate.quad(lambda w: -stats.norm.logpdf(w, 0, width) * stats.norm.pdf(w, loc, scale), *edges, epsrel=1e-12)[0]


def divergence(loc: float, scale: float, p: float, spike: float, slab: float, pi: float) -> float:
    """KL( q(w) q(z) || prior ), the two values of z enumerated."""
    parts = ((p, pi, slab), (1 - p, 1 - pi, spike))
    entropy = stats.norm.entropy(loc, scale)
    return sum(q * (np.log(q / prior) + cross_entropy(loc, scale, width) - entropy) for q, prior, width in parts)


def penalty(loc, scale, p, spike: float, slab: float, pi: float = 0.5) -> jax.Array:
    """(6.2) for any inclusion probability p within (0, 1]."""
    square = jnp.square(loc) + jnp.square(scale)
    slab, spike = (square / 2 / width**2 + jnp.log(width / share) for width, share in ((slab, pi), (spike, 1 - pi)))
    return p * slab + (1 - p) * spike - entr(p) - entr(1 - p) - jnp.log(scale)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("p", [0.01, 0.5, 0.9])
def test_penalty_6_2_is_the_divergence_plus_a_half(case: tuple[float, ...], p: float) -> None:
    """The first form of (6.2)."""
    loc, scale, *prior = case
    expected = divergence(loc, scale, p, *prior) + 0.5
    with jax.enable_x64(True):
        np.testing.assert_allclose(penalty(loc, scale, p, *prior), expected, rtol=1e-9)


@pytest.mark.slow_cases(2)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_inclusion_6_1_minimises_the_divergence(case: tuple[float, ...]) -> None:
    """(6.1), and the second form of (6.2)."""
    loc, scale, *prior = case
    best = optimize.minimize_scalar(
        lambda odds: divergence(loc, scale, 1 / (1 + np.exp(-odds)), *prior), bounds=(-12, 12), options={"xatol": 1e-9}
    )
    with jax.enable_x64(True):
        np.testing.assert_allclose(mixture.inclusion_log_odds(loc, scale, *prior), best.x, atol=1e-4)
        np.testing.assert_allclose(mixture.collapsed_penalty(loc, scale, *prior), best.fun + 0.5, rtol=1e-9)
    np.testing.assert_allclose(mixture.collapsed_penalty(loc, scale, *prior), best.fun + 0.5, rtol=1e-5)


def test_log_odds_are_the_posterior_odds_of_the_second_moment() -> None:
    """With scale = 0 (6.1) is Bayes' rule for an observed weight."""
    w, spike, slab, pi = 0.3, 0.1, 1.0, 0.2
    odds = np.log(pi * stats.norm.pdf(w, 0, slab)) - np.log((1 - pi) * stats.norm.pdf(w, 0, spike))
    np.testing.assert_allclose(mixture.inclusion_log_odds(w, 0.0, spike, slab, pi), odds, rtol=1e-5)


def test_log_odds_cross_zero_at_the_stated_second_moment_and_start_at_the_floor() -> None:
    spike, slab, pi = 0.05, 1.5, 0.3
    cut = np.sqrt(2 * np.log(slab / spike * (1 - pi) / pi) / (spike**-2 - slab**-2))
    for angle in (0.0, 0.4, 1.5):
        odds = mixture.inclusion_log_odds(cut * np.cos(angle), cut * np.sin(angle), spike, slab, pi)
        np.testing.assert_allclose(odds, 0.0, atol=1e-5)
    floor = pi * spike / (pi * spike + (1 - pi) * slab)
    np.testing.assert_allclose(jax.nn.sigmoid(mixture.inclusion_log_odds(0.0, 0.0, spike, slab, pi)), floor, rtol=1e-5)


@pytest.mark.slow
def test_collapsed_penalty_has_finite_slopes_and_those_of_the_penalty_at_the_best_p() -> None:
    loc, scale = jnp.asarray([0.0, 0.0, 3.0, 0.2]), jnp.asarray([1e-12, 0.5, 1e-3, 0.1])
    best = jax.nn.sigmoid(mixture.inclusion_log_odds(loc, scale, 0.01, 1.0))
    for argument in (0, 1):
        slope = jax.grad(lambda *x: jnp.sum(mixture.collapsed_penalty(*x, 0.01, 1.0)), argument)(loc, scale)
        fixed = jax.grad(lambda *x: jnp.sum(penalty(*x, best, 0.01, 1.0)), argument)(loc, scale)
        assert np.isfinite(slope).all()
        np.testing.assert_allclose(slope, fixed, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("w", [0.0, 0.01, -0.5, 4.0])
def test_log_density_of_the_scale_mixture(w: float) -> None:
    spike, slab, pi = np.exp(-6.0), 1.0, 0.25
    expected = np.log(pi * stats.norm.pdf(w, 0, slab) + (1 - pi) * stats.norm.pdf(w, 0, spike))
    np.testing.assert_allclose(mixture.log_density(w, spike, slab, pi), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_log_density_is_finite_with_finite_slope_far_out() -> None:
    value, slope = jax.value_and_grad(mixture.log_density)(1e3, 1e-6, 1.0)
    np.testing.assert_allclose((value, slope), (stats.norm.logpdf(1e3) + np.log(0.5), -1e3), rtol=1e-5)
