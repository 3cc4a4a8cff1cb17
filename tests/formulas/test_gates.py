"""Gates and the inverse distribution function, against probabilities and gradients computed without them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

from bayesprune.formulas import gates

GRID = (np.arange(200_000) + 0.5) / 200_000  # u at equal steps: means over it are integrals over U(0, 1) to 1e-5


@pytest.mark.parametrize("odds", [-3.0, 0.0, 1.5])
@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_gates_5_2_open_with_probability_phi(odds: float, temperature: float) -> None:
    """(5.2): P(soft > 1/2) = E[hard] = phi at every temperature."""
    noise = jnp.asarray(np.log(GRID) - np.log1p(-GRID), jnp.float32)
    soft, hard = gates.relaxed_gate(odds, noise, temperature), gates.hard_gate(odds, noise, temperature)
    np.testing.assert_allclose((np.asarray(soft) > 0.5).mean(), expit(odds), atol=2e-5)
    np.testing.assert_allclose(np.asarray(hard).mean(), expit(odds), atol=2e-5)
    assert set(np.unique(np.asarray(hard)).tolist()) == {0.0, 1.0}


def test_soft_gate_is_the_formula_and_hard_gate_borrows_its_slope() -> None:
    odds, u, tau = 0.7, 0.2, 0.5
    noise = np.log(u / (1 - u))
    gate = 1 / (1 + np.exp(-(odds + noise) / tau))
    np.testing.assert_allclose(gates.relaxed_gate(odds, noise, tau), gate, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(gates.hard_gate)(odds, noise, tau), gate * (1 - gate) / tau, rtol=1e-5)


@pytest.mark.parametrize("odds", [-30.0, 17.0, 30.0])
def test_the_slope_of_a_gate_keeps_its_digits_where_it_saturates(odds: float) -> None:
    """Against float64: in float32 gate (1 - gate) is zero from 16.6 on."""
    for gate in (gates.relaxed_gate, gates.hard_gate):
        np.testing.assert_allclose(jax.grad(gate)(odds, 0.0, 1.0), expit(odds) * expit(-odds), rtol=2e-6)


CASES = [(0.4, 0.3, 0.6), (-1.0, 0.5, 0.95), (0.0, 1.0, 0.1)]  # loc, scale, phi


@pytest.mark.parametrize("case", CASES)
def test_inverse_cdf_undoes_the_distribution_function(case: tuple[float, float, float]) -> None:
    loc, scale, phi = case
    with jax.enable_x64(True):
        u = (np.arange(999) + 0.5) / 999
        w = np.asarray(gates.inverse_cdf(loc, scale, np.log(phi / (1 - phi)), u))
    cdf = phi * stats.norm.cdf(w, loc, scale) + (1 - phi) * (w > 0)
    np.testing.assert_allclose(cdf[w != 0], u[w != 0], atol=1e-9)
    assert (w == 0).mean() == pytest.approx(1 - phi, abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_inverse_cdf_gives_the_exact_gradient(case: tuple[float, float, float]) -> None:
    """The mean pathwise gradient of E[sin(w) + w²] is the derivative of its integral in loc, scale and logit."""
    loc, scale, phi = case

    def test_function(w: np.ndarray) -> np.ndarray:
        return np.sin(w) + w**2

    def expectation(loc: float, scale: float, odds: float) -> float:
        edges = (loc - 10 * scale, loc + 10 * scale)
        slab = integrate.quad(lambda w: test_function(w) * stats.norm.pdf(w, loc, scale), *edges, epsabs=1e-12)[0]
        return expit(odds) * slab

    point = np.array([loc, scale, np.log(phi / (1 - phi))])
    steps = 1e-5 * np.eye(3)
    expected = [(expectation(*(point + h)) - expectation(*(point - h))) / 2e-5 for h in steps]
    with jax.enable_x64(True):
        mean = lambda p: jnp.mean(jnp.sin(w := gates.inverse_cdf(p[0], p[1], p[2], GRID)) + w**2)  # noqa: E731
        np.testing.assert_allclose(jax.grad(mean)(jnp.asarray(point)), expected, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("odds", [-200.0, -30.0, 30.0, 200.0])
def test_everything_is_finite_where_inclusion_saturates(odds: float) -> None:
    u = jnp.array([1e-7, 0.3, 0.5, 0.9, 1 - 1e-7])
    draw = lambda p: jnp.sum(gates.inverse_cdf(p[0], p[1], p[2], u))  # noqa: E731
    hard = lambda o: jnp.sum(gates.hard_gate(o, jnp.log(u) - jnp.log1p(-u)))  # noqa: E731
    value, slope = jax.value_and_grad(draw)(jnp.array([0.2, 1e-3, odds]))
    assert np.isfinite(value) and np.isfinite(slope).all() and np.isfinite(jax.grad(hard)(odds))
