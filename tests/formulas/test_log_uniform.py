"""Scales under 1/|z|: the fitted divergence against an integral."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from bayesprune.formulas import log_uniform
from bayesprune.model.prior import DrawnNormal, LogUniformDensity


def exact(log_alpha: float) -> float:
    """E log q - E log p of z ~ N(1, alpha), p = C/|z|, by an integral over log |z|; C so that nothing is left at infinity."""
    scale = np.exp(log_alpha / 2)
    pdf = lambda z: stats.norm.pdf(z, 1.0, scale)  # noqa: E731
    term = lambda u: u * np.exp(u) * (pdf(np.exp(u)) + pdf(-np.exp(u)))  # noqa: E731
    top = np.log1p(40 * scale)
    expected = sum(integrate.quad(term, a, b, limit=400)[0] for a, b in ((-60.0, -1.0), (-1.0, 0.0), (0.0, top)))
    return -stats.norm.entropy(1.0, scale) + expected + stats.norm.entropy() + (np.euler_gamma + np.log(2)) / 2


GRID = np.linspace(-8.0, 8.0, 33)


@pytest.mark.slow
def test_the_fit_13_5_errs_by_what_is_said(float64) -> None:
    """(13.5): at most .0094 nats off, the largest error at log alpha = -3.5, slopes .014."""
    true = np.array([exact(a) for a in GRID])
    ours = np.asarray(log_uniform.kl_divergence(1.0, np.exp(GRID / 2)))
    off = np.abs(ours - true)
    assert 0.009 < off.max() < 0.0094 and GRID[off.argmax()] == -3.5
    assert np.abs(np.diff(ours - true) / np.diff(GRID)).max() < 0.014


@pytest.mark.slow
def test_the_divergence_13_2_is_the_integral(float64) -> None:
    """(13.2): against E log q - E log p by quadrature in log |z|."""
    ours = np.asarray(log_uniform.exact_kl_divergence(-1.0, np.exp(GRID / 2)))
    np.testing.assert_allclose(ours, [exact(a) for a in GRID], atol=1e-6)


@pytest.mark.slow
def test_it_is_twice_the_integral_of_dawson_s_function(float64) -> None:
    """(13.2) and its slope (13.4), from r = 1e-4 to 1e4, by SciPy's Dawson function and Gauss-Legendre pieces."""
    r = np.geomspace(1e-4, 1e4, 161)
    edges = np.concatenate([[0.0], r / np.sqrt(2)])
    nodes, weights = np.polynomial.legendre.leggauss(40)
    halves = np.diff(edges) / 2
    at = edges[:-1, None] + halves[:, None] * (1 + nodes)
    values = np.cumsum(halves * (special.dawsn(at) @ weights)) * 2
    np.testing.assert_allclose(log_uniform.exact_kl_divergence(r, 1.0), values, atol=1e-7)
    slope = jax.vmap(jax.grad(lambda log_alpha: log_uniform.exact_kl_divergence(1.0, jnp.exp(log_alpha / 2))))(-2 * np.log(r))
    np.testing.assert_allclose(slope, -edges[1:] * special.dawsn(edges[1:]), atol=2e-7)


@pytest.mark.parametrize("loc", [0.0, 1e-4, -0.5, 2.0])
def test_its_second_derivative_in_loc_is_that_of_dawson_s_function(loc, float64) -> None:
    """d²KL/dloc² = (1 - 2 s D(s))/scale², at loc = 0 too, where the polynomial is left out of the value."""
    s = abs(loc) / (0.5 * np.sqrt(2))
    found = jax.grad(jax.grad(log_uniform.exact_kl_divergence))(loc, 0.5)
    np.testing.assert_allclose(found, (1 - 2 * s * special.dawsn(s)) / 0.25, atol=2e-4)


@pytest.mark.parametrize("loc", [-2.0, 0.3])
def test_density_and_divergence_have_one_constant(loc, float64) -> None:
    """E log q - E log p of the two distributions is (13.5), whatever the units and the sign of z."""
    q, p = DrawnNormal(loc, 0.5), LogUniformDensity()
    # Midpoints: none of them at z = 0, where log |z| is integrable.
    z = loc + 0.5 * (np.arange(400_000) / 20_000 - 10 + 1 / 40_000)
    weight = stats.norm.pdf(z, loc, 0.5) * 0.5 / 20_000
    sampled = weight @ np.asarray(q.log_prob(z) - p.log_prob(z))
    np.testing.assert_allclose(log_uniform.kl_divergence(loc, 0.5), sampled, atol=0.0095)


def test_finite_with_slopes_at_the_ends() -> None:
    locs, scales = np.array([0.0, 1e-20, 1.0, 1.0], np.float32), np.array([1.0, 1.0, 1e-15, 1e15], np.float32)
    for law in (log_uniform.kl_divergence, log_uniform.exact_kl_divergence):
        values, slopes = jax.vmap(jax.value_and_grad(law))(locs, scales)
        assert np.isfinite(values).all() and np.isfinite(slopes).all() and slopes[0] == 0 and values[0] == 0
    noise = np.asarray(log_uniform.log_alpha(np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])))
    assert np.isfinite(noise).all() and noise[0] > 20 and noise[1] > 100 and noise[2] < -100


@pytest.mark.slow
def test_an_improper_prior_is_not_drawn_from(rng_key) -> None:
    with pytest.raises(ValueError, match="LogUniformDensity is an improper prior and has no draws"):
        LogUniformDensity().expand((3,)).sample(rng_key)
