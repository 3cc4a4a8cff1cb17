"""Gaussian evidence against quadrature, SciPy's densities and conjugate arithmetic."""

from decimal import Decimal, getcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from bayesprune.formulas import gaussian

# loc, scale, prior loc, prior scale, reduced loc, reduced scale
CASES = [
    (0.3, 0.2, 0.0, 1.0, 0.0, 0.1),
    (-1.2, 0.5, 0.3, 1.5, -0.2, 0.7),
    (2.0, 0.9, 0.0, 1.0, 0.5, 0.05),
    (0.0, 1.0, 0.0, 1.0, 0.0, 1e-3),
    (0.4, 0.3, 0.1, 0.8, 0.2, 1.0),  # a wider prior
]


def gain_by_quadrature(loc: float, scale: float, m0: float, s0: float, m1: float, s1: float) -> float:
    def log_integrand(w: float) -> float:
        return stats.norm.logpdf(w, loc, scale) + stats.norm.logpdf(w, m1, s1) - stats.norm.logpdf(w, m0, s0)

    centre, width = (loc / scale**2 + m1 / s1**2) / (1 / scale**2 + 1 / s1**2), min(scale, s1)
    peak = log_integrand(centre)
    edges = [(centre - 40 * width, centre), (centre, centre + 40 * width)]
    parts = [
        integrate.quad(lambda w: np.exp(log_integrand(w) - peak), *edge, epsabs=0, epsrel=1e-12, limit=400) for edge in edges
    ]
    return float(peak + np.log(sum(part[0] for part in parts)))


@pytest.mark.parametrize("case", CASES)
def test_evidence_gain_2_2_is_the_expected_prior_ratio(case: tuple[float, ...], float64: None) -> None:
    """The closed form (2.2) is the expectation (2.1), here an integral."""
    np.testing.assert_allclose(gaussian.log_evidence_gain(*case), gain_by_quadrature(*case), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_evidence_gain_2_2_holds_in_float32(case: tuple[float, ...]) -> None:
    np.testing.assert_allclose(gaussian.log_evidence_gain(*case), gain_by_quadrature(*case), rtol=2e-5, atol=2e-6)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("case", CASES)
def test_reduced_posterior_2_3_has_the_moments_of_the_reweighted_one(case: tuple[float, ...], float64: None) -> None:
    """(2.3)"""
    loc, scale, m0, s0, m1, s1 = case
    grid = np.linspace(-12, 12, 2_000_001)
    log_weight = stats.norm.logpdf(grid, loc, scale) + stats.norm.logpdf(grid, m1, s1) - stats.norm.logpdf(grid, m0, s0)
    weight = np.exp(log_weight - log_weight.max())
    mean = (grid * weight).sum() / weight.sum()
    sd = np.sqrt(((grid - mean) ** 2 * weight).sum() / weight.sum())
    np.testing.assert_allclose(gaussian.reduced_posterior(*case), (mean, sd), rtol=1e-8, atol=1e-12)


def test_one_observed_weight_gives_the_difference_of_two_exact_evidences(float64: None) -> None:
    """y = w + noise: evidence and posterior are Gaussian in closed form, before and after the prior changes."""
    y, noise, s0, s1 = 1.3, 0.4, 1.1, 0.3
    loc, scale = y * s0**2 / (s0**2 + noise**2), np.sqrt(s0**2 * noise**2 / (s0**2 + noise**2))
    gain = stats.norm.logpdf(y, 0, np.hypot(s1, noise)) - stats.norm.logpdf(y, 0, np.hypot(s0, noise))
    np.testing.assert_allclose(gaussian.log_evidence_gain(loc, scale, 0, s0, 0, s1), gain, rtol=1e-12)
    gone = stats.norm.logpdf(y, 0, noise) - stats.norm.logpdf(y, 0, np.hypot(s0, noise))
    np.testing.assert_allclose(gaussian.log_evidence_gain(loc, scale, 0, s0, 0, 0), gone, rtol=1e-12)
    np.testing.assert_allclose(gaussian.log_evidence_gain_of_removal(loc, scale, s0), gone, rtol=1e-12)


def test_a_prior_too_wide_for_the_posterior_gives_infinity_and_no_posterior() -> None:
    assert gaussian.log_evidence_gain(0.0, 1.0, 0.0, 0.5, 0.0, 10.0) == jnp.inf
    assert np.isnan(gaussian.reduced_posterior(0.0, 1.0, 0.0, 0.5, 0.0, 10.0)).all()


def test_point_masses_agree_or_differ_for_certain() -> None:
    assert gaussian.log_evidence_gain(0.0, 0.0, 0.0, 1.0, 0.0, 0.0) == jnp.inf
    assert gaussian.log_evidence_gain(1.0, 0.0, 0.0, 1.0, 0.0, 0.0) == -jnp.inf


@pytest.mark.parametrize("theta", [1.0, 0.3, 1e-3])
@pytest.mark.parametrize(("loc", "scale"), [(0.0, 1.0), (0.7, 0.2), (-2.0, 0.05)])
def test_shrinkage_2_4(theta: float, loc: float, scale: float, float64: None) -> None:
    """(2.4)"""
    expected = gain_by_quadrature(loc, scale, 0.0, 1.0, 0.0, theta)
    np.testing.assert_allclose(gaussian.log_evidence_gain_of_shrinkage(loc, scale, theta), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("prior_scale", [1.0, 0.1])
def test_removal_2_5_is_the_ratio_of_densities_at_zero(prior_scale: float) -> None:
    """(2.5)"""
    loc, scale = np.meshgrid([0.0, 1e-6, 0.01, 0.3, -2.0], [1e-3, 0.05, 0.4, 1.0])
    expected = stats.norm.logpdf(0, loc, scale) - stats.norm.logpdf(0, 0, prior_scale)
    got = gaussian.log_evidence_gain_of_removal(loc.astype(np.float32), scale.astype(np.float32), prior_scale)
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("double", [False, True])
def test_removal_is_finite_with_the_sign_of_its_limit(double: bool) -> None:
    with jax.enable_x64(double):
        loc = jnp.asarray([0.0, 0.0, 1e-30, 1.0, -1e30, 1.0])
        scale = jnp.asarray([0.0, 1e-30, 0.0, 0.0, 1e-30, 1e-30])
        gain, slopes = gaussian.log_evidence_gain_of_removal(loc, scale), []
        for argument in (0, 1):
            slopes.append(jax.grad(lambda *x: jnp.sum(gaussian.log_evidence_gain_of_removal(*x)), argument)(loc, scale))
    assert np.isfinite(gain).all()
    np.testing.assert_array_equal(np.sign(gain), [1, 1, -1, -1, -1, -1])
    assert np.isfinite(slopes).all()


def test_removal_slopes_are_those_of_the_log_densities() -> None:
    loc, scale, step = 0.3, 0.4, 1e-6
    by_loc, by_scale = jax.grad(gaussian.log_evidence_gain_of_removal, argnums=(0, 1))(loc, scale)
    rises = [stats.norm.logpdf(0, loc + step, scale), stats.norm.logpdf(0, loc, scale + step)]
    falls = [stats.norm.logpdf(0, loc - step, scale), stats.norm.logpdf(0, loc, scale - step)]
    np.testing.assert_allclose((by_loc, by_scale), (np.subtract(rises, falls)) / (2 * step), rtol=1e-5)


SMALL = [(0.3, 1e-6), (0.3, 1e-12), (2e-9, 1e-9), (3e-20, 1e-20), (-1e-30, 1e-30), (0.0, 1e-15), (0.4, 0.7)]


def removal_and_slopes(loc: float, scale: float, moved: float) -> list[float]:
    """dF = log N(m1; loc, scale²) - log N(m1; 0, 2²), a weight's removal to m1, in decimals, and its slopes in loc, scale, the
    prior's mean, m1 and theta."""
    getcontext().prec = 60
    loc, scale, moved = (Decimal(float(value)) for value in (loc, scale, moved))
    z = (loc - moved) / scale
    value = Decimal(2).ln() - scale.ln() - z**2 / 2 + moved**2 / 8
    return [float(number) for number in (value, -z / scale, (z**2 - 1) / scale, -moved / 4, z / scale + moved / 4, 0)]


def test_gain_and_slopes_2_2_at_shrinkage_zero() -> None:
    """Down to scales of 1e-30 in float32, where scale² is zero; what no float32 can hold saturates."""
    cases = np.asarray([(loc, scale, moved) for loc, scale in SMALL for moved in (0.0, 0.25)], np.float32)
    exact = np.asarray([removal_and_slopes(*case) for case in cases])
    gain = lambda loc, scale, m0, s0, m1, theta: gaussian.log_evidence_gain(loc, scale, m0, s0, m1, theta)  # noqa: E731
    both = jax.jit(jax.vmap(jax.value_and_grad(gain, argnums=(0, 1, 2, 4, 5, 3)), in_axes=(0, 0, None, None, 0, None)))
    value, (*slopes, by_prior_scale) = both(cases[:, 0], cases[:, 1], 0.0, 2.0, cases[:, 2], 0.0)
    got = np.stack([value, *slopes], axis=1)
    assert np.isfinite(got).all() and np.isfinite(by_prior_scale).all()
    held = np.abs(exact) < 1e37
    np.testing.assert_allclose(got[held], exact[held], rtol=1e-5, atol=1e-6)
    assert (np.sign(got[~held]) == np.sign(exact[~held])).all() and (np.abs(got[~held]) > 1e37).all()


@pytest.mark.slow
def test_slopes_of_2_2_are_differences_of_the_integral(float64: None) -> None:
    """At priors that do not vanish: every slope of (2.2) against differences of the quadrature's."""
    gradient = jax.jit(jax.grad(gaussian.log_evidence_gain, argnums=tuple(range(6))))
    for case in (CASES[1], CASES[4]):
        slopes = gradient(*case)
        for index, slope in enumerate(slopes):
            step = np.eye(6)[index] * 1e-4 * case[5 if index == 5 else 1]
            rise = gain_by_quadrature(*(case + step)) - gain_by_quadrature(*(case - step))
            np.testing.assert_allclose(slope, rise / (2 * step[index]), rtol=1e-5, atol=1e-5)


def test_slopes_of_the_reduced_posterior_2_3_at_shrinkage_zero() -> None:
    """mean -> theta² loc/scale² -> 0 and sd -> theta: slopes in (loc, scale, theta) are 0, 0, 0 and 0, 0, 1."""
    moments = lambda *x: jnp.stack(gaussian.reduced_posterior(x[0], x[1], 0.0, 1.0, 0.0, x[2]))  # noqa: E731
    slopes = jax.jit(jax.vmap(jax.jacobian(moments, argnums=(0, 1, 2)), in_axes=(0, 0, None)))
    got = slopes(*np.asarray(SMALL, np.float32).T, 0.0)
    wanted = [[0, 0], [0, 0], [0, 1]]
    np.testing.assert_allclose(np.stack(got, axis=1), np.broadcast_to(wanted, (len(SMALL), 3, 2)), atol=1e-6)


@pytest.mark.slow
def test_shrinkage_to_almost_nothing_is_removal(float64: None) -> None:
    loc, scale = jnp.asarray([0.0, 0.4, -1.0]), jnp.asarray([0.3, 0.1, 0.5])
    limit = gaussian.log_evidence_gain_of_shrinkage(loc, scale, 1e-8)
    np.testing.assert_allclose(limit, gaussian.log_evidence_gain_of_removal(loc, scale), rtol=1e-10)
    np.testing.assert_allclose(gaussian.log_evidence_gain_of_shrinkage(loc, scale, 0.0), limit, rtol=1e-10)


@pytest.mark.parametrize(("loc", "scale", "m0", "s0"), [(0.3, 0.2, 0.0, 1.0), (-1.0, 1.4, 0.5, 0.7), (0.0, 0.006, 0.0, 0.005)])
def test_kl_is_the_expected_log_ratio(loc: float, scale: float, m0: float, s0: float) -> None:
    """The divergence inside (4.1)."""

    def integrand(w: float) -> float:
        log_q = stats.norm.logpdf(w, loc, scale)
        return np.exp(log_q) * (log_q - stats.norm.logpdf(w, m0, s0))

    expected = integrate.quad(integrand, loc - 12 * scale, loc + 12 * scale, epsrel=1e-11)[0]
    np.testing.assert_allclose(gaussian.kl_divergence(loc, scale, m0, s0), expected, rtol=2e-6, atol=1e-6)
    with jax.enable_x64(True):
        np.testing.assert_allclose(gaussian.kl_divergence(loc, scale, m0, s0), expected, rtol=1e-9)


def test_kl_gradient_is_finite_for_a_tiny_scale_and_zero_at_the_prior() -> None:
    slope = jax.grad(gaussian.kl_divergence, argnums=(0, 1))
    assert np.isfinite(slope(0.0, 1e-20)).all()
    assert slope(0.0, 1.0) == (0.0, 0.0)
