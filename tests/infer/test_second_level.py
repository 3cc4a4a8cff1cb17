"""Scales learned after the fact: the bound against quadrature, units of known importance, and refusals."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.handlers import seed, trace
from scipy import special, stats

import bayesprune as bp
from bayesprune.posteriors.mean_field import Scaled
from bayesprune.posteriors.scales import LogNormalScale
from tests.infer import programs

KERNEL, BIAS = "Dense_0.kernel", "Dense_0.bias"


@dataclass(frozen=True)
class OneScale:
    """All weights share one scale, s ~ C+(0, 1): simple enough for a quadrature."""

    def model(self, layout):
        s = numpyro.sample("s", dist.HalfCauchy(1.0))
        return {str(spec.path): s * numpyro.sample(str(spec.path), dist.Normal().expand(spec.shape)) for spec in layout}

    def guide(self, layout, family):
        family.positive("s")
        for spec in layout:
            family.weight(spec)

    def node(self, node, spec, moment):
        return Scaled(node.loc, node.scale, 1.0, moment("s", 1.0), LogNormalScale(*moment.log("s")))


def fitted(prior=None):
    """A net whose first layer has three units that matter, and five that do not; a second layer of no interest."""
    bnn = programs.small_bnn(prior=prior or bp.priors.Gaussian(0.5))
    sites = trace(seed(bnn.guide, jax.random.key(0))).get_trace()
    params = {n: s["value"] for n, s in sites.items() if s["type"] == "param"}
    signal = jnp.where(jnp.arange(8) < 3, 0.8, 0.0)
    noise = 0.05 * jax.random.normal(jax.random.key(1), (4, 8))
    known = {f"{KERNEL}_auto_loc": signal + noise, f"{KERNEL}_auto_scale": jnp.full((4, 8), 0.1)}
    known |= {f"{BIAS}_auto_loc": signal, f"{BIAS}_auto_scale": jnp.full(8, 0.1)}
    return bnn, params | known


def true_gain(nodes) -> float:
    """log of E_p(s)[ exp sum dF(s) ] by the trapezoidal rule over log s, with dF from the densities themselves."""
    loc, scale = (np.concatenate([np.ravel(getattr(n, f)) for n in nodes.values()]).astype(float) for f in ("loc", "scale"))
    scale = np.minimum(scale, 1.0)
    t = np.linspace(-9, 4, 4001)
    s2 = np.exp(2 * t)[:, None]
    # E_q[N(w; 0, s²)/N(w; 0, 1)]: a Gaussian integral of precision 1/scale² + 1/s² - 1.
    precision = 1 / scale**2 + 1 / s2 - 1
    gains = -0.5 * np.log(s2 * scale**2 * precision) - 0.5 * (loc**2 / scale**2) * (1 - 1 / (scale**2 * precision))
    density = stats.halfcauchy.logpdf(np.exp(t)) + t
    return float(special.logsumexp(gains.sum(1) + density) + np.log(t[1] - t[0]))


@pytest.mark.slow
def test_2_7_the_bound_is_below_the_evidence_and_near_it() -> None:
    """(2.7): of one scale a log-normal is nearly the posterior: .1 nats, and five standard errors of the 150 draws."""
    bnn, params = fitted()
    reduction = bp.reduce_scales(jax.random.key(2), bnn, params, OneScale(), num_steps=1500)
    exact, error = true_gain(bnn.read(params)), reduction.bounds[-150:].std() / np.sqrt(150)
    assert exact - 0.1 - 5 * error < reduction.evidence_gained < exact + 5 * error and error < 0.1
    assert reduction.bounds.shape == (1500,)


@pytest.mark.slow
def test_units_that_do_not_matter_shrink_and_are_cut() -> None:
    """The horseshoe over a Gaussian fit: Shrinkage cuts the five, keeps the three, and evidence was gained."""
    bnn, params = fitted()
    reduction = bp.reduce_scales(jax.random.key(3), bnn, params, bp.priors.Horseshoe(), num_steps=1000)
    pruned = bp.prune_once(reduction.posterior, bp.methods.Shrinkage())
    np.testing.assert_array_equal(pruned.mask[KERNEL], np.broadcast_to(np.arange(8) < 3, (4, 8)))
    np.testing.assert_array_equal(pruned.mask[BIAS], np.arange(8) < 3)
    assert reduction.evidence_gained > 10
    node, full = reduction.posterior[KERNEL], bnn.read(params)[KERNEL]
    assert np.all(np.abs(node.loc) <= np.abs(full.loc) + 1e-6) and np.all(
        np.asarray(node.scale) <= np.asarray(full.scale) + 1e-6
    )
    assert float(node.unit) == 0.5


@pytest.mark.slow
def test_dead_weights_say_nothing_of_their_scales() -> None:
    """Of pruned parameters: the bound is that of the living weights alone, which are not shrunk by the dead beside them."""
    bnn, params = fitted()
    alive = {site: jax.random.bernoulli(jax.random.key(8), 0.3, node.loc.shape) for site, node in bnn.read(params).items()}
    alive[BIAS] = jnp.ones(8, bool)
    cut = bnn.cut(params, alive)
    reduction = bp.reduce_scales(jax.random.key(2), bnn, cut, OneScale(), num_steps=300)
    living = {
        site: bp.MeanField(node.loc[alive[site]], node.scale[alive[site]], 1.0, 1.0) for site, node in bnn.read(params).items()
    }
    exact, error = true_gain(living), reduction.bounds[-30:].std() / np.sqrt(30)
    assert exact - 0.2 - 5 * error < reduction.evidence_gained < exact + 5 * error
    node = reduction.posterior[KERNEL]
    assert (
        not np.asarray(node.loc)[~np.asarray(alive[KERNEL])].any()
        and not np.asarray(node.scale)[~np.asarray(alive[KERNEL])].any()
    )
    important = np.asarray(alive[KERNEL]) & (np.arange(8) < 3)
    assert (np.asarray(node.loc)[important] > 0.5).all()


@pytest.mark.slow
@pytest.mark.parametrize("prior", [bp.priors.Horseshoe(), bp.priors.GroupHorseshoe(), bp.priors.GroupNormalJeffreys()])
def test_a_fit_that_has_scales_gets_no_second_ones(prior) -> None:
    bnn = programs.small_bnn(prior=prior)
    sites = trace(seed(bnn.guide, jax.random.key(0))).get_trace()
    params = {n: s["value"] for n, s in sites.items() if s["type"] == "param"}
    with pytest.raises(ValueError, match="has scales already, those of priors"):
        bp.reduce_scales(jax.random.key(0), bnn, params, bp.priors.Horseshoe(), num_steps=2)


@pytest.mark.slow
def test_refusals() -> None:
    bnn, params = fitted()
    with pytest.raises(TypeError, match=r"must give its weights scales, as priors.Horseshoe\(\) does"):
        bp.reduce_scales(jax.random.key(0), bnn, params, bp.priors.Gaussian(), num_steps=2)
    whole = programs.small_bnn(prior=bp.priors.Flat(), prunable=bp.select.everything)
    fit = bp.fit_svi(jax.random.key(0), whole, programs.classes(rows=20), num_steps=1, progress=False)
    with pytest.raises(TypeError, match=r"last layer, no scales of their own.*Horseshoe\(last='unit'\)"):
        bp.reduce_scales(jax.random.key(0), whole, fit.params, bp.priors.Horseshoe(), num_steps=2)
    mixture = programs.small_bnn(prior=bp.priors.ScaleMixture())
    with pytest.raises(ValueError, match="no fixed Gaussian prior"):
        bp.reduce_scales(jax.random.key(0), mixture, params, bp.priors.Horseshoe(), num_steps=2)


@pytest.mark.slow
def test_a_rate_that_is_too_large_is_told() -> None:
    bnn, params = fitted()
    with pytest.raises(bp.DivergedError, match=r"the scales' bound stopped being finite at step .*smaller learning rate"):
        bp.reduce_scales(jax.random.key(0), bnn, params, bp.priors.Horseshoe(), num_steps=30, optimizer=optax.sgd(1e8))
