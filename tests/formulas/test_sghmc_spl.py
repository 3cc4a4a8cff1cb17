"""The update of SGHMC-SPL and its groups, against plain NumPy, a linear system and quadrature."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from bayesprune.formulas import sghmc_spl


def by_hand(w, g, d, rho, m, e, noise, squared, temp, n, beta1, beta2, eta):
    """Section 7 of the paper's code, written again: C² is ``squared``, and all is double."""
    c = np.sqrt(squared)
    tau = 1 / (1 + np.exp(-rho))
    rho = rho - eta * (temp**2 * c**3 * d * tau + temp * c**1.5 * e * g - 1 / (tau * n))
    tau = 1 / (1 + np.exp(-rho))
    m = beta1 * m - beta2 * squared * (g + d * w) + np.sqrt(2 + 2 * beta1**2) * c**1.5 * temp * noise
    return w + tau * m, rho, m, noise


def test_five_steps_are_those_of_the_formulas() -> None:
    """(7.1), (7.2) and (7.3), with gradients and noise given."""
    rng = np.random.default_rng(0)
    knobs = sghmc_spl.Knobs(0.3, 50, 0.1, 0.9, 0.2)
    w, rho, m, e, d = (rng.normal(size=(4, 3)) for _ in range(5))
    d = np.abs(d)
    ours, state = w, sghmc_spl.Moved(rho, m, e)
    for squared in (0.1, 0.08, 0.05, 0.02, 0.001):
        g, noise = rng.normal(size=(2, 4, 3))
        change, state = sghmc_spl.step(ours, g, d, state, noise, squared, knobs)
        ours = ours + change
        w, rho, m, e = by_hand(w, g, d, rho, m, e, noise, squared, 0.3, 50, 0.1, 0.9, 0.2)
        for found, exact in ((ours, w), (state.rho, rho), (state.momentum, m), (state.noise, e)):
            np.testing.assert_allclose(found, exact, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("h", "squared", "tau", "beta"), [(1.0, 0.01, 0.5, 0.1), (30.0, 0.05, 0.7, 0.5), (0.2, 0.5, 0.5, 0.0)])
def test_the_stationary_variance_is_that_of_the_linear_system(h, squared, tau, beta) -> None:
    """(7.6) against the discrete Lyapunov equation of (w, m)."""
    knobs = sghmc_spl.Knobs(0.2, 100, beta, 0.8)
    kick = np.sqrt(2 + 2 * beta**2) * squared**0.75 * 0.2
    pull = 0.8 * squared * h
    system = np.array([[1 - tau * pull, tau * beta], [-pull, beta]])
    noise = kick * np.array([[tau], [1.0]])
    exact = scipy.linalg.solve_discrete_lyapunov(system, noise @ noise.T)[0, 0]
    assert float(sghmc_spl.variance(h, squared, tau, knobs)) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(("size", "share"), [(1, 0.5), (5, 0.1), (25, 0.9)])
def test_the_inclusion_of_a_group_is_bayes_rule(size, share) -> None:
    """(7.4) against the two joint densities; (7.7) is where they tie."""
    slab, spike = 2.0, 40.0
    w = np.random.default_rng(1).normal(size=size) * 0.3
    joint = [scipy.stats.norm.pdf(w, scale=p**-0.5).prod() * s for p, s in ((slab, share), (spike, 1 - share))]
    found = float(sghmc_spl.inclusion(np.sum(w**2), size, share, slab, spike))
    assert found == pytest.approx(joint[0] / sum(joint), rel=1e-4)
    root = float(sghmc_spl.threshold(size, share, slab, spike))
    if root > 0:
        assert float(sghmc_spl.inclusion(size * root, size, share, slab, spike)) == pytest.approx(0.5, abs=1e-4)


def test_the_precision_is_between_the_two() -> None:
    """(7.5)."""
    assert float(sghmc_spl.precision(0.25, 2.0, 40.0)) == pytest.approx(0.25 * 2 + 0.75 * 40)
