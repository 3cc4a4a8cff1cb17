"""Truncated log-normal noise against SciPy and against sums over a fine grid, from mu = 5 to -25 on [-20, 0]."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesprune.formulas import truncated_log_normal as noise
from bayesprune.formulas.truncated_log_normal import quantile

LOW, HIGH = -20.0, 0.0
LOCS, SCALES = (5.0, 0.0, -3.0, -10.0, -20.0, -25.0), (np.exp(-5.0), 0.05, 0.3, 1.0, 5.0, 50.0)
LAWS = np.array([(loc, scale) for loc in LOCS for scale in SCALES])


def grid(loc: float, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points where there is any mass, their shares, and the log density there."""
    mode = np.clip(loc, LOW, HIGH)
    away = abs(loc - mode)
    reach = 80 * scale**2 / (np.sqrt(away**2 + 80 * scale**2) + away)  # where the density has fallen by e^-40
    y = np.linspace(max(LOW, mode - reach - 2 * scale**2), min(HIGH, mode + reach + 2 * scale**2), 100_001)
    log_density = -((y - loc) ** 2 - (mode - loc) ** 2) / (2 * scale**2)
    weight = np.exp(log_density)
    weight[[0, -1]] /= 2
    total = weight.sum() * (y[1] - y[0])
    return y, weight / weight.sum(), log_density - np.log(total)


def test_divergence_18_1(float64) -> None:
    """(18.1)."""
    exact = [share @ (log_density + np.log(HIGH - LOW)) for _, share, log_density in (grid(*law) for law in LAWS)]
    np.testing.assert_allclose(noise.kl_uniform(*LAWS.T, LOW, HIGH), exact, atol=2e-6)


def test_moments_18_2_and_their_ratio(float64) -> None:
    """(18.2)."""
    first, second, ratio = [], [], []
    for y, share, _ in (grid(*law) for law in LAWS):
        theta = np.exp(y)
        mean = share @ theta
        first.append(np.log(mean))
        second.append(np.log(share @ theta**2))
        ratio.append(mean / np.sqrt(share @ (theta - mean) ** 2))
    np.testing.assert_allclose(noise.log_moment(1.0, *LAWS.T, LOW, HIGH), first, atol=1e-7)
    np.testing.assert_allclose(noise.log_moment(2.0, *LAWS.T, LOW, HIGH), second, atol=1e-7)
    np.testing.assert_allclose(noise.snr(*LAWS.T, LOW, HIGH), ratio, rtol=1e-4)


def test_removal_18_4_is_the_ratio_of_densities_at_the_bound(float64) -> None:
    """(18.4): against SciPy; and log E_q[p_new/p_old] for a narrow half normal at the bound, by a sum, tends to it."""
    loc, scale = np.array([(-19.0, 1.0), (-8.0, 4.0), (-25.0, 2.0), (5.0, 6.0)]).T
    a, b = (LOW - loc) / scale, (HIGH - loc) / scale
    ours = noise.removal_gain(loc, scale, LOW, HIGH)
    np.testing.assert_allclose(ours, np.log(20) + stats.truncnorm.logpdf(LOW, a, b, loc, scale), rtol=1e-9)
    y = LOW + np.linspace(0, 8e-4, 4001)
    for mean, gain, lower, upper in zip(loc, ours, a, b, strict=True):
        spread = (LOW - mean) / lower
        ratio = stats.halfnorm.pdf(y, LOW, 1e-4) * 20 * stats.truncnorm.pdf(y, lower, upper, mean, spread)
        np.testing.assert_allclose(np.log(np.trapezoid(ratio, y)), gain, atol=1e-3)


@pytest.mark.slow
def test_a_unit_that_widens_to_the_prior_is_kept_by_18_4(float64) -> None:
    """From the middle of the interval up no width has dF >= 0; it tends to 0 from below, past the released code's -.919."""
    loc, scale = np.meshgrid(np.linspace((LOW + HIGH) / 2, 5.0, 31), np.geomspace(0.01, 1e4, 60))
    gain = np.asarray(noise.removal_gain(loc, scale, LOW, HIGH))
    assert (gain < 0).all()
    assert (gain[-1] > -1e-5).all()
    assert gain.max(0).min() > -0.919
    assert (np.asarray(noise.removal_gain(-15.0, np.array([8.0, 20.0]), LOW, HIGH)) > 0).all()


def test_uniform_18_5_is_a_share_of_the_mass(float64) -> None:
    """(18.5), and its largest value, .65 nats at 8 bits."""
    loc, scale = np.array([(-10.0, 1.0), (-3.0, 2.0), (-19.0, 3.0), (-10.0, 0.1)]).T
    a, b = (LOW - loc) / scale, (HIGH - loc) / scale
    low, high = -23 * np.log(2), -8 * np.log(2)
    mass = np.diff(stats.truncnorm.cdf([[low], [high]], a, b, loc, scale), axis=0)[0]
    ours = noise.uniform_gain(loc, scale, LOW, HIGH, low, high)
    np.testing.assert_allclose(ours, np.log(mass) - np.log((high - low) / 20), rtol=1e-9)
    assert round(float(ours[-1]), 2) == 0.65


def test_ratio_and_evidence_disagree_both_ways(float64) -> None:
    """mu = -8, sigma = 4: noise by its ratio, .25, and kept by (18.4), -3.8 nats. mu = -20, sigma = .05: theta is all but
    0 and gone by (18.4), but of a ratio of 33."""
    (noisy, none), (lost, gained) = (
        (fn(-8.0, 4.0, LOW, HIGH), fn(-20.0, 0.05, LOW, HIGH)) for fn in (noise.snr, noise.removal_gain)
    )
    np.testing.assert_allclose([noisy, lost], [0.25, -3.8], atol=0.05)
    assert none > 30 and gained > 5


@pytest.mark.slow
def test_single_precision_is_as_good_as_its_page_says() -> None:
    """Every value and slope finite; divergences to 5e-5 nats, ratios up to 50 to 1e-3 beside those in double precision."""
    with jax.enable_x64(True):
        exact = np.asarray(noise.kl_uniform(*LAWS.T, LOW, HIGH)), np.asarray(noise.snr(*LAWS.T, LOW, HIGH))
    laws = jnp.asarray(LAWS.T, jnp.float32)
    divergence, ratio = noise.kl_uniform(*laws, LOW, HIGH), noise.snr(*laws, LOW, HIGH)
    np.testing.assert_allclose(divergence, exact[0], atol=5e-5)
    within = (exact[1] < 50) & (LAWS[:, 0] >= -20)
    np.testing.assert_allclose(ratio[within], exact[1][within], rtol=1e-3)
    assert np.all(np.asarray(ratio)[exact[1] >= 50] > 50)
    slopes = jax.jacfwd(lambda law: noise.kl_uniform(*law, LOW, HIGH).sum())(laws)
    assert np.isfinite(slopes).all() and np.isfinite(divergence).all()


@pytest.mark.slow_cases(2)
@pytest.mark.slow
@pytest.mark.parametrize("law", [(5.0, 1.0), (0.0, np.exp(-5.0)), (-10.0, 0.05), (-10.0, 5.0), (-25.0, 0.5), (5.0, 0.02)])
def test_quantiles_are_scipys_with_slopes(law, float64) -> None:
    """Values, and the slopes in loc and scale by central differences of SciPy's."""
    share = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 0.999])

    def ours(loc, scale):
        bounds = (jnp.broadcast_to((end - loc) / scale, share.shape) for end in (LOW, HIGH))
        return loc + scale * quantile(jnp.asarray(share), *bounds)

    def scipys(loc, scale):
        return stats.truncnorm.ppf(share, (LOW - loc) / scale, (HIGH - loc) / scale, loc, scale)

    np.testing.assert_allclose(ours(*law), scipys(*law), rtol=1e-6, atol=1e-11)
    slopes = jax.jacfwd(ours, (0, 1))(*map(float, law))
    step = 1e-4 * law[1]
    for place, slope in enumerate(slopes):
        moved = [scipys(*(value + sign * step * (place == n) for n, value in enumerate(law))) for sign in (1, -1)]
        np.testing.assert_allclose(slope, (moved[0] - moved[1]) / (2 * step), rtol=2e-2, atol=1e-5)
