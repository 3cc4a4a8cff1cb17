"""Noise of units over points: its sites, what its nodes say, what is refused, and a fit that drops units."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
import pytest
from numpyro.handlers import seed, substitute, trace
from scipy import stats
from tests.infer import programs

import bayesprune as bp
from bayesprune.formulas import truncated_log_normal
from bayesprune.model.families import MeanFieldFamily
from bayesprune.model.layout import ParamPath, ParamSpec
from bayesprune.model.prior import Moments
from bayesprune.posteriors.divergence import closed_form, divergence, read_elementwise
from bayesprune.posteriors.mean_field import Scaled
from bayesprune.posteriors.points import NoisyPoints
from bayesprune.priors.unit_noise import TruncatedNormal

CONV = ParamSpec(ParamPath("c.kernel"), (3, 3, 2, 5), jnp.float32, True, True, (2,), (3,), 18, 5)
BIAS = ParamSpec(ParamPath("c.bias"), (5,), jnp.float32, True, False, (), (0,), 1, 5)
LAST = ParamSpec(ParamPath("z.kernel", True), (5, 2), jnp.float32, True, False, (0,), (1,), 5, 2)
LAYOUT, PRIOR = (CONV, BIAS, LAST), bp.priors.UnitNoise()


def sites_of(fn, key):
    return trace(seed(fn, key)).get_trace()


@pytest.mark.slow
def test_noise_multiplies_the_channels_of_hidden_kernels_alone(rng_key) -> None:
    guide = sites_of(lambda: PRIOR.guide(LAYOUT, PRIOR.family), rng_key)
    values = {n: s["value"] for n, s in guide.items() if s["type"] == "sample"}
    assert set(values) == {"c.kernel", "c.kernel.log_theta", "c.bias", "z.kernel"}
    values["c.kernel.log_theta"] = jnp.linspace(-3.0, 0.0, 5).reshape(1, 1, 1, 5)
    weights = seed(substitute(lambda: PRIOR.model(LAYOUT), data=values), rng_key)()
    np.testing.assert_allclose(weights["c.kernel"], np.exp(np.linspace(-3, 0, 5)) * values["c.kernel"], rtol=1e-6)
    np.testing.assert_array_equal(weights["c.bias"], values["c.bias"])
    np.testing.assert_array_equal(weights["z.kernel"], values["z.kernel"])


@pytest.mark.slow
def test_the_loss_without_data_is_18_1(rng_key) -> None:
    """Points under a flat prior cost nothing; noise costs (18.1), mu and sigma kept in their bounds."""
    guide = sites_of(lambda: PRIOR.guide(LAYOUT, PRIOR.family), rng_key)
    params = {n: s["value"] for n, s in guide.items() if s["type"] == "param"}
    params["c.kernel.log_theta_loc"] = jnp.array([9.0, 0.0, -4.0, -19.0, -30.0]).reshape(1, 1, 1, 5)
    params["c.kernel.log_theta_scale"] = jnp.array([1.0, 0.1, 3.0, 1.0, 1.0]).reshape(1, 1, 1, 5)
    loss = bp.MeanFieldELBO().loss(rng_key, params, lambda: PRIOR.model(LAYOUT), lambda: PRIOR.guide(LAYOUT, PRIOR.family))
    exact = truncated_log_normal.kl_uniform(np.array([5.0, 0, -4, -19, -20]), np.array([1.0, 0.1, 3, 1, 1]), -20.0, 0.0)
    np.testing.assert_allclose(loss, exact.sum(), rtol=1e-5)
    node = PRIOR.node(PRIOR.family.posterior(params, LAYOUT)["c.kernel"], CONV, Moments(PRIOR.family, params))
    assert isinstance(node, Scaled) and node.prior_scale is None and not np.any(node.scale)
    np.testing.assert_allclose(node.unit, node.law.mean())
    assert PRIOR.node(PRIOR.family.posterior(params, LAYOUT)["z.kernel"], LAST, Moments(PRIOR.family, params)).unit == 1.0


@pytest.mark.parametrize("family", ["map", MeanFieldFamily()], ids=["map", "mean_field"])
def test_other_families_are_refused(family, rng_key) -> None:
    bnn = programs.small_bnn(prior=PRIOR, posterior=family)
    with pytest.raises(ValueError, match=r"priors.UnitNoise has points for weights.*leave posterior= at 'mean_field'"):
        bp.fit_svi(rng_key, bnn, programs.classes(), num_steps=1, progress=False)


def test_refusals(rng_key) -> None:
    with pytest.raises(ValueError, match="low must be finite and below 0"):
        bp.priors.UnitNoise(low=1.0)
    with pytest.raises(ValueError, match="init_spread must be 0"):
        NoisyPoints(init_spread=0.1)
    with pytest.raises(ValueError, match="FlatLine is an improper prior"):
        seed(PRIOR.model, rng_key)(LAYOUT)


@pytest.mark.every
@pytest.mark.slow
def test_units_that_are_not_needed_are_cut(rng_key) -> None:
    """From a trained net, as the authors have it: fit, cut by each rule, predict; evidence of weights is refused."""
    data = programs.classes(rows=200)
    points = programs.small_bnn(prior=bp.priors.Gaussian(), posterior="map", prunable=bp.select.hidden_kernels)
    start = bp.fit_svi(rng_key, points, data, num_steps=300, progress=False)
    bnn = programs.small_bnn(prior=PRIOR)
    fit = bp.fit_svi(
        rng_key, bnn, data, num_steps=3000, batch_size=50, progress=False, init_params=start.params, optimizer=optax.adam(1e-2)
    )
    assert set(bnn.read(fit.params)) == {"Dense_0.kernel", "Dense_1.kernel"}
    for method in (bp.methods.SBP(), bp.methods.BMRS("uniform", p1=4)):
        cut = bp.prune_once(fit.params, method, program=bnn)
        for alive in cut.mask.values():
            np.testing.assert_array_equal(np.asarray(alive).any(0), np.asarray(alive).all(0))
        assert 0.1 < cut.info.density < 1.0
        probs = bp.predict(rng_key, bnn, cut.params, data.x, mask=cut.mask, num_samples=20)
        assert bp.metrics.summary(probs, data.y)["accuracy"] > 0.9
    with pytest.raises(ValueError, match=r"priors.UnitNoise, whose units alone have evidence"):
        bp.bmr_prune(fit.params, program=bnn)
    again = bp.fit_svi(
        rng_key, bnn, data, num_steps=40, progress=False, estimator="local", sparsifier=bp.methods.SBP(), every=20,
        init_params=fit.params,
    )  # fmt: skip
    assert again.history["prune/density"][-1] < 1.0 and np.isfinite(again.losses).all()


@pytest.mark.parametrize("law", [(-3.0, 2.0), (4.0, 1.0), (-26.0, 1.5)])
def test_draws_and_density_are_scipys(law, rng_key) -> None:
    """20,000 draws by the Kolmogorov-Smirnov test at 1e-4 (fixed key); densities to rounding."""
    loc, scale = law
    exact = stats.truncnorm((-20 - loc) / scale, -loc / scale, loc, scale)
    ours = TruncatedNormal(loc, scale, -20.0, 0.0)
    draws = np.asarray(jax.jit(lambda key: ours.sample(key, (20_000,)))(rng_key), np.float64)
    assert stats.kstest(draws, exact.cdf).pvalue > 1e-4
    np.testing.assert_allclose(ours.log_prob(draws[:50]), exact.logpdf(draws[:50]), rtol=1e-3, atol=1e-3)


def test_the_divergence_from_the_uniform_is_closed() -> None:
    """That of (18.1); a prior that is wider adds the log of the widths' ratio, one that is narrower has none."""
    q = TruncatedNormal(np.array([-3.0, -8.0]), 2.0, -20.0, 0.0)
    nats = lambda low, high: divergence(q, read_elementwise(dist.Uniform(low, high).expand((2,))))  # noqa: E731
    assert closed_form(q, dist.Uniform(-20.0, 0.0)) is not None
    own = truncated_log_normal.kl_uniform(np.array([-3.0, -8.0]), 2.0, -20.0, 0.0)
    np.testing.assert_allclose(nats(-20.0, 0.0), own, rtol=1e-6)
    np.testing.assert_allclose(nats(-30.0, 10.0), own + np.log(2), rtol=1e-6)
    assert np.isinf(nats(-10.0, 0.0)).all()
