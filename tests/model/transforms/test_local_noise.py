"""Which weights make noise and which are drawn once: every row of the outputs has the joint law of sampled weights.

The oracle samples weights by NumPy and runs the net on them. Failure budget: fixed keys; fewer than 1,000 numbers are asked to
lie within `SIGMAS` standard errors, so that a correct program fails with probability below 2 in 1,000 had the keys been random.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from jax import lax

from bayesprune.model.transforms.gaussian_array import GaussianArray
from bayesprune.model.transforms.local_noise import local_noise

SIGMAS = 5.0
DRAWS = 4_000
SCALE = 0.3


def normal(number, *shape):
    return jnp.asarray(np.random.default_rng(number).normal(size=shape).astype(np.float32))


X, TOKENS = normal(2, 3, 4), normal(3, 3, 5, 4)
IDS = jnp.array([[0, 1], [2, 2], [4, 3]])
KERNEL, SQUARE = 0.5 * normal(1, 4, 3), 0.5 * normal(1, 4, 4)


def module(net, x):
    """A linen net as a function of its parameters, its other collections as they start: made when it is asked for."""

    @functools.cache
    def made():
        variables = jax.jit(net.init)(jax.random.key(0), x)
        rest = {name: value for name, value in variables.items() if name != "params"}
        apply = lambda params, x: net.apply({"params": params, **rest}, x, mutable=list(rest))[0]  # noqa: E731
        return variables["params"], apply, x

    return made


def case(entry):
    return entry() if callable(entry) else entry


class Cosine(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.WeightNorm(linen.Dense(3, use_bias=False), use_scale=False)(x)


class Tied(linen.Module):
    @linen.compact
    def __call__(self, ids):
        embed = linen.Embed(5, 4)
        return embed.attend(embed(ids).mean(1))


class Pooled(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Conv(3, (3,), padding="VALID")(x).mean(1)


class BatchNormed(linen.Module):
    @linen.compact
    def __call__(self, x):
        return jnp.tanh(linen.BatchNorm(use_running_average=False, use_scale=False, use_bias=False)(linen.Dense(3)(x)))


def turned(w, x):
    """Keys of rows met by keys of other rows."""
    h = jnp.tanh(x @ w)
    return jax.nn.softmax(h @ h.T)


# Name -> (weights, net, data): nets in which no weight may make noise.
DRAWN = {
    "cosine": (KERNEL, lambda w, x: x @ (w / jnp.linalg.norm(w, axis=0)), X),
    "times a function of itself": (KERNEL, lambda w, x: x @ (w * jax.nn.sigmoid(w)), X),
    "less its mean": (KERNEL, lambda w, x: x @ (w - w.mean(0)), X),
    "where a function says": (KERNEL, lambda w, x: x @ jnp.where(jnp.abs(w) > 0.3, w, 0.0), X),
    "data first, then a function": (KERNEL, lambda w, x: (x @ w) / jnp.linalg.norm(w), X),
    "function first, then data": (KERNEL, lambda w, x: jnp.exp(-jnp.sum(w**2)) * (x @ w), X),
    "normed token": (normal(1, 4), lambda w, x: x * w * lax.rsqrt(jnp.mean(w**2)), X),
    "constant times weight": (normal(1, 6, 3), lambda w, x: jnp.tanh(x @ (normal(5, 4, 6) @ w)), X),
    "tied": (KERNEL, lambda w, x: jnp.tanh(x @ w) @ w.T, X),
    "twice, added": (KERNEL, lambda w, x: x @ w + (x**2) @ w, X),
    "twice, side by side": (KERNEL, lambda w, x: (x @ w, jnp.tanh(x**2 @ w)), X),
    "recurrent": (SQUARE, lambda w, x: lax.fori_loop(0, 3, lambda _, h: jnp.tanh(h @ w), x), X),
    "unrolled": (SQUARE, lambda w, x: jnp.tanh(jnp.tanh(x @ w) @ w), X),
    "tokens": (KERNEL, lambda w, x: jnp.tanh(x @ w).mean(1), TOKENS),
    "bias of positions": (normal(1, 4), lambda w, x: jnp.tanh(x + w).mean(1), TOKENS),
    "rows mixed": (KERNEL, turned, X),
    "rows turned over": (KERNEL, lambda w, x: jnp.tanh(x @ w) + jnp.tanh(x @ w)[::-1] ** 2, X),
    "after data in a loop": (SQUARE, lambda w, x: lax.fori_loop(0, 2, lambda _, h: jnp.tanh(h), x @ w), X),
    "under a branch": (KERNEL, lambda w, x: lax.cond(x[0, 0] > 0, lambda w: x @ w, lambda w: -x @ w, w), X),
    "a branch of it": (KERNEL, lambda w, x: lax.cond(w.sum() > 0, jnp.sin, jnp.cos, x @ w), X),
    "two factors": ((normal(1, 4, 2), normal(5, 2, 3)), lambda w, x: x @ (w[0] @ w[1]), X),
    "weight norm": module(Cosine(), X),
    "batch norm": module(BatchNormed(), X),
    "tied embedding": module(Tied(), IDS),
    "attention": module(linen.MultiHeadDotProductAttention(2), TOKENS),
}
SUBSET = ("cosine", "constant times weight", "tied", "data first, then a function", "batch norm", "tokens")


def lift(params, key, scale=SCALE):
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(structure, [GaussianArray(leaf, scale, key) for leaf, key in zip(leaves, keys, strict=True)])


def drawn(tree):
    return jax.tree.map(lambda g: g.materialise(), tree, is_leaf=lambda leaf: isinstance(leaf, GaussianArray))


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("name", DRAWN)
def test_one_draw_where_noise_would_be_wrong(name) -> None:
    """Not a bit of it is noise: the net of the one draw, whatever the order in which it meets data and itself."""
    params, net, x = case(DRAWN[name])
    weights = lift(params, jax.random.key(7))
    ours, wanted = jax.jit(lambda w: (local_noise(net)(w, x), net(drawn(w), x)))(weights)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), ours, wanted)


def moments(samples):
    """Mean and covariance of the outputs of each row, with the standard errors of both: (rows, outputs), (rows, outputs²)."""
    samples = samples.reshape(len(samples), len(X), -1)
    away = samples - samples.mean(0)
    products = (away[..., :, None] * away[..., None, :]).reshape(len(samples), len(X), -1)
    errors = samples.std(0), products.std(0)
    return (samples.mean(0), products.mean(0)), [error / np.sqrt(len(samples)) for error in errors]


def by_numpy(params, net, x, scale=SCALE):
    """The net on weights that NumPy drew."""
    leaves, structure = jax.tree.flatten(params)
    rng = np.random.default_rng(0)
    draws = [leaf + scale * rng.normal(size=(DRAWS, *leaf.shape)).astype(np.float32) for leaf in map(np.asarray, leaves)]
    return np.asarray(jax.jit(jax.vmap(lambda w: net(w, x)))(jax.tree.unflatten(structure, draws)), np.float64)


def ours(params, net, x, **settings):
    run = lambda key: local_noise(net, **settings)(lift(params, key), x)  # noqa: E731
    return np.asarray(jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(11), DRAWS)), np.float64)


def assert_same_law(one, other):
    for a, b, e, f in zip(*(values for pair in zip(moments(one), moments(other), strict=True) for values in pair), strict=True):
        assert np.all(np.abs(a - b) <= SIGMAS * np.hypot(e, f) + 1e-6)


class Normed(linen.Module):
    """Everything that a dense layer, its bias, and the scale and shift of a norm may meet."""

    @linen.compact
    def __call__(self, x):
        h = linen.LayerNorm()(linen.Dense(4)(x))
        h = linen.swish(h) + linen.GroupNorm(num_groups=2)(linen.Dense(4)(linen.relu(h)))
        return linen.log_softmax(linen.Dense(3)(h))


NOISY = {
    "a network": module(Normed(), X),
    "a constant after": (KERNEL, lambda w, x: jnp.tanh((x @ normal(5, 4, 4)) @ w), X),
    "a constant beside": (KERNEL, lambda w, x: x @ (w * jnp.array([1.0, 2.0, -1.0]) + jnp.ones((4, 3))), X),
    "one of two": ((KERNEL, normal(5, 3)), lambda w, x: x @ (w[0] * w[1]), X),
    "a shared scale of layers": ((KERNEL, SQUARE, normal(5)[None]), lambda w, x: jnp.tanh(x @ w[1]) @ (w[0] * w[2]), X),
    "heads": (normal(1, 2, 4, 3), lambda w, x: jnp.einsum("nhd,hdo->nho", jnp.stack([x, x**2], 1), w), X),
    "picked by label": (KERNEL, lambda w, x: jnp.take_along_axis(x @ w, jnp.array([[0], [2], [1]]), -1), X),
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", SUBSET)
def test_one_draw_has_the_law_of_sampled_weights(name) -> None:
    assert_same_law(ours(*case(DRAWN[name])), by_numpy(*case(DRAWN[name])))


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISY)
def test_noise_has_the_law_of_sampled_weights_row_by_row(name) -> None:
    samples = ours(*case(NOISY[name]))
    assert_same_law(samples, by_numpy(*case(NOISY[name])))
    by_row = samples.reshape(DRAWS, len(X), -1)
    weights = by_numpy(*case(NOISY[name])).reshape(by_row.shape)
    between = lambda draws: abs(np.corrcoef(draws[:, 0, 0], draws[:, 1, 0])[0, 1])  # noqa: E731
    assert between(by_row) < max(0.9 * between(weights), SIGMAS / np.sqrt(DRAWS)), "rows share all of their noise"


@pytest.mark.slow
def test_a_kernel_of_positions_by_custom_or_drawn() -> None:
    """Positions with noises of their own lose the covariance that the mean over positions has; drawn once, they keep it."""
    params, net, x = case(module(Pooled(), TOKENS))
    weights = by_numpy(params, net, x)
    assert_same_law(ours(params, net, x, shared="draw"), weights)
    ratio = ours(params, net, x).std(0) / weights.std(0)
    # Overlapping positions of one kernel: (sum x_p)² against sum x_p², two of three rows outside of [0.9, 1.1].
    assert np.any(np.abs(ratio - 1) > 0.1)
    single = TOKENS[:, :3]  # as long as the kernel: one position, and nothing is shared
    assert_same_law(ours(params, net, single), by_numpy(params, net, single))
    equal = local_noise(net)(lift(params, jax.random.key(7)), jnp.ones((3, 3, 4)))
    assert len(np.unique(equal)) == 9


def test_sums_over_rows_have_the_mean_of_sampled_weights_and_vary_less() -> None:
    """A loss of two layers that use one weight apart: each term is right by itself, and so is their sum."""

    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ w["a"]) ** 2) + 2.0 * jnp.mean(jnp.sum((x @ w["b"]) ** 2, -1) / 3.0)

    params = {"a": KERNEL, "b": KERNEL}
    x = normal(2, 16, 4)
    noisy, weights = ours(params, loss, x), by_numpy(params, loss, x)
    assert abs(noisy.mean() - weights.mean()) < SIGMAS * np.hypot(noisy.std(), weights.std()) / np.sqrt(DRAWS)
    assert noisy.var() < 0.7 * weights.var()
    # A square of the sum is no sum over rows.
    square = jax.jit(lambda w: (local_noise(lambda w, x: loss(w, x) ** 2)(w, x), loss(drawn(w), x) ** 2))
    np.testing.assert_allclose(*square(lift(params, jax.random.key(7))), rtol=1e-5)


def test_what_is_no_data_is_constant() -> None:
    """An array that the net closes over, or one of another number of rows: what meets it is drawn."""
    weight = lift(KERNEL, jax.random.key(7))
    for out in (local_noise(lambda w: X @ w)(weight), local_noise(lambda w, y, x: x @ w)(weight, jnp.zeros(7), X)):
        np.testing.assert_allclose(out, X @ weight.materialise(), rtol=1e-5)
    assert not np.allclose(local_noise(lambda w, x: x @ w)(weight, X), X @ weight.materialise())


def test_rows_picked_in_the_net_are_rows() -> None:
    ids = jnp.array([0, 0])
    out = local_noise(lambda w, x: x[ids] @ w)(lift(KERNEL, jax.random.key(7)), X)
    assert len(np.unique(out)) == 6
