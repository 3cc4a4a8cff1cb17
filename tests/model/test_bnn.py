"""`BNN`: the net's own outputs under given weights, layers by first use, state and dropout, refusals."""

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
from bayesprune.model import select
from bayesprune.model.adapters import adapt
from bayesprune.model.families import MeanFieldFamily
from bayesprune.model.inputs import Inputs
from bayesprune.posteriors.params import PRIORS

ROWS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


class Backwards(linen.Module):
    """Layers whose names are sorted against the order of their use."""

    @linen.compact
    def __call__(self, x):
        x = jnp.tanh(linen.Dense(4, name="z")(x))
        return linen.Dense(2, name="a")(jnp.tanh(linen.Dense(3, name="m")(x)))


NETS = {
    "linen": lambda: linen.Sequential([linen.Dense(4), jnp.tanh, linen.Dense(2)]),
    "nnx": lambda: nnx.Sequential(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), jnp.tanh, nnx.Linear(4, 2, rngs=nnx.Rngs(1))),
    "equinox": lambda: eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0)),
    "linen, conv": lambda: linen.Sequential(
        [lambda x: x[:, :, None, None], linen.Conv(2, (2, 1)), lambda x: x.reshape(len(x), -1), linen.Dense(2)]
    ),
}


def build(net, **settings) -> bp.BNN:
    chosen = {"prior": bp.priors.Gaussian(0.5), "likelihood": bp.likelihoods.Categorical(), "input_shape": (3,)}
    return bp.BNN(net, **(chosen | settings))


def own_outputs(net, weights) -> np.ndarray:
    """The module called in its own way on given weights."""
    params = adapt(net, Inputs.of_shape((3,))).init(jax.random.key(0))[0]
    assert {k: v.shape for k, v in params.items()} == {k: v.shape for k, v in weights.items()}
    if isinstance(net, nnx.Module):
        net = nnx.clone(net)
        for name, value in weights.items():
            *way, last = name.split(".")
            node = net
            for step in way:
                node = node[int(step)] if step.isdigit() else getattr(node, step)
            getattr(node, last).set_value(value)
        return net(ROWS)
    if isinstance(net, eqx.Module):
        at = lambda tree: [getattr(layer, part) for layer in tree.layers for part in ("weight", "bias")]  # noqa: E731
        new = [weights[f"layers.{i}.{part}"] for i in range(len(net.layers)) for part in ("weight", "bias")]
        return jax.vmap(eqx.tree_at(at, net, new))(ROWS)
    tree: dict = {}
    for name, value in weights.items():
        layer, _, part = name.rpartition(".")
        tree.setdefault(layer, {})[part] = value
    return net.apply({"params": tree}, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETS)
def test_outputs_are_the_nets_own_under_the_sampled_weights(kind, rng_key) -> None:
    net = NETS[kind]()
    bnn = build(net)
    sites = trace(seed(bnn.model, rng_key)).get_trace(ROWS)
    weights = {str(spec.path): 0.5 * sites[str(spec.path)]["value"] for spec in bnn.layout}
    np.testing.assert_allclose(sites["obs"]["fn"].logits, own_outputs(net, weights), rtol=1e-5, atol=1e-6)
    assert bnn.num_outputs == 2


def test_layers_are_ordered_by_first_use_not_by_name() -> None:
    layout = build(Backwards()).layout
    assert [str(spec.path) for spec in layout] == ["z.kernel", "z.bias", "m.kernel", "m.bias", "a.kernel", "a.bias"]
    assert [spec.path.is_last for spec in layout] == [False] * 4 + [True] * 2
    assert [spec.prunable for spec in layout] == [True] * 4 + [False] * 2
    assert {spec.path.layer for spec in layout} == {"z", "m", "a"}


@pytest.mark.slow
def test_predicates_choose_and_name_the_parameters(rng_key) -> None:
    bnn = build(Backwards(), bayesian=select.kernels, prunable=lambda path, shape: path.layer != "m")
    assert [str(spec.path) for spec in bnn.layout if spec.prunable] == ["z.kernel", "a.kernel"]
    params = {n for n, s in trace(seed(bnn.guide, rng_key)).get_trace().items() if s["type"] == "param"}
    assert params - {PRIORS} == {
        f"{s}_{p}" for s in ("z.kernel_auto", "m.kernel_dense", "a.kernel_auto") for p in ("loc", "scale")
    }
    points = {n for n, s in trace(seed(bnn.model, rng_key)).get_trace(ROWS).items() if s["type"] == "param"}
    assert points == {"z.bias", "m.bias", "a.bias"}, "what is not Bayesian is a point"


def test_map_has_points_for_a_posterior(rng_key) -> None:
    bnn = build(Backwards(), posterior="map", prior=bp.priors.Flat())
    sites = trace(seed(bnn.guide, rng_key)).get_trace()
    params = {n: s["value"] for n, s in sites.items() if s["type"] == "param"}
    assert {"z.kernel_map_loc", "a.kernel_dense_map_loc", "z.precision_log_loc"} <= set(params)
    node = bnn.read(params)["z.kernel"]
    np.testing.assert_array_equal(node.loc, sites["z.kernel"]["value"])
    assert float(jnp.max(node.scale)) == 0.0
    assert set(bnn.read(params)) == {"z.kernel", "z.bias", "m.kernel", "m.bias"}
    assert set(bnn.posterior(params)) == set(bnn.read(params)) | {"a.kernel", "a.bias"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "settings"),
    [(LinenNormed(), {"estimator": "local", "num_particles": 2}), (NnxNormed(nnx.Rngs(0)), {"estimator": "weight"})],
    ids=["linen", "nnx"],
)
def test_batch_statistics_are_learned_and_used(net, settings, rng_key) -> None:
    x = (5.0 + 3.0 * ROWS).astype(np.float32)
    bnn = build(net)
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(x, np.array([0, 1, 0, 1, 0, 1], np.int32)), num_steps=3, **settings)
    state = fit.params["net$state"]
    first = trace(seed(bnn.network, rng_key)).get_trace(x)["net$state"]["value"]
    assert jax.tree.structure(state) == jax.tree.structure(first)
    pairs = list(zip(jax.tree.leaves(state), jax.tree.leaves(first), strict=True))
    assert all(a.shape == b.shape and np.all(np.isfinite(a)) for a, b in pairs)
    assert sum(not np.allclose(a, b) for a, b in pairs) >= 2, "mean and variance have moved"
    probs = bp.predict(rng_key, bnn, fit.params, x, num_samples=3)
    others = fit.params | {"net$state": first}
    assert not np.allclose(probs, bp.predict(rng_key, bnn, others, x, num_samples=3))


@pytest.mark.slow
def test_dropout_is_for_training_alone(rng_key) -> None:
    bnn = build(bp.nets.MLP(hidden=(8,), num_outputs=2, dropout=0.5))
    weights = {n: s["value"] for n, s in trace(seed(bnn.network, rng_key)).get_trace(ROWS).items() if s["type"] == "sample"}
    fixed = substitute(bnn.network, data=weights)
    run = lambda key, train: np.asarray(seed(fixed, key)(ROWS, train))  # noqa: E731
    keys = jax.random.split(rng_key)
    assert not np.array_equal(run(keys[0], True), run(keys[1], True))
    assert np.array_equal(run(keys[0], False), run(keys[1], False))


def test_what_cannot_be_a_network_is_refused() -> None:
    with pytest.raises(TypeError, match="net must be a Flax linen"):
        build(object())
    with pytest.raises(ValueError, match=r"unknown posterior 'mean-field'.*Did you mean 'mean_field'"):
        programs.small_bnn(posterior="mean-field")
    with pytest.raises(ValueError, match="no parameter is Bayesian"):
        programs.small_bnn(bayesian=select.nothing)
    with pytest.raises(ValueError, match="prunable='Dense_0' chooses nothing, for none of it has a posterior"):
        programs.small_bnn(bayesian="Dense_1", prunable=("Dense_1", "Dense_0"))
    with pytest.raises(ValueError, match="bayesian='Dense_0' chooses nothing, for all of it is frozen"):
        programs.small_bnn(bayesian=("Dense_0", "Dense_1"), frozen="Dense_0")
    for change, shape in ((lambda x: x[:, 0], r"\(1,\)"), (lambda x: x.T, r"\(4, 1\)"), (lambda x: x[0], r"\(4,\)")):
        with pytest.raises(ValueError, match=rf"outputs of shape \(rows, outputs\).*, got {shape} for one row"):
            build(linen.Sequential([linen.Dense(4), change]))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("net", ["linen", "nnx", "equinox"])
def test_networks_of_equal_parts_are_equal(net) -> None:
    one, other = (build(NETS[net](), prunable=lambda path, shape: True) for _ in range(2))
    assert one == other and hash(one) == hash(other) and one is not other


def test_other_parts_make_another_network() -> None:
    one = build(NETS["linen"]())
    others = {
        "net": build(linen.Sequential([linen.Dense(5), jnp.tanh, linen.Dense(2)])),
        "prior": build(NETS["linen"](), prior=bp.priors.Gaussian(0.6)),
        "likelihood": build(NETS["linen"](), likelihood=bp.likelihoods.Normal(1.0)),
        "family": build(NETS["linen"](), posterior="map"),
        "layout": build(NETS["linen"](), prunable=select.kernels),
    }
    assert [name for name, other in others.items() if one == other] == []
    weights = [build(eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(n))) for n in range(2)]
    assert weights[0] != weights[1], "an Equinox net's arrays are where its points start from"


def test_programs_of_the_same_callables_are_equal() -> None:
    model, guide = (lambda x, y=None: None), (lambda x, y=None: None)
    assert bp.Program(model, guide) == bp.Program(model, guide) != bp.Program(guide, guide)
    assert len({bp.Program(model, guide), bp.Program(model, guide)}) == 1


class Two(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(x), linen.Dense(1)(x)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": bp.priors.Flat}, r"prior must be an object, got the class Flat: call it, as in bp\.priors\.Flat\(\)"),
        ({"prior": "flat"}, r"prior must be .* got 'flat': give one such as bp\.priors\.Flat\(\)"),
        ({"likelihood": bp.likelihoods.Normal}, r"likelihood must be an object, got the class Normal"),
        ({"likelihood": None}, r"likelihood must be .* got None"),
        ({"posterior": MeanFieldFamily}, r"posterior must be an object, got the class MeanFieldFamily"),
        ({"input_shape": "3"}, r"input_shape must be the shape of one row of x"),
        ({"input_shape": {3, 4}}, r"input_shape must be the shape of one row of x"),
        ({"input_shape": 3.0}, r"input_shape must be the shape of one row of x"),
    ],
)
def test_what_is_no_object_is_refused(settings, message) -> None:
    with pytest.raises(TypeError, match=message):
        build(linen.Dense(2), **settings)


def test_a_net_of_several_outputs_is_refused() -> None:
    with pytest.raises(TypeError, match=r"several outputs.*takes one array"):
        build(Two())


def test_a_number_is_the_length_of_a_vector() -> None:
    assert build(linen.Dense(2), input_shape=3) == build(linen.Dense(2), input_shape=[3])
