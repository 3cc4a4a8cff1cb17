"""The spike-and-slab distributions: densities, draws, divergences, and what NumPyro makes of them."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import SVI, TraceMeanField_ELBO
from scipy import integrate, stats
from scipy.special import expit

import bayesprune as bp
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.handlers import masked
from bayesprune.posteriors.divergence import closed_form
from bayesprune.posteriors.spike_slab import GATES, GatedNormal, TwoNormals

LOC, SCALE, LOGIT = 0.4, 0.3, 0.8


def test_the_density_of_a_gated_normal_sums_to_one() -> None:
    fn = GatedNormal(LOC, SCALE, LOGIT)
    slab = integrate.quad(lambda w: float(jnp.exp(fn.log_prob(w))), LOC - 3, LOC + 3, points=[LOC], limit=80)[0]
    assert slab + float(jnp.exp(fn.log_prob(0.0))) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(fn.log_prob(0.0), np.log(expit(-LOGIT)), rtol=1e-6)


def test_the_density_of_two_normals_is_scipys() -> None:
    w = np.array([-2.0, 0.0, 0.05, 1.0])
    expected = np.log(0.3 * stats.norm.pdf(w, 0, 2.0) + 0.7 * stats.norm.pdf(w, 0, 0.1))
    np.testing.assert_allclose(TwoNormals(0.1, 2.0, 0.3).log_prob(w), expected, rtol=1e-5)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("gate", ["hard", "inverse_cdf"])
def test_draws_have_the_distribution(gate: str, rng_key) -> None:
    """Share of zeros and law of the rest, 40,000 draws: each bound is missed by chance once in 1e5."""
    draws = np.asarray(GatedNormal(LOC, SCALE, LOGIT, gate=gate).sample(rng_key, (40_000,)))
    zero = draws == 0
    assert abs(zero.mean() - expit(-LOGIT)) < 4.4 * np.sqrt(expit(-LOGIT) * expit(LOGIT) / 40_000)
    assert stats.kstest(draws[~zero], stats.norm(LOC, SCALE).cdf).pvalue > 1e-5


def test_draws_of_two_normals_have_the_distribution(rng_key) -> None:
    draws = np.asarray(TwoNormals(0.1, 2.0, 0.3).sample(rng_key, (40_000,)))
    cdf = lambda w: 0.3 * stats.norm.cdf(w, 0, 2.0) + 0.7 * stats.norm.cdf(w, 0, 0.1)  # noqa: E731
    assert stats.kstest(draws, cdf).pvalue > 1e-5


def test_an_unknown_gate_is_refused() -> None:
    with pytest.raises(ValueError, match="Did you mean 'inverse_cdf'"):
        GatedNormal(gate="inverse")


def gated_program(gate: str = "hard", log_lam: float = -3.0):
    """A linear regression with gates, written by hand."""

    def model(x, y=None):
        w = numpyro.sample("w", GatedNormal(jnp.zeros(3), 1.0, log_lam, gate=gate))
        numpyro.sample("obs", dist.Normal(x @ w, 1.0), obs=y)

    def guide(x, y=None):
        logit = numpyro.param("logit", jnp.array([-1.0, 0.5, 2.0]))
        loc, scale = numpyro.param("loc", jnp.array([0.1, -0.4, 1.0])), jnp.array([0.2, 0.5, 0.3])
        numpyro.sample("w", GatedNormal(loc, scale, logit, gate=gate))

    return model, guide


def exact_loss(x: np.ndarray, y: np.ndarray) -> float:
    """The negative bound of `gated_program`: all eight masks enumerated, Gaussian moments by hand."""
    phi, loc, scale = expit([-1.0, 0.5, 2.0]), np.array([0.1, -0.4, 1.0]), np.array([0.2, 0.5, 0.3])
    lam = expit(-3.0)
    mean, second = phi * loc, phi * (loc**2 + scale**2)
    variance = second - mean**2
    expected = np.sum((y - x @ mean) ** 2 + (x**2) @ variance) / 2 + len(y) * np.log(2 * np.pi) / 2
    slab = 0.5 * (scale**2 + loc**2 - 1) - np.log(scale)
    return expected + np.sum(phi * np.log(phi / lam) + (1 - phi) * np.log((1 - phi) / (1 - lam)) + phi * slab)


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["hard", "inverse_cdf"])
@pytest.mark.parametrize("elbo", [MeanFieldELBO(4000), bp.LocalELBO(4000), TraceMeanField_ELBO(4000)])
def test_estimators_agree_with_the_exact_bound(gate: str, elbo, rng_key) -> None:
    """Mean of 4,000 draws against enumeration; the standard error is 0.15 nats, and five of them may be missed once in 1e6."""
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    y = x @ np.array([0.0, -0.5, 1.0], np.float32)
    model, guide = gated_program(gate)
    params = {"loc": jnp.array([0.1, -0.4, 1.0]), "logit": jnp.array([-1.0, 0.5, 2.0])}
    loss = elbo.loss(rng_key, params, model, guide, x, y)
    assert float(loss) == pytest.approx(exact_loss(x, y), abs=0.75)


@pytest.mark.slow
def test_dead_weights_are_zero_and_leave_the_bound(rng_key) -> None:
    model, guide = gated_program()
    mask = {"w": jnp.zeros(3, bool)}
    x, y = jnp.ones((10, 3)), jnp.zeros(10)
    loss = MeanFieldELBO(3).loss(rng_key, {}, masked(model, mask), masked(guide, mask), x, y)
    assert float(loss) == pytest.approx(10 * np.log(2 * np.pi) / 2, rel=1e-5)  # noise alone: no divergence, no weights


@pytest.mark.slow
def test_numpyros_svi_takes_a_network_with_gates(rng_key) -> None:
    bnn = bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.DiracSlab(), likelihood=bp.likelihoods.Normal(1.0), input_shape=(2,))
    x = jnp.ones((5, 2))
    result = SVI(bnn.model, bnn.guide, numpyro.optim.Adam(1e-2), TraceMeanField_ELBO()).run(
        rng_key, 3, x, jnp.ones(5), progress_bar=False
    )
    assert np.isfinite(result.losses).all()
    assert "Dense_0.kernel_auto_logit" in result.params


def test_closed_forms_are_known_by_kind() -> None:
    assert closed_form(dist.Normal(0, 1), TwoNormals(0.1)) is not None
    assert closed_form(GatedNormal(), dist.Normal(0, 1)) is None
    assert closed_form(dist.Laplace(0, 1), dist.Normal(0, 1)) is None
    assert set(GATES) == {"hard", "inverse_cdf", "relaxed"}
