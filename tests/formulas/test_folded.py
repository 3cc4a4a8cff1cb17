"""The folded normal against SciPy's quadrature and its own foldnorm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from bayesprune.formulas import folded

RATIOS = np.concatenate([[0.0], np.geomspace(1e-4, 1e6, 400)])


def std_of_abs(r: float) -> tuple[float, float]:
    """Mean and standard deviation of |N(r, 1)|, both by quadrature of a positive function: nothing cancels."""
    span = dict(epsabs=0, epsrel=1e-13, limit=400)
    low, high = max(0.0, r - 14.0), r + 14.0

    def density(y: float) -> float:
        return stats.norm.pdf(y - r) + stats.norm.pdf(y + r)

    mean = integrate.quad(lambda y: y * density(y), low, high, points=[max(r, low)], **span)[0]
    return mean, np.sqrt(integrate.quad(lambda y: (y - mean) ** 2 * density(y), low, high, points=[max(r, low)], **span)[0])


def score_in_double(r: np.ndarray) -> np.ndarray:
    """(4.4) as it stands, in float64, where r is small enough for its subtraction."""
    mean = stats.foldnorm.mean(r)
    return mean / np.sqrt(1 + r**2 - mean**2)


@pytest.mark.parametrize(("loc", "scale"), [(0.0, 1.0), (0.3, 0.2), (-2.0, 0.7), (1e-3, 1.0), (5.0, 0.01)])
def test_expected_abs_4_3(loc: float, scale: float) -> None:
    """(4.3)"""
    mean = scale * std_of_abs(abs(loc) / scale)[0]
    np.testing.assert_allclose(folded.expected_abs(loc, scale), mean, rtol=1e-6)
    with jax.enable_x64(True):
        np.testing.assert_allclose(folded.expected_abs(loc, scale), mean, rtol=1e-11)


def test_expected_abs_is_exact_at_its_ends_and_has_finite_slopes() -> None:
    loc, scale = jnp.asarray([0.0, -2.0, 1e-30, 3.0, 0.0]), jnp.asarray([0.0, 0.0, 1e-38, 1e-30, 1e-30])
    floor = np.sqrt(2 / np.pi) * 1e-30
    np.testing.assert_allclose(folded.expected_abs(loc, scale), [0, 2, 1e-30, 3, floor], rtol=1e-6)
    for argument in (0, 1):
        slope = jax.grad(lambda *x: jnp.sum(folded.expected_abs(*x)), argument)(loc, scale)
        assert np.isfinite(slope).all()


def test_expected_abs_has_the_slopes_of_foldnorm() -> None:
    loc, scale, step = 0.3, 0.4, 1e-6
    by_loc, by_scale = jax.grad(folded.expected_abs, argnums=(0, 1))(-loc, scale)

    def mean(loc: float, scale: float) -> float:
        return stats.foldnorm.mean(loc / scale, scale=scale)

    np.testing.assert_allclose(-by_loc, (mean(loc + step, scale) - mean(loc - step, scale)) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(by_scale, (mean(loc, scale + step) - mean(loc, scale - step)) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize("r", [0.0, 0.01, 0.1, 0.249, 0.251, 0.7, 1.5, 3.0, 6.0, 12.0])
def test_score_4_4_against_quadrature(r: float) -> None:
    """(4.4)"""
    mean, std = std_of_abs(r)
    np.testing.assert_allclose(folded.expected_abs_over_std(r * 0.01, 0.01), mean / std, rtol=2e-6)
    with jax.enable_x64(True):
        np.testing.assert_allclose(folded.expected_abs_over_std(r * 0.01, 0.01), mean / std, rtol=1e-11)


def test_score_4_is_exact_from_0_to_a_million_in_float32() -> None:
    expected = np.where(RATIOS < 9, score_in_double(np.minimum(RATIOS, 9)), RATIOS)
    for scale in (1e-4, 1.0, 1e3):
        got = folded.expected_abs_over_std((RATIOS * scale).astype(np.float32), np.float32(scale))
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_score_4_never_decreases() -> None:
    r = np.concatenate([np.geomspace(1e-3, 0.25, 60_000), np.geomspace(0.2499, 1e6, 100_000)]).astype(np.float32)
    score = np.asarray(folded.expected_abs_over_std(np.unique(r), 1.0))
    assert (np.diff(score) >= -np.spacing(score[1:])).all(), "up to rounding: GPUs fuse multiplications with additions"


def test_score_4_tells_ratios_apart_where_the_naive_form_is_flat_or_overflows() -> None:
    r = np.asarray([0.03, 0.04, 0.05, 3_000.0, 5_000.0, 1e6, 1e18], np.float32)
    assert (np.diff(folded.expected_abs_over_std(r, 1.0)) > 0).all()


def test_scores_2_and_4_give_one_ranking() -> None:
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=1000), np.exp(rng.normal(size=1000))
    with jax.enable_x64(True):
        order = [np.argsort(f(loc, scale)) for f in (folded.signal_to_noise, folded.expected_abs_over_std)]
    clear = 3  # of a thousand weights a few lie below r = 1e-3, where even float64 ties
    np.testing.assert_array_equal(order[0][clear:], order[1][clear:])


@pytest.mark.parametrize("score", [folded.signal_to_noise, folded.expected_abs_over_std])
def test_weights_without_spread_rank_by_magnitude_above_all_others(score: object) -> None:
    loc, scale = jnp.asarray([0.0, 1e-3, -0.5, 2.0, 50.0, 1.0]), jnp.asarray([0.0, 0.0, 0.0, 0.0, 0.0, 1e-6])
    got = np.asarray(score(loc, scale))
    assert np.isfinite(got).all()
    np.testing.assert_array_equal(np.argsort(got), [0, 5, 1, 2, 3, 4])


def test_snr_is_the_z_value_of_a_two_sided_test() -> None:
    loc, scale = np.asarray([0.2, -0.5, 1.7]), np.asarray([0.3, 0.4, 0.9])
    z = special.ndtri(1 - stats.norm.sf(np.abs(loc), 0, scale))
    np.testing.assert_allclose(folded.signal_to_noise(loc, scale), z, rtol=1e-6)
