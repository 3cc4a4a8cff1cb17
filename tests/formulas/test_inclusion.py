"""The Beta-Bernoulli fixed point against NumPy and against enumeration of its ELBO's optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from bayesprune.formulas.inclusion import inclusion

GAINS = np.random.default_rng(0).normal(1.0, 4.0, 50)


def rounds(gains: np.ndarray, alpha0: float, beta0: float, count: int) -> tuple[np.ndarray, float]:
    alpha, beta = alpha0, beta0
    for _ in range(count):
        zeta = special.psi(alpha) - special.psi(beta)
        q = special.expit(zeta - gains)
        alpha, beta = alpha0 + q.sum(), beta0 + (1 - q).sum()
    return q, zeta


@pytest.mark.parametrize("count", [1, 4, 9])
@pytest.mark.parametrize(("alpha0", "beta0"), [(1.0, 1.0), (2.0, 30.0)])
def test_rounds_2_6(count: int, alpha0: float, beta0: float) -> None:
    """(2.6), round by round."""
    q, zeta = rounds(GAINS, alpha0, beta0, count)
    got = inclusion(GAINS.astype(np.float32), alpha0, beta0, count)
    np.testing.assert_allclose(got[0], q, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got[1], zeta, rtol=1e-4, atol=1e-5)
    with jax.enable_x64(True):
        np.testing.assert_allclose(inclusion(GAINS, alpha0, beta0, count)[0], q, rtol=1e-10)


def test_the_fixed_point_is_where_coordinate_ascent_on_the_elbo_stops(float64: None) -> None:
    """ELBO of q(z) q(pi): moving any single q_i, or the Beta, from the fixed point only lowers it."""
    gains = GAINS[:6]
    q = np.asarray(inclusion(gains, num_iters=200)[0])

    def elbo(q: np.ndarray) -> float:
        a, b = 1 + q.sum(), 1 + (1 - q).sum()
        log_pi, log_rest = special.psi(a) - special.psi(a + b), special.psi(b) - special.psi(a + b)
        entropy = -special.xlogy(q, q) - special.xlogy(1 - q, 1 - q)
        return (-q * gains + q * log_pi + (1 - q) * log_rest + entropy).sum() + stats.beta.entropy(a, b)

    for i in range(6):
        for move in (-1e-3, 1e-3):
            moved = np.clip(q + move * np.eye(6)[i], 1e-12, 1 - 1e-12)
            assert elbo(moved) < elbo(q)


def test_below_a_half_means_gain_above_zeta() -> None:
    q, zeta = inclusion(jnp.asarray(GAINS, float))
    np.testing.assert_array_equal(q < 0.5, zeta < GAINS)


def test_entries_outside_do_not_count() -> None:
    where = np.arange(50) % 3 > 0
    dead = np.where(where, GAINS, np.nan).astype(np.float32)
    q, zeta = inclusion(dead, where=where)
    alone = inclusion(GAINS[where].astype(np.float32))
    np.testing.assert_allclose(q[where], alone[0], rtol=1e-5)
    np.testing.assert_allclose(zeta, alone[1], rtol=1e-5)
    assert (q[~where] == 0).all()


def test_extreme_gains_and_an_empty_group_stay_finite() -> None:
    q, zeta = inclusion(jnp.asarray([3e38, -3e38, 87.0, -1e4]))
    np.testing.assert_allclose(q, [0, 1, 0, 1], atol=1e-6)
    assert np.isfinite(zeta)
    q, zeta = inclusion(jnp.ones((2, 2)), where=jnp.zeros((2, 2), bool))
    assert (q == 0).all() and zeta == 0


def test_slopes_are_finite() -> None:
    slope = jax.jacobian(lambda gains: inclusion(gains)[0])(jnp.asarray([0.0, 87.0, -500.0]))
    assert np.isfinite(slope).all()
