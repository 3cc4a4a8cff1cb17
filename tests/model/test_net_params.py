"""A fit as the network's own parameters: taken by the module itself, equal to the means of draws, or refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from numpyro.handlers import seed, substitute, trace
from tests.infer import programs
from tests.model.test_adapters import LinenNormed, NnxNormed

import bayesprune as bp
from bayesprune.model.bnn import STATE
from bayesprune.posteriors.params import PRIORS
from bayesprune.posteriors.structured import StructuredFamily

ROWS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
MLP = bp.nets.MLP((2,), 2)


def build(net=MLP, **settings) -> bp.BNN:
    chosen = {"prior": bp.priors.Gaussian(0.5), "likelihood": bp.likelihoods.Categorical(), "input_shape": (3,)}
    return bp.BNN(net, **(chosen | settings))


def first_params(bnn: bp.BNN, rng_key) -> dict:
    """Parameters of a fit before its first step."""
    guide = trace(seed(bnn.guide, rng_key)).get_trace(ROWS)
    model = trace(substitute(seed(bnn.model, rng_key), data={n: s["value"] for n, s in guide.items()})).get_trace(ROWS)
    sites = {name: site for name, site in (guide | model).items() if site["type"] in ("param", "mutable") and name != PRIORS}
    return {name: site["value"] for name, site in sites.items()}


def drawn(bnn: bp.BNN, params: dict, rng_key) -> dict:
    """The latent sites of one draw of the guide."""
    sites = trace(substitute(seed(bnn.guide, rng_key), data=params)).get_trace()
    return {name: site["value"] for name, site in sites.items() if site["type"] == "sample"}


def in_its_own_hands(net, own) -> jax.Array:
    if isinstance(net, linen.Module):
        return net.apply(own, jnp.asarray(ROWS))
    if isinstance(net, nnx.Module):
        nnx.update(copy := nnx.clone(net), own)
        copy.eval()
        return copy(ROWS)
    return jax.vmap(own)(ROWS)


NETS = {
    "linen": lambda: MLP,
    "linen, batch norm": LinenNormed,
    "nnx, batch norm": lambda: NnxNormed(nnx.Rngs(0)),
    "equinox": lambda: eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0)),
}


@pytest.mark.slow
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", NETS)
def test_the_module_computes_what_the_network_of_points_does(kind, rng_key, tmp_path) -> None:
    net = NETS[kind]()
    bnn = build(net, posterior="map", bayesian=bp.select.kernels)
    params = first_params(bnn, rng_key)
    if STATE in params:  # other statistics than those that the module starts with
        params[STATE] = jax.tree.map(lambda leaf: leaf + 0.5, params[STATE])
    own = bp.Pruned(params, {}, None).net_params(bnn)
    ours = substitute(seed(bnn.network, rng_key), data=params | drawn(bnn, params, rng_key))(ROWS)
    np.testing.assert_allclose(in_its_own_hands(net, own), ours, rtol=1e-5, atol=1e-6)
    bp.FitResult(params, None, np.ones(1), {}, {}).save(tmp_path / "fit")
    np.testing.assert_array_equal(
        in_its_own_hands(net, bp.load(tmp_path / "fit").net_params(bnn)), in_its_own_hands(net, own), "saved and loaded"
    )


PRIORS_WITH_MEANS = {
    "gates": bp.priors.DiracSlab(init_inclusion=0.7),
    "flat": bp.priors.Flat(),
    "horseshoe": bp.priors.Horseshoe(),
    "two Gaussians": bp.priors.GaussianSlab(),
    "mixture": bp.priors.ScaleMixture(),
}
NUM_DRAWS = 20_000


@pytest.mark.slow
def test_means_by_hand(rng_key) -> None:
    """Gates: phi loc sqrt 2. A layer's scale gamma0 exp(-u/2), u ~ N(m, s²): loc gamma0 exp(-m/2 + s²/8)."""
    site = "Dense_0.kernel_auto"
    gates = first_params(bnn := build(prior=PRIORS_WITH_MEANS["gates"]), rng_key)
    inclusion = 1 / (1 + np.exp(-np.asarray(gates[f"{site}_logit"], np.float64)))
    own = bnn.net_params(gates)["params"]["Dense_0"]["kernel"]
    np.testing.assert_allclose(own, inclusion * gates[f"{site}_loc"] * np.sqrt(2), rtol=1e-6)
    flat = first_params(bnn := build(prior=bp.priors.Flat()), rng_key)
    mean, std = (float(flat[f"Dense_0.precision_log_{field}"]) for field in ("loc", "scale"))
    own = bnn.net_params(flat)["params"]["Dense_0"]["kernel"]
    np.testing.assert_allclose(own, flat[f"{site}_loc"] * bnn.prior.gamma0 * np.exp(-mean / 2 + std**2 / 8), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIORS_WITH_MEANS)
def test_weights_are_the_means_of_draws(name, rng_key) -> None:
    """Within six standard errors of 20,000 draws, 14 weights a prior: wrong by chance once in 10^7 keys; the key is fixed."""
    bnn = build(prior=PRIORS_WITH_MEANS[name])
    params = first_params(bnn, rng_key)
    rows = {"num_rows": 6} if name == "gates" else {}

    def one(key) -> dict:
        return substitute(seed(bnn.prior.model, key), data=drawn(bnn, params, key))(bnn.layout, **rows)

    draws = jax.jit(jax.vmap(one))(jax.random.split(rng_key, NUM_DRAWS))
    own = bnn.net_params(params)["params"]
    for site, values in draws.items():
        layer, part = site.split(".")
        error = np.std(values, axis=0) / np.sqrt(NUM_DRAWS)
        assert np.all(np.abs(own[layer][part] - np.mean(values, axis=0)) <= 6 * error + 1e-7), site


def test_dead_weights_are_zero_and_a_fit_is_asked_itself(rng_key) -> None:
    bnn = build()
    params, mask = first_params(bnn, rng_key), {"Dense_0.kernel": np.arange(6).reshape(3, 2) % 2 == 0}
    fit = bp.FitResult(params, None, np.ones(1), mask, {})
    own, whole = fit.net_params(bnn)["params"], bnn.net_params(params)["params"]
    np.testing.assert_array_equal(own["Dense_0"]["kernel"], np.where(mask["Dense_0.kernel"], whole["Dense_0"]["kernel"], 0))
    assert np.all(whole["Dense_0"]["kernel"] != 0) and np.all(own["Dense_1"]["kernel"] == whole["Dense_1"]["kernel"])


def test_what_has_no_means_is_told(rng_key) -> None:
    bnn = build()
    params = first_params(bnn, rng_key)
    with pytest.raises(ValueError, match=r"params are samples: .* whose mean is none"):
        bnn.net_params({"Dense_0.kernel$draws": jnp.ones((1, 2, 3, 2))})
    with pytest.raises(ValueError, match=r"StructuredFamily vary .*posterior='mean_field'"):
        build(prior=bp.priors.Horseshoe(), posterior=StructuredFamily()).net_params(params)
    with pytest.raises(ValueError, match=r"params have no 'Dense_1\.kernel_\w+'"):
        bnn.net_params({name: value for name, value in params.items() if not name.startswith("Dense_1.kernel")})
    with pytest.raises(ValueError, match="unknown site in mask 'w'"):
        bnn.net_params(params, {"w": np.ones(2, bool)})
    with pytest.raises(TypeError, match=r"got FitResult: give its \.params"):
        bnn.net_params(bp.FitResult(params, None, np.ones(1), {}, {}))


@pytest.mark.slow
def test_a_pruned_fit_is_the_compact_network_at_its_means(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    pruned = bp.bmr_prune(bp.fit_svi(rng_key, bnn, data, num_steps=200, batch_size=20).params)
    assert not all(np.all(alive) for alive in pruned.mask.values())
    outputs = bp.nets.MLP(hidden=(8, 6), num_outputs=3).apply(pruned.net_params(bnn), jnp.asarray(data.x))
    small = bp.compact(bnn, pruned.params, pruned.mask)
    np.testing.assert_allclose(jax.nn.softmax(outputs), small.predict(data.x), rtol=1e-4, atol=1e-5)
