"""Priors: what they sample, against their definitions by Monte Carlo and SciPy.

Failure budget: fixed keys, five standard errors in each of about a dozen numbers: below 1e-5 had the keys been random.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpyro.handlers import seed, substitute, trace
from numpyro.infer.util import log_density

import bayesprune as bp
from bayesprune.model.families import MapFamily, MeanFieldFamily
from bayesprune.model.layout import ParamPath, ParamSpec

PRIORS = [bp.priors.Flat(), bp.priors.Gaussian(0.3), bp.priors.ScaleMixture(), bp.priors.Cauchy()]
SIZES = {"a.kernel": (40, 50), "a.bias": (50,), "norm.scale": (50,), "z.kernel": (50, 40), "z.bias": (40,)}


def layout(sizes=SIZES, last="z"):
    return tuple(
        ParamSpec(ParamPath(name, name.startswith(last)), shape, jnp.float32, "norm" not in name, not name.startswith(last))
        for name, shape in sizes.items()
    )


def draw(prior, key):
    """Weights, and the sites behind them."""
    weights = {}
    sites = trace(seed(lambda: weights.update(prior.model(layout())), key)).get_trace()
    return {k: np.asarray(v, np.float64) for k, v in weights.items()}, sites


def off(values, variance) -> float:
    """How many standard errors the mean square of zero-mean normal draws is away from ``variance``."""
    flat = np.concatenate([v.reshape(-1) for v in values])
    return abs(np.mean(flat**2) / variance - 1) * np.sqrt(len(flat) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_only_bayesian_weights_are_sampled_and_the_guide_has_the_same_sites(prior, rng_key) -> None:
    weights, sites = draw(prior, rng_key)
    assert {k: v.shape for k, v in weights.items()} == {k: v for k, v in SIZES.items() if k != "norm.scale"}
    latent = {n for n, s in sites.items() if s["type"] == "sample"}
    for family in (MeanFieldFamily(), MapFamily()):
        guide = trace(seed(lambda f=family: prior.guide(layout(), f), rng_key)).get_trace()
        assert {n for n, s in guide.items() if s["type"] == "sample"} == latent
        params = {n: s["value"] for n, s in guide.items() if s["type"] == "param"}
        nodes = family.posterior(params, layout())
        assert {k: v.loc.shape for k, v in nodes.items()} == {k: v.shape for k, v in weights.items()}
    # Every named element is a site of its own, so that a mask reaches it.
    assert all(not sites[name]["fn"].event_shape for name in weights)


@pytest.mark.slow
def test_flat_has_one_scale_for_each_layer(rng_key) -> None:
    """(1.1): given c, w ~ N(0, (gamma c)²), gamma 0.1, in the last layer 1."""
    weights, sites = draw(bp.priors.Flat(), rng_key)
    for layer, gamma in (("a", 0.1), ("z", 1.0)):
        c = float(sites[f"{layer}.precision"]["value"]) ** -0.5
        assert off([weights[f"{layer}.kernel"], weights[f"{layer}.bias"]], (gamma * c) ** 2) < 5
        assert off([sites[f"{layer}.kernel"]["value"]], 1.0) < 5, "the posterior's coordinates have the prior N(0, 1)"
    precision = sites["a.precision"]["fn"]
    at = np.array([0.1, 1.0, 4.0])
    np.testing.assert_allclose(precision.log_prob(at), scipy.stats.gamma.logpdf(at, 2.0, scale=0.5), rtol=1e-5)


def test_flat_over_c_as_well(rng_key) -> None:
    """c^-2 ~ Gamma(2, 2) makes w/gamma a Student t of 4 degrees of freedom: compare its quartiles."""
    spec = (ParamSpec(ParamPath("a.kernel"), (1,), jnp.float32, True, True),)
    one = lambda key: seed(bp.priors.Flat(gamma0=0.1).model, key)(spec)["a.kernel"][0]  # noqa: E731
    values = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(rng_key, 40_000))) / 0.1
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        below = np.mean(values < scipy.stats.t.ppf(share, df=4))
        assert abs(below - share) < 5 * np.sqrt(share * (1 - share) / 40_000)


def test_gaussian(rng_key) -> None:
    weights, _ = draw(bp.priors.Gaussian(0.3), rng_key)
    assert off(weights.values(), 0.09) < 5


@pytest.mark.slow
def test_scale_mixture_density_and_draws(rng_key) -> None:
    prior = bp.priors.ScaleMixture(scale1=2.0, scale2=0.1, pi=0.25)
    spec = (ParamSpec(ParamPath("a.kernel"), (3,), jnp.float32, True, True),)
    w = np.array([0.05, -1.0, 3.0])
    density, _ = log_density(lambda: prior.model(spec), (), {}, {"a.kernel": jnp.asarray(w / 2.0, jnp.float32)})
    by_scipy = np.log(0.25 * scipy.stats.norm.pdf(w, 0, 2.0) + 0.75 * scipy.stats.norm.pdf(w, 0, 0.1))
    # In units of scale1 the density is scale1 times as high.
    assert float(density) == pytest.approx(by_scipy.sum() + 3 * np.log(2.0), rel=1e-5)
    weights, _ = draw(prior, rng_key)
    flat = np.concatenate([v.reshape(-1) for v in weights.values()])
    narrow = 0.25 * (2 * scipy.stats.norm.cdf(0.3 / 2.0) - 1) + 0.75 * (2 * scipy.stats.norm.cdf(3.0) - 1)
    assert abs(np.mean(np.abs(flat) < 0.3) - narrow) < 5 * np.sqrt(narrow * (1 - narrow) / len(flat))


@pytest.mark.parametrize("centred", [False, True])
def test_cauchy_density_and_draws(rng_key, centred) -> None:
    """In the weight's own units or in those of its scale; quartiles of draws by SciPy."""
    prior, unit = bp.priors.Cauchy(scale=0.2, centred=centred), 1.0 if centred else 0.2
    spec = (ParamSpec(ParamPath("a.kernel"), (3,), jnp.float32, True, True),)
    w = np.array([0.05, -1.0, 30.0])
    density, _ = log_density(lambda: prior.model(spec), (), {}, {"a.kernel": jnp.asarray(w / unit, jnp.float32)})
    assert float(density) == pytest.approx(scipy.stats.cauchy.logpdf(w, scale=0.2).sum() + 3 * np.log(unit), rel=1e-5)
    weights, _ = draw(prior, rng_key)
    flat = np.concatenate([v.reshape(-1) for v in weights.values()])
    for share in (0.02, 0.25, 0.5, 0.75, 0.98):
        below = np.mean(flat < scipy.stats.cauchy.ppf(share, scale=0.2))
        assert abs(below - share) < 5 * np.sqrt(share * (1 - share) / len(flat))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_priors_can_be_pruned_from_outside(prior, rng_key) -> None:
    mask = {"a.kernel": jnp.arange(2000).reshape(40, 50) % 3 == 0}
    weights = substitute(seed(bp.masked(prior.model, mask), rng_key), data={})(layout())
    assert not np.any(np.asarray(weights["a.kernel"])[~np.asarray(mask["a.kernel"])])
    assert np.all(np.asarray(weights["a.kernel"])[np.asarray(mask["a.kernel"])] != 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bp.priors.Flat(gamma0=0.0), "gamma0 must be positive"),
        (lambda: bp.priors.Flat(last_gamma=-1.0), "last_gamma must be positive"),
        (lambda: bp.priors.Gaussian(float("inf")), "scale must be positive"),
        (lambda: bp.priors.Cauchy(scale=0.0), "scale must be positive"),
        (lambda: bp.priors.ScaleMixture(scale2=-1.0), "scale2 must be positive"),
        (lambda: bp.priors.ScaleMixture(scale1=0.1, scale2=0.2), "scale2 must be below scale1, got 0.2 and 0.1"),
        (lambda: bp.priors.ScaleMixture(pi=1.0), r"pi must lie in \(0, 1\), got 1.0"),
    ],
)
def test_settings_out_of_range_are_refused(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()
