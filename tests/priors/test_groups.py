"""The priors of Bayesian compression: their sites, groups and divergences against their definitions, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpyro.handlers import seed, substitute, trace
from tests.infer import programs

import bayesprune as bp
from bayesprune.formulas import log_normal, log_uniform
from bayesprune.model.families import MeanFieldFamily
from bayesprune.model.layout import ParamPath, ParamSpec, of_compression
from bayesprune.model.prior import Moments
from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.posteriors.scales import GaussianScale

DENSE = ParamSpec(ParamPath("a.kernel"), (3, 4), jnp.float32, True, True, (0,), (1,), 3, 4)
BIAS = ParamSpec(ParamPath("a.bias"), (4,), jnp.float32, True, False, (), (0,), 1, 4)
CONV = ParamSpec(ParamPath("c.kernel"), (1, 1, 2, 5), jnp.float32, True, True, (2,), (3,), 2, 5)
LAYOUT = (DENSE, BIAS, CONV)
PRIORS = [bp.priors.GroupNormalJeffreys(), bp.priors.GroupHorseshoe()]
by_prior = pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
first_fast = pytest.mark.fast_cases(1)


def sites_of(fn, key):
    return {n: s for n, s in trace(seed(fn, key)).get_trace().items() if s["type"] == "sample"}


def params_of(prior, key, family=None):
    tr = trace(seed(lambda: prior.guide(LAYOUT, family or prior.family), key)).get_trace()
    return {n: s["value"] for n, s in tr.items() if s["type"] == "param"}


def test_groups_are_inputs_of_dense_kernels_and_channels_of_convolutions() -> None:
    heads = ParamSpec(ParamPath("h"), (4, 2, 3), jnp.float32, True, True, (0,), (1, 2), 4, 6)
    equinox = ParamSpec(ParamPath("e"), (5, 2, 3, 3), jnp.float32, True, True, (1,), (0,), 18, 5)
    assert [of_compression(s) for s in (*LAYOUT, heads, equinox)] == [(3, 1), None, (1, 1, 1, 5), (4, 1, 1), (5, 1, 1, 1)]


@pytest.mark.slow
@first_fast
@by_prior
def test_a_scale_multiplies_its_group(prior, rng_key) -> None:
    """The model at given sites, its scales as written out; the guide has the same sites."""
    guide = {n: s["value"] for n, s in sites_of(lambda: prior.guide(LAYOUT, prior.family), rng_key).items()}
    weights = seed(substitute(lambda: prior.model(LAYOUT), data=guide), rng_key)()
    v = {n: np.asarray(x, np.float64) for n, x in guide.items()}
    for site, shape in (("a.kernel", (3, 1)), ("c.kernel", (1, 1, 1, 5))):
        if isinstance(prior, bp.priors.GroupNormalJeffreys):
            scale = v[f"{site}.z"]
        else:
            half = lambda name: np.sqrt(v[f"{name}_gamma"] * v[f"{name}_inverse"])  # noqa: E731
            scale = half(f"{site}.s") * half(f"{site}.z")
        assert scale.shape == shape
        np.testing.assert_allclose(weights[site], scale * v[site], rtol=1e-5)
    np.testing.assert_allclose(weights["a.bias"], v["a.bias"])
    model = sites_of(substitute(lambda: prior.model(LAYOUT), data=guide), rng_key)
    assert {n: s["fn"].shape() for n, s in model.items()} == {n: jnp.shape(x) for n, x in guide.items()}


@pytest.mark.slow
def test_the_product_16_3_is_half_cauchy() -> None:
    """(16.3): s ~ C+(0, tau0) and z ~ C+(0, 1), by three quantiles; 20,000 draws, five standard errors."""
    prior = bp.priors.GroupHorseshoe(tau0=1e-3)
    sites = ("a.kernel.s_gamma", "a.kernel.s_inverse", "a.kernel.z_gamma", "a.kernel.z_inverse")

    def one(key):
        found = sites_of(lambda: prior.model((DENSE,)), key)
        values = [found[name]["value"].reshape(-1)[0] for name in sites]
        return jnp.sqrt(values[0] * values[1]), jnp.sqrt(values[2] * values[3])

    draws = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(2), 20_000))
    for values, width in zip(draws, (1e-3, 1.0), strict=True):
        for share in (0.1, 0.5, 0.9):
            below = np.mean(np.asarray(values) < scipy.stats.halfcauchy(scale=width).ppf(share))
            assert abs(below - share) < 5 * np.sqrt(share * (1 - share) / 20_000)


@first_fast
@by_prior
def test_law_unit_and_prior_are_those_of_draws(prior) -> None:
    """Mean and variance of the scale, 40,000 draws of the guide, five standard errors; (16.4) for the horseshoe."""
    family = MeanFieldFamily(init_range=0.5, init_scale=0.3)
    params = params_of(prior, jax.random.key(3), family)
    params = {n: jnp.full_like(v, 0.3) if n.endswith("z_scale") else v for n, v in params.items()}
    node = prior.node(family.posterior(params, LAYOUT)["c.kernel"], CONV, Moments(family, params))
    assert isinstance(node, Scaled) and node.prior_scale == 1.0 and node.unit.shape == (1, 1, 1, 5)

    def draw(key):
        found = {n: s["value"] for n, s in sites_of(substitute(lambda: prior.guide(LAYOUT, family), data=params), key).items()}
        ones = found | {"c.kernel": jnp.ones(CONV.shape)}
        return seed(substitute(lambda: prior.model(LAYOUT), data=ones), key)()["c.kernel"][:, :, :1]

    draws = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(4), 40_000)), np.float64)
    spread = draws.std(0)
    assert np.all(np.abs(draws.mean(0) - node.unit) < 5 * spread / 200)
    error = np.sqrt(((draws - draws.mean(0)) ** 4).mean(0) - spread**4) / 200
    assert np.all(np.abs(spread**2 - node.law.variance()) < 5 * error)
    np.testing.assert_allclose(node.law.mean(), node.unit)
    if isinstance(prior, bp.priors.GroupHorseshoe):
        logs = np.log(draws)
        np.testing.assert_allclose(logs.mean(0) - logs.var(0), -node.law.redundancy(), atol=0.02)
    bias = prior.node(family.posterior(params, LAYOUT)["a.bias"], BIAS, Moments(family, params))
    assert type(bias) is MeanField and bias.prior_scale == 1.0


@pytest.mark.slow
@first_fast
@by_prior
def test_the_divergence_16_1_is_of_scales_and_of_weights_apart(prior, rng_key) -> None:
    """(16.1): the loss without data at weight 1 is the sum of (13.5), or of (3.2) four times, and of the weights' own."""
    params = params_of(prior, rng_key, prior.family)
    loss = bp.MeanFieldELBO().loss(rng_key, params, lambda: prior.model(LAYOUT), lambda: prior.guide(LAYOUT, prior.family))
    value = lambda name: np.asarray(params[name], np.float64)  # noqa: E731
    total = 0.0
    for spec, stem in zip(LAYOUT, ("auto", "dense", "auto"), strict=True):
        m, v = value(f"{spec.path}_{stem}_loc"), value(f"{spec.path}_{stem}_scale") ** 2
        total += np.sum(v + m**2 - 1 - np.log(v)) / 2
    for site in ("a.kernel", "c.kernel"):
        if isinstance(prior, bp.priors.GroupNormalJeffreys):
            total += np.sum(log_uniform.kl_divergence(value(f"{site}.z_loc"), value(f"{site}.z_scale")))
            continue
        for scale, rate in (("s", prior.tau0**2), ("z", 1.0)):
            of = lambda part, n=f"{site}.{scale}": (value(f"{n}_{part}_log_loc"), value(f"{n}_{part}_log_scale"))  # noqa: E731
            total += np.sum(log_normal.kl_gamma(*of("gamma"), 0.5, 1.0))
            total += np.sum(log_normal.kl_inverse_gamma(*of("inverse"), 0.5, rate))
    np.testing.assert_allclose(loss, total, rtol=1e-4)


@first_fast
@by_prior
def test_points_are_refused(prior, rng_key) -> None:
    with pytest.raises(ValueError, match=f"priors.{type(prior).__name__} has no maximum.*posterior='mean_field'"):
        bp.fit_svi(rng_key, programs.small_bnn(prior=prior, posterior="map"), programs.classes(), num_steps=1, progress=False)


def test_a_negative_scale_keeps_the_scores_of_weights_honest() -> None:
    """E z may be below zero, where the weight's absolute value is what counts."""
    there = {"w": MeanField(jnp.array([0.5, -2.0]), jnp.array([1.0, 0.1]), None, 0.3)}
    flipped = {"w": MeanField(jnp.array([0.5, -2.0]), jnp.array([1.0, 0.1]), None, -0.3)}
    for score in (bp.scores.magnitude, bp.scores.expected_abs, bp.scores.second_moment):
        np.testing.assert_array_equal(score(there)["w"], score(flipped)["w"])


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@by_prior
def test_local_noise_has_the_loss_of_sampled_weights(prior) -> None:
    """Scales are drawn, outputs given them: the same mean loss over 3,000 keys (5 standard errors), and a smaller spread."""
    bnn, data = programs.small_bnn(prior=prior), programs.classes(rows=30)
    start = trace(seed(bnn.guide, jax.random.key(0))).get_trace()
    params = {n: s["value"] for n, s in start.items() if s["type"] == "param" and not isinstance(s["value"], dict)}
    params = {n: jnp.full_like(v, 0.5) if n.endswith(("auto_scale", "dense_scale")) else v for n, v in params.items()}
    found = []
    for elbo in (bp.MeanFieldELBO(), bp.LocalELBO()):
        loss = jax.jit(jax.vmap(lambda key, e=elbo: e.loss(key, params, bnn.model, bnn.guide, data.x, data.y)))
        found.append(np.asarray(loss(jax.random.split(jax.random.key(5), 3000)), np.float64))
    weight, local = found
    assert abs(weight.mean() - local.mean()) < 5 * np.sqrt((weight.var() + local.var()) / 3000)
    assert local.std() < 0.9 * weight.std()


COURSE = bp.courses.Standard(rate=2e-2, warm_up=0.25)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@by_prior
def test_an_input_that_is_noise_is_cut(prior, rng_key) -> None:
    """Three of four inputs carry the classes: fit, cut at the widest gap, predict; evidence and masks go on working."""
    bnn, data = programs.small_bnn(prior=prior), programs.classes(rows=200)
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=3000, batch_size=50, progress=False, course=COURSE)
    cut = bp.prune_once(fit.params, bp.methods.WidestGap(), program=bnn)
    np.testing.assert_array_equal(cut.mask["Dense_0.kernel"].any(1), [True, True, True, False])
    np.testing.assert_array_equal(cut.mask["Dense_0.kernel"].any(1), cut.mask["Dense_0.kernel"].all(1))
    assert set(cut.mask) == {"Dense_0.kernel", "Dense_1.kernel", "Dense_2.kernel"}
    probs = bp.predict(rng_key, bnn, cut.params, data.x, mask=cut.mask, num_samples=20)
    assert bp.metrics.summary(probs, data.y)["accuracy"] > 0.9
    assert bp.bmr_prune(fit.params).info.density < 1.0


def test_a_gaussian_scale_has_no_shrinkage_factor() -> None:
    with pytest.raises(TypeError, match=r"LogNormalScale.*priors.Horseshoe or priors.GroupHorseshoe"):
        bp.prune_once({"a": Scaled(jnp.ones(3), jnp.ones(3), law=GaussianScale(1.0, 1.0))}, bp.methods.Shrinkage())


def test_a_bias_has_no_scale_and_is_refused_by_name(rng_key) -> None:
    nodes = {"b": MeanField(jnp.ones(3), jnp.ones(3)), "a": Scaled(jnp.ones(3), jnp.ones(3), law=GaussianScale(1.0, 1.0))}
    with pytest.raises(TypeError, match=r"site 'b' has none.*keep sites without one out by prunable="):
        bp.prune_once(nodes, bp.methods.WidestGap())
