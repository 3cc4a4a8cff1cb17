"""Exponential moments of |w| against quadrature, small scales and huge exponents included."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from bayesprune.formulas import folded_exponential as fe

# loc, scale, lam: t = lam scale on both sides of 1, r from 0 to 400
CASES = [
    (0.0, 1.0, 1.0),
    (0.3, 0.2, 1.0),
    (-1.0, 0.5, 3.0),
    (0.4, 0.3, 5.0),
    (2.0, 0.005, 1.0),
    (0.0, 1e-4, 1.0),
    (5e-5, 1e-4, 1.0),
    (3e-4, 1e-4, 1.0),
    (0.5, 1.0, 0.999),
    (0.5, 1.0, 1.001),
    (-3.0, 1.0, 4.0),
]


def oracle(loc: float, scale: float, lam: float) -> tuple[float, float]:
    """log E and log(E/sd) of exp(lam |w|), as integrals of positive functions, with exp(lam |w|) - E as one expm1."""
    r, t = abs(loc) / scale, lam * scale

    def expect(f: object, tilt: float) -> float:
        def integrand(y: float) -> float:
            return f(y) * (stats.norm.pdf(y - r) + stats.norm.pdf(y + r))

        low, top = max(0.0, r - 14), r + 14 + 2 * tilt
        edges = np.linspace(low, top, 9)
        return sum(integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in itertools.pairwise(edges))

    shift = t * r
    log_e = shift + np.log1p(expect(lambda y: np.expm1(t * y - shift), t))
    if shift == 0:
        log_e = np.log1p(expect(lambda y: np.expm1(t * y), t))
    relative_variance = expect(lambda y: np.expm1(t * y - log_e) ** 2, 2 * t)
    return log_e, -0.5 * np.log(relative_variance)


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("case", CASES)
def test_score_5_is_the_log_moment_4_5(case: tuple[float, float, float]) -> None:
    """(4.5)"""
    np.testing.assert_allclose(fe.log_expected_exp(*case), oracle(*case)[0], rtol=1e-5)
    with jax.enable_x64(True):
        np.testing.assert_allclose(fe.log_expected_exp(*case), oracle(*case)[0], rtol=1e-9)


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("case", CASES)
def test_score_6_is_the_log_ratio_4_6(case: tuple[float, float, float]) -> None:
    """(4.6)"""
    expected = oracle(*case)[1]
    np.testing.assert_allclose(fe.log_expected_exp_over_std(*case), expected, rtol=1e-5, atol=2e-6)
    with jax.enable_x64(True):
        np.testing.assert_allclose(fe.log_expected_exp_over_std(*case), expected, rtol=1e-9, atol=1e-9)


def test_huge_exponents_stay_in_log_space() -> None:
    loc, scale, lam = 1e3, 2.0, 1e3
    np.testing.assert_allclose(fe.log_expected_exp(loc, scale, lam), lam**2 * scale**2 / 2 + lam * loc, rtol=1e-6)
    # far from 0 the variable is log-normal: E/sd = 1/sqrt(exp(lam² scale²) - 1)
    np.testing.assert_allclose(fe.log_expected_exp_over_std(loc, scale, lam), -(lam**2) * scale**2 / 2, rtol=1e-6)


def test_small_scales_keep_their_digits() -> None:
    """To first order E/sd of exp(lam|w|) is 1/(lam sd|w|); float32 has nothing left of E_2lam - E_lam² here."""
    scale = np.asarray([1e-12, 1e-8, 1e-5], np.float32)
    np.testing.assert_allclose(fe.log_expected_exp_over_std(0.0, scale), -np.log(scale * np.sqrt(1 - 2 / np.pi)), rtol=1e-5)
    np.testing.assert_allclose(fe.log_expected_exp(0.0, scale), scale * np.sqrt(2 / np.pi), rtol=1e-4)


def test_score_6_with_small_scales_drops_the_surest_weights_first() -> None:
    r = np.linspace(0, 6, 100)
    assert (np.diff(fe.log_expected_exp_over_std(r * 1e-3, np.float32(1e-3))[:60]) < 0).all()


@pytest.mark.parametrize("score", [fe.log_expected_exp, fe.log_expected_exp_over_std])
def test_weights_without_spread_rank_by_magnitude(score: object) -> None:
    loc = jnp.asarray([0.0, 1e-3, -0.5, 2.0, 30.0])
    got = np.asarray(score(loc, jnp.zeros(5), 1.5))
    assert np.isfinite(got).all() and (np.diff(got) > 0).all()


def test_score_5_at_scale_zero_is_lam_times_magnitude() -> None:
    np.testing.assert_allclose(fe.log_expected_exp(np.asarray([0.0, -4.0]), 0.0, 2.0), [0.0, 8.0], rtol=1e-6)


def test_score_5_grows_with_magnitude_and_scale() -> None:
    r = jnp.concatenate([jnp.linspace(0, 40, 400), jnp.geomspace(41, 1e6, 100)])
    assert (np.diff(fe.log_expected_exp(r, 1.0, 0.7)) > 0).all()
    assert (np.diff(fe.log_expected_exp(1.0, jnp.geomspace(1e-2, 10, 200), 0.7)) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("score", [fe.log_expected_exp, fe.log_expected_exp_over_std])
def test_slopes_are_finite(score: object) -> None:
    loc, scale = jnp.asarray([0.0, 0.1, -2.0, 1.0]), jnp.asarray([1e-6, 1e-4, 3.0, 0.5])
    slopes = jax.jit(jax.grad(lambda *x: jnp.sum(score(*x)), argnums=(0, 1)))(loc, scale)
    assert np.isfinite(slopes).all()


@pytest.mark.slow
def test_slopes_of_score_6_for_small_scales() -> None:
    """To first order in t (4.6) is -log lam - log sd|w|: its slopes are those of the folded normal's deviation, in float64."""

    def log_sd(r: float, spread: float) -> float:
        return float(np.log(stats.foldnorm.std(r / spread, scale=spread)))

    def wanted(r: float, step: float = 1e-5) -> list[float]:
        rises = log_sd(r + step, 1.0) - log_sd(abs(r - step), 1.0), log_sd(r, 1.0 + step) - log_sd(r, 1.0 - step)
        return [-rise / (2 * step) for rise in rises]

    cases = np.asarray([(r, scale) for r in (0.0, 0.4, 3.0) for scale in (1e-16, 1e-12, 1e-10, 1e-8, 1e-4)], np.float32)
    slopes = jax.jit(jax.vmap(jax.grad(fe.log_expected_exp_over_std, argnums=(0, 1))))(cases[:, 0] * cases[:, 1], cases[:, 1])
    got = np.stack(slopes, axis=1) * cases[:, 1:]
    np.testing.assert_allclose(got, [wanted(float(r)) for r in cases[:, 0]], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("score", [fe.log_expected_exp, fe.log_expected_exp_over_std])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_numbers_of_16_bits_are_scored_in_float32(score: object, dtype: object) -> None:
    loc, scale = jnp.array([0.5, -1.0], dtype), jnp.array([0.5, 0.125], dtype)
    found = score(loc, scale, jnp.asarray(2.0, dtype))
    assert found.dtype == jnp.float32
    np.testing.assert_array_equal(found, score(loc.astype(jnp.float32), scale.astype(jnp.float32), 2.0))
