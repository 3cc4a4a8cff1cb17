"""The regularised horseshoe: its sites against SciPy's distributions, its nodes against draws, its refusals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
import scipy.stats
from jaxtyping import TypeCheckError
from numpyro.handlers import seed, substitute, trace

import bayesprune as bp
from bayesprune.model.families import MapFamily, MeanFieldFamily
from bayesprune.model.layout import ParamPath, ParamSpec
from bayesprune.model.prior import Moments
from bayesprune.posteriors.mean_field import Scaled
from bayesprune.posteriors.structured import StructuredFamily

KERNEL = ParamSpec(ParamPath("a.kernel"), (3, 4), jnp.float32, True, True, (0,), (1,), 3, 4)
BIAS = ParamSpec(ParamPath("a.bias"), (4,), jnp.float32, True, True, (), (0,), 1, 4)
HEADS = ParamSpec(ParamPath("b.kernel"), (4, 2, 3), jnp.float32, True, True, (0,), (1, 2), 4, 6)
LAST = ParamSpec(ParamPath("z.kernel", True), (6, 2), jnp.float32, True, False, (0,), (1,), 6, 2)
LAYOUT = (KERNEL, BIAS, HEADS, LAST)
FORMS = ["half_cauchy", "gamma_ratio"]


def sites_of(fn, key):
    return {n: s for n, s in trace(seed(fn, key)).get_trace().items() if s["type"] == "sample"}


def weights_at(prior, values):
    """The model's weights where its sites have ``values``."""
    return seed(substitute(lambda: prior.model(LAYOUT), data=values), jax.random.key(0))()


@pytest.mark.slow
def test_weights_are_the_products_of_3_1() -> None:
    """Given its sites, gamma as written out: c² nu² tau² / (c² + nu² tau²), by unit, heads included; the last layer by nu."""
    prior = bp.priors.Horseshoe(tau0=0.5, local=("b",))
    values = {n: s["value"] for n, s in sites_of(lambda: prior.model(LAYOUT), jax.random.key(1)).items()}
    assert {n: v.shape for n, v in values.items() if "kernel" not in n and "bias" not in n} == {
        "a.nu": (), "a.tau_4": (4,), "a.precision": (), "b.nu": (), "b.tau_6": (6,), "b.precision": (), "z.nu": (),
    }  # fmt: skip
    weights, v = weights_at(prior, values), {n: np.asarray(x, np.float64) for n, x in values.items()}

    def gamma(layer, tau):
        wide, c2 = (0.5 * v[f"{layer}.nu"] * tau) ** 2, 1 / v[f"{layer}.precision"]
        return np.sqrt(c2 * wide / (c2 + wide))

    np.testing.assert_allclose(weights["a.kernel"], gamma("a", v["a.tau_4"])[None] * v["a.kernel"], rtol=1e-5)
    np.testing.assert_allclose(weights["a.bias"], gamma("a", v["a.tau_4"]) * v["a.bias"], rtol=1e-5)
    tau = v["b.tau_6"].reshape(1, 2, 3) * v["b.kernel.lambda"]
    np.testing.assert_allclose(weights["b.kernel"], gamma("b", tau) * v["b.kernel"], rtol=1e-5)
    np.testing.assert_allclose(weights["z.kernel"], v["z.nu"] * v["z.kernel"], rtol=1e-5)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("form", FORMS)
def test_scales_are_half_cauchy(form) -> None:
    """Both forms draw tau ~ C+(0, 1): 20,000 draws, five standard errors at three quantiles."""
    prior = bp.priors.Horseshoe(tau0=1.0, slab=None, form=form)
    ones = {"a.kernel": jnp.ones((3, 4)), "a.nu": jnp.ones(()), "a.nu_numerator": 1.0, "a.nu_denominator": 1.0}
    one = lambda key: seed(substitute(lambda: prior.model((KERNEL,)), data=ones), key)()["a.kernel"][0, 0]  # noqa: E731
    taus = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(2), 20_000)))
    for share in (0.1, 0.5, 0.9):
        below = np.mean(taus < scipy.stats.halfcauchy.ppf(share))
        assert abs(below - share) < 5 * np.sqrt(share * (1 - share) / 20_000)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", [MeanFieldFamily(), StructuredFamily(), MapFamily()], ids=lambda f: type(f).__name__)
@pytest.mark.slow
def test_the_guide_has_the_sites_of_the_model(family, form, rng_key) -> None:
    prior = bp.priors.Horseshoe(form=form, local=("a",))
    model, guide = (sites_of(fn, rng_key) for fn in (lambda: prior.model(LAYOUT), lambda: prior.guide(LAYOUT, family)))
    assert {n: s["fn"].shape() for n, s in model.items()} == {n: jnp.shape(s["value"]) for n, s in guide.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("form", "slab_of"), [*((form, "layer") for form in FORMS), (FORMS[0], "unit")])
def test_unit_and_law_are_those_of_draws(form, slab_of) -> None:
    """unit = E gamma and the law of log(nu tau) against 20,000 draws of the guide, five standard errors."""
    prior, family = bp.priors.Horseshoe(tau0=0.3, form=form, slab_of=slab_of), MeanFieldFamily(init_range=0.5, init_scale=0.4)
    guide = trace(seed(lambda: prior.guide(LAYOUT, family), jax.random.key(3))).get_trace()
    params = {n: s["value"] for n, s in guide.items() if s["type"] == "param"}
    node = prior.node(family.posterior(params, LAYOUT)["a.kernel"], KERNEL, Moments(family, params))
    assert isinstance(node, Scaled) and node.prior_scale == 1.0 and node.unit.shape == (1, 4)

    def draw(key):
        values = {n: s["value"] for n, s in sites_of(substitute(lambda: prior.guide(LAYOUT, family), data=params), key).items()}
        ones = values | {"a.kernel": jnp.ones((3, 4))}
        return weights_at(prior, ones)["a.kernel"][0], weights_at(replace(prior, slab=None), ones)["a.kernel"][0]

    bounded, free = (np.asarray(d, np.float64) for d in jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(4), 20_000)))
    error = bounded.std(0) / np.sqrt(20_000)
    assert np.all(np.abs(bounded.mean(0) - np.asarray(node.unit)[0]) < 5 * error)
    logs = np.log(free)
    assert np.all(np.abs(logs.mean(0) - np.asarray(node.law.log_mean())[0]) < 5 * logs.std(0) / np.sqrt(20_000))
    np.testing.assert_allclose(logs.std(0), np.asarray(node.law.log_std())[0], rtol=5 / np.sqrt(40_000))


@pytest.mark.slow
def test_the_last_layer_may_have_units_too(rng_key) -> None:
    sites = sites_of(lambda: bp.priors.Horseshoe(last="unit").model(LAYOUT), rng_key)
    assert sites["z.tau_2"]["value"].shape == (2,) and "z.precision" in sites


@pytest.mark.slow
def test_units_may_have_slabs_of_their_own(rng_key) -> None:
    """(3.1) with c_i, written out at drawn values; the guide has the sites, and no layer's precision is left."""
    prior = bp.priors.Horseshoe(slab_of="unit")
    sites, guide = (
        sites_of(fn, rng_key) for fn in (lambda: prior.model(LAYOUT), lambda: prior.guide(LAYOUT, MeanFieldFamily()))
    )
    v = {name: np.asarray(site["value"]) for name, site in sites.items()}
    assert {n: x.shape for n, x in v.items()} == {n: jnp.shape(s["value"]) for n, s in guide.items()}
    assert v["a.precision_4"].shape == (4,) and "a.precision" not in v and not any(n.startswith("z.prec") for n in v)
    variance = (0.01 * v["a.nu"] * v["a.tau_4"]) ** 2  # nu is standard half-Cauchy, tau0 = .01 its width
    expected = v["a.kernel"] * np.sqrt(variance / (1 + variance * v["a.precision_4"]))
    np.testing.assert_allclose(weights_at(prior, v)["a.kernel"], expected, rtol=1e-5)


def test_refusals(rng_key) -> None:
    with pytest.raises(ValueError, match="unknown slab_of 'array'"):
        bp.priors.Horseshoe(slab_of="array")
    with pytest.raises(ValueError, match="unknown form 'cauchy'"):
        bp.priors.Horseshoe(form="cauchy")
    with pytest.raises(ValueError, match="tau0 must be positive"):
        bp.priors.Horseshoe(tau0=0.0)
    with pytest.raises((ValueError, TypeCheckError), match="slab"):
        bp.priors.Horseshoe(slab=(2.0,))
    with pytest.raises((TypeError, TypeCheckError), match="local"):
        bp.priors.Horseshoe(local=True)
    with pytest.raises(ValueError, match=r"unknown layer in local 'c'.*Known: a, b, z"):
        seed(bp.priors.Horseshoe(local="c").model, rng_key)(LAYOUT)


def started(course, form) -> dict[str, np.ndarray]:
    """The parameters that a fit under the course starts with."""
    bnn = bp.BNN(
        bp.nets.MLP((8, 8), 3), prior=bp.priors.Horseshoe(form=form), likelihood=bp.likelihoods.Categorical(), input_shape=(4,)
    )
    sites = trace(seed(course.begin(bnn).guide, jax.random.key(0))).get_trace(jnp.zeros((2, 4)), jnp.zeros(2, int))
    return {name: np.asarray(site["value"]) for name, site in sites.items() if site["type"] == "param"}


def test_a_slab_as_a_list_is_the_same_prior() -> None:
    """Without the tests' own check of types, as users have it."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        listed = bp.priors.Horseshoe(slab=[2.0, 6.0], local=["a"])
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
    assert listed == bp.priors.Horseshoe(slab=(2.0, 6.0), local=("a",))
    assert hash(listed) == hash(bp.priors.Horseshoe(local=("a",)))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_layers_start_at_a_scale_of_one(form) -> None:
    """tau0 nu = 1 in hidden layers, so that a deep net carries its input; nu = 1 of the last; the authors' start is theirs."""
    scales = {"half_cauchy": lambda p, n: p[f"{n}_log_loc"],
              "gamma_ratio": lambda p, n: (p[f"{n}_numerator_log_loc"] - p[f"{n}_denominator_log_loc"]) / 2}  # fmt: skip
    log_nu = lambda params, layer: scales[form](params, f"{layer}.nu")  # noqa: E731
    ours, theirs = started(bp.courses.Standard(), form), started(bp.courses.Plain(), form)
    for layer in ("Dense_0", "Dense_1"):
        np.testing.assert_allclose(log_nu(ours, layer), np.log(100.0), rtol=1e-6)
        assert abs(log_nu(theirs, layer)) < 2
    np.testing.assert_array_equal(log_nu(ours, "Dense_2"), 0.0)


@pytest.mark.every
@pytest.mark.slow
def test_a_deep_network_learns() -> None:
    """Five layers: below three quarters of the loss without inputs, at which fits from nu's median stay."""
    bnn = bp.BNN(
        bp.nets.MLP((50,) * 5, 10), prior=bp.priors.Horseshoe(), likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1)
    )
    train, _ = bp.data.load("digits")
    fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=1_500, batch_size=128, progress=False)
    assert np.mean(fit.losses[-50:]) < 0.75 * len(train.x) * np.log(10.0)
