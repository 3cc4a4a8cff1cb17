"""The vision transformer: sizes by hand, NumPy's outputs, roles, whole units, dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util
from tests.nets import tokens

import bayesprune as bp

SHAPE = (4, 4, 2)
IMAGES = jax.random.normal(jax.random.key(0), (6, *SHAPE))
DATA = bp.Dataset(IMAGES, np.arange(6, dtype=np.int32) % 3)


def tiny(**settings) -> bp.nets.ViT:
    sizes = {"patch": 2, "features": 4, "num_blocks": 1, "num_heads": 2, "hidden": 5, "frame": 0}
    return bp.nets.ViT(3, **(sizes | settings))


def bnn_of(net, **settings) -> bp.BNN:
    chosen = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "input_shape": SHAPE}
    return bp.BNN(net, **(chosen | settings))


NET = tiny()
BNN, APPLY = bnn_of(NET), jax.jit(NET.apply)


def by_hand(channels, classes, patch=4, features=256, blocks=6, hidden=512, side=32, token=True) -> int:
    embedded = (patch**2 * channels + 1) * features
    placed = ((side // patch) ** 2 + token + token) * features
    attention = 4 * (features + 1) * features
    mlp = (features + 1) * hidden + (hidden + 1) * features
    return embedded + placed + blocks * (attention + mlp + 4 * features) + 2 * features + (features + 1) * classes


@pytest.mark.parametrize(
    ("net", "shape", "wanted"),
    [
        (bp.nets.ViT(10), (28, 28, 1), by_hand(1, 10)),
        (bp.nets.ViT(100), (32, 32, 3), by_hand(3, 100)),
        (tiny(), SHAPE, by_hand(2, 3, 2, 4, 1, 5, 4)),
        (tiny(pool="mean"), SHAPE, by_hand(2, 3, 2, 4, 1, 5, 4, token=False)),
    ],
)
def test_number_of_parameters(net, shape, wanted) -> None:
    assert tokens.count(net, shape) == wanted


def attention(p, name, x):
    """Two heads, one by one."""
    heads = []
    for head in range(2):
        parts = (x @ p[f"{name}.{part}.kernel"][:, head] + p[f"{name}.{part}.bias"][head] for part in ("query", "key", "value"))
        query, key, value = parts
        weights = np.exp(query @ key.swapaxes(1, 2) / np.sqrt(query.shape[-1]))
        heads.append(weights / weights.sum(-1, keepdims=True) @ value @ p[f"{name}.out.kernel"][head])
    return sum(heads) + p[f"{name}.out.bias"]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("pool", ["token", "mean", "none"])
def test_outputs_against_numpy(pool) -> None:
    net = tiny(pool=pool)
    apply = APPLY if net == NET else jax.jit(net.apply)
    variables, p = tokens.drawn(net, SHAPE)
    x = tokens.dense(p, "embed", tokens.cut(IMAGES, 2))
    if pool == "token":
        x = np.concatenate([np.repeat(p["class_token"], len(x), axis=0), x], axis=1)
    x = x + p["position_embedding"]
    x = x + attention(p, "EncoderBlock_0.attention", tokens.norm(p, "EncoderBlock_0.LayerNorm_0", x))
    x = x + tokens.feed_forward(p, "EncoderBlock_0.feed_forward", tokens.norm(p, "EncoderBlock_0.LayerNorm_1", x))
    x = tokens.norm(p, "LayerNorm_0", x)
    read = {"token": x[:, 0], "mean": x.mean(1), "none": x}[pool]
    np.testing.assert_allclose(apply(variables, IMAGES), tokens.dense(p, "head", read), rtol=2e-4, atol=2e-4)


def test_small_images_are_framed() -> None:
    """28x28 pixels are centred in 32x32: sixty-four patches and a class token."""
    shapes = jax.eval_shape(bp.nets.ViT(10).init, jax.random.key(0), jnp.zeros((1, 28, 28, 1)))["params"]
    assert shapes["position_embedding"].shape == (1, 65, 256)


def test_norms_and_tokens_are_points_by_default_and_everything_is_bayesian_by_a_preset() -> None:
    roles = {str(spec.path): (spec.bayesian, spec.prunable) for spec in BNN.layout}
    points = {path for path, (bayesian, _) in roles.items() if not bayesian}
    norms = {f"{layer}.{part}" for layer in ("EncoderBlock_0.LayerNorm_0", "EncoderBlock_0.LayerNorm_1", "LayerNorm_0")
             for part in ("scale", "bias")}  # fmt: skip
    assert points == norms | {"class_token", "position_embedding"}
    assert {path for path, (bayesian, prunable) in roles.items() if bayesian and not prunable} == {"head.kernel", "head.bias"}
    authors = bnn_of(tiny(), bayesian=bp.select.everything, prunable=bp.select.not_last)
    assert all(spec.bayesian and spec.prunable is not spec.path.is_last for spec in authors.layout)
    token, place = (next(s for s in authors.layout if s.path == name) for name in ("class_token", "position_embedding"))
    assert (token.shape, token.inputs, token.outputs, token.fan_in) == ((1, 1, 4), (), (0, 1, 2), 1)
    # Channels are what it makes, tokens are its places.
    assert (place.shape, place.inputs, place.outputs, place.fan_in, place.fan_out) == ((1, 5, 4), (), (0, 2), 1, 20)
    per_output = authors.groups("per_output").members["position_embedding"]
    assert len(np.unique(per_output)) == 4 and per_output.shape == (1, 1, 4)


def test_a_heads_kernels_say_what_they_read_and_make() -> None:
    specs = {str(spec.path): spec for spec in BNN.layout}
    query, out = specs["EncoderBlock_0.attention.query.kernel"], specs["EncoderBlock_0.attention.out.kernel"]
    assert (query.inputs, query.outputs, query.fan_in) == ((0,), (1, 2), 4)
    assert (out.inputs, out.outputs, out.fan_in) == ((0, 1), (2,), 4)


def test_units_are_of_heads_of_the_feed_forward_net_and_of_the_stream() -> None:
    """Without units, and without what is then not connected, the outputs stay; a unit is no more than its weights."""
    found = BNN.units.producers
    value, hidden, stream = (found[f"{site}.kernel"] for site in (
        "EncoderBlock_0.attention.value", "EncoderBlock_0.feed_forward.Dense_0", "embed"))  # fmt: skip
    assert [len(np.unique(units)) for units in (value, hidden, stream)] == [4, 5, 4]
    mask = {site: ~np.isin(units, (value[0, 0, 1], hidden[0, 2], stream[0, 3])) for site, units in found.items()}
    used = bp.connected(BNN, mask)
    out = "EncoderBlock_0.attention.out.kernel"
    assert mask[out][0, 1, 0] and not used[out][0, 1].any(), "nothing reads what a head no longer makes"
    _, p = tokens.drawn(NET, SHAPE)
    kept = [
        traverse_util.unflatten_dict({site: np.float32(p[site] * alive[site]) for site in p}, sep=".") for alive in (mask, used)
    ]
    np.testing.assert_allclose(*(APPLY({"params": params}, IMAGES) for params in kept), rtol=1e-5, atol=1e-5)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "scope"), [("weight", "unit"), ("local", "unit"), ("weight", "head")])
def test_whole_units_and_heads_fall_in_training(estimator, scope) -> None:
    groups = BNN.groups(scope)
    fit = bp.fit_svi(
        jax.random.key(0), BNN, DATA, num_steps=2, batch_size=3, optimizer=optax.adam(1e-2), estimator=estimator,
        sparsifier=bp.methods.Cut(score="snr", density=0.5, scope=scope), every=1, progress=False,
    )  # fmt: skip
    assert np.isfinite(fit.losses).all()
    mask = {site: np.asarray(alive) for site, alive in fit.mask.items()}
    fallen = 0
    for group in range(groups.count):
        own = np.concatenate(
            [alive[np.broadcast_to(groups.members[site] == group, alive.shape)] for site, alive in mask.items()]
        )
        assert own.all() or not own.any()
        fallen += not own.any()
    assert 0 < fallen < groups.count
    used = bp.connected(BNN, mask)
    assert sum(alive.sum() for alive in used.values()) < sum(alive.sum() for alive in mask.values())
    whole, less = (bp.predict(jax.random.key(1), BNN, fit.params, IMAGES, mask=m, num_samples=2) for m in (mask, used))
    np.testing.assert_allclose(less, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("net", [bp.nets.ViT, bp.nets.MLPMixer])
def test_an_unknown_pool_is_refused(net) -> None:
    with pytest.raises(ValueError, match=r"unknown pool 'max'\. .*Known: .*mean, none"):
        jax.eval_shape(net(3, pool="max").init, jax.random.key(0), jnp.zeros((1, 4, 4, 2)))


def test_heads_that_do_not_divide_the_channels_are_refused() -> None:
    with pytest.raises(ValueError, match=r"features=6 cannot be split evenly over num_heads=4"):
        jax.eval_shape(tiny(features=6, num_heads=4).init, jax.random.key(0), jnp.zeros((1, 4, 4, 2)))


def test_dropout_is_of_training_alone() -> None:
    variables, _ = tokens.drawn(NET, SHAPE)
    train = jax.jit(lambda variables, key: tiny(dropout=0.5).apply(variables, IMAGES, True, rngs={"dropout": key}))
    first, again, other = (train(variables, jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other, atol=1e-3)
    np.testing.assert_array_equal(jax.jit(tiny(dropout=0.5).apply)(variables, IMAGES), APPLY(variables, IMAGES))
