"""Rows that meet within a network, and rows that only seem to."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from bayesprune.structure.independence import mixing

W = jnp.ones((4, 4))
COUNTED = "the number of rows, which is counted with"


def number(x):
    """How many rows there are, as the program has it."""
    return jnp.asarray(x.shape[0])


def by(net, shape=(4,), dtype=float) -> str:
    return mixing(*(jax.make_jaxpr(net)(jnp.ones((rows, *shape), dtype)) for rows in (2, 3)))


MEET = {
    "any": (lambda x: jnp.where(jnp.any(x > 50), 0.0, x), "reduce_or"),
    "mean": (lambda x: x - x.mean(0), "reduce_sum"),
    "batch statistics": (lambda x: (x - x.mean((0, 1))) / x.std(), "reduce_sum"),
    "sorted": (lambda x: jnp.sort(x, 0), "sort"),
    "ranks": (lambda x: jnp.argsort(x, 0) + x, "iota, which tells rows apart"),
    "running sum": (lambda x: jnp.cumsum(x, 0), "cumsum"),
    "attention over rows": (lambda x: jax.nn.softmax(x @ x.T) @ x, "dot_general"),
    "normed over rows": (lambda x: x / jnp.linalg.norm(x, axis=0), "reduce_sum"),
    "largest": (lambda x: x - x.max(), "reduce_max"),
    "turned round": (lambda x: x[::-1], "rev"),
    "the first": (lambda x: x - x[0], "slice"),
    "the next": (lambda x: x - jnp.roll(x, 1, 0), "slice"),
    "every other": (lambda x: x[::2].repeat(2, 0)[: len(x)] if len(x) > 3 else x[:1] + x, "slice"),
    "numbered": (lambda x: x + jnp.arange(len(x))[:, None], "iota, which tells rows apart"),
    "noise of its own": (lambda x: x + jax.random.normal(jax.random.key(0), x.shape), "random_bits, which tells rows apart"),
    "counted": (lambda x: x / x.shape[0], "the number of rows, which is counted with"),
    "in one line": (lambda x: jnp.cumsum(x.reshape(-1)).reshape(x.shape), "cumsum"),
    "loop over rows": (lambda x: jax.lax.scan(lambda c, row: (c + row, c), jnp.zeros(4), x)[1], "scan over the rows"),
    "convolved over rows": (
        lambda x: nn.Conv(4, (3,)).bind({"params": {"kernel": jnp.ones((3, 4, 4)), "bias": W[0]}})(x[None])[0],
        "conv_general_dilated",
    ),
    "chosen by a row": (lambda x: jax.lax.cond(x[0, 0] > 0, lambda x: x, lambda x: -x, x), "slice"),
    "fourier": (lambda x: jnp.fft.fft(x, axis=0).real, "fft"),
    "places of others": (lambda x: jnp.take(x, jnp.zeros(len(x), int), axis=0), "the number of rows, which is counted with"),
    "in a short loop": (lambda x: jax.lax.fori_loop(0, 2, lambda i, x: x - x.max(0), x), "reduce_max"),
    "tiled": (lambda x: x + jnp.tile(x[:1], (len(x), 1)), "slice"),
    "joined one by one": (
        lambda x: jnp.concatenate([W[i : i + 1] for i in range(len(x))]) + x,
        "the program, which is another for another number of rows",
    ),
    "joined": (
        lambda x: jnp.concatenate([W[:1], W[1:2], W[:1]][: len(x)]) + x,
        "concatenate, of as many arrays as there are rows",
    ),
    "padded by their edge": (lambda x: jnp.pad(x, ((1, 0), (0, 0)), mode="edge")[:-1], "slice"),
    "outputs turned": (lambda x: x.T, "the order of the outputs' axes"),
    "fewer than seven": (lambda x: jnp.where(jnp.less(7, number(x)), 0.0, x), COUNTED),
    "fewer than two": (lambda x: jnp.where(number(x) < 2, 0.0, x), COUNTED),
    "chosen by their number": (lambda x: jax.lax.select_n(jax.lax.lt(jnp.int32(7), jnp.int32(len(x))), x, -x), COUNTED),
    "at least three": (lambda x: x + jnp.maximum(number(x), 3), COUNTED),
    "square of their number": (lambda x: x * (number(x) * number(x) - 5 * number(x)), COUNTED),
    "half their number": (lambda x: x * jnp.asarray(number(x) * 0.5).astype(int), COUNTED),
    "the last": (lambda x: x + jax.lax.dynamic_index_in_dim(x, x.shape[0] - 1, 0), COUNTED),
    "tokens and rows in turns": (lambda x: x.T.reshape(-1, 4), "reshape"),
}


@pytest.mark.parametrize("name", MEET)
def test_rows_that_meet(name) -> None:
    net, wanted = MEET[name]
    assert by(net) == wanted


def cell(x):
    return nn.RNN(nn.GRUCell(3)).init_with_output(jax.random.key(0), x)[0]


def attention(x):
    return nn.MultiHeadDotProductAttention(2).init_with_output(jax.random.key(0), x)[0]


def at(x, place):
    """All rows, from a place that the program works out."""
    return jax.lax.dynamic_slice(x, (jnp.asarray(place, jnp.int32), jnp.int32(1)), (len(x), 2))


def padded(mode):
    """Of every other axis than that of the rows; of this by nothing, which JAX writes out too."""
    return lambda x: jnp.pad(x, ((0, 0), (1, 1), (2, 1)), mode=mode)


KEPT = {
    "dense": (lambda x: jnp.tanh(x @ W) @ W, (4,)),
    "softmax": (lambda x: jax.nn.softmax(x), (4,)),
    "sort of a row": (lambda x: jnp.sort(x)[:, ::-1].cumsum(1), (4,)),
    "tokens in one axis": (lambda x: (x.reshape(-1, 4) @ W).reshape(x.shape), (5, 4)),
    "tokens first": (lambda x: jnp.moveaxis(jnp.moveaxis(x, 0, 1) @ W, 1, 0).mean(1), (5, 4)),
    "turned and joined": (lambda x: (x.transpose(1, 0, 2).reshape(-1, 4) @ W).reshape(5, -1, 4).transpose(1, 0, 2), (5, 4)),
    "attention": (attention, (5, 4)),
    "recurrence": (cell, (5, 4)),
    "layer norm": (lambda x: nn.LayerNorm().init_with_output(jax.random.key(0), x)[0], (4,)),
    "group norm": (lambda x: nn.GroupNorm(2).init_with_output(jax.random.key(0), x)[0], (3, 3, 4)),
    "convolution": (lambda x: nn.Conv(2, (3, 3)).init_with_output(jax.random.key(0), x)[0].sum((1, 2)), (5, 5, 4)),
    "pooling": (lambda x: nn.max_pool(nn.avg_pool(x, (2, 2)), (2, 2), (2, 2), "SAME"), (5, 5, 4)),
    "mapped": (lambda x: jax.vmap(lambda row: row @ W - row.max())(x), (4,)),
    "zeros beside": (lambda x: jnp.concatenate([jnp.zeros((x.shape[0], 2)), x], 1), (4,)),
    "ones for the rows": (lambda x: x + jnp.ones((len(x), 1)), (4,)),
    "places in a row": (lambda x: x + jnp.broadcast_to(jnp.arange(4.0), x.shape), (4,)),
    "fourier of a row": (lambda x: jnp.fft.rfft(x).real, (4,)),
    "solved": (lambda x: jnp.linalg.solve(jnp.eye(4) + x[:, :, None] * x[:, None], x[..., None]), (4,)),
    "a part set": (lambda x: x.at[:, 1].set(0.0).at[:, 2].add(x[:, 0]), (4,)),
    "mixture by row": (lambda x: jnp.einsum("ni,nj->nij", x, x).reshape(x.shape[0], -1), (4,)),
    "long loop": (lambda x: jax.lax.fori_loop(0, 9000, lambda i, x: jnp.tanh(x @ W), x), (4,)),
    "while": (lambda x: jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1], (4,)),
    "branch": (lambda x: jax.lax.cond(jnp.sum(W) > 3, jnp.sin, jnp.cos, x), (4,)),
    "largest of a row": (lambda x: jax.lax.top_k(x, 2)[0] + x.argmax(1)[:, None], (4,)),
    "along an axis": (lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), axis=1), (4,)),
    "looked up": (lambda x: W[x.astype(int)].mean(1), (3,)),
    "one hot": (lambda x: jax.nn.one_hot(x.astype(int), 4) @ W, (3,)),
    "padded": (lambda x: jnp.pad(x, ((0, 0), (1, 2))), (4,)),
    "no row of them": (lambda x: jnp.concatenate([x, jnp.tile(x[:1], (0, 1)), x[:0]]) + x[:, :0].sum(1, keepdims=True), (4,)),
    **{f"padded by {mode}": (padded(mode), (4, 4)) for mode in ("edge", "linear_ramp", "mean", "median", "maximum", "wrap")},
    "tiled": (lambda x: jnp.concatenate([jnp.tile(W[None, :1], (x.shape[0], 1, 1)), x], 1), (3, 4)),
    "a place by numbers": (lambda x: at(x, number(x) - number(x)), (4,)),
    "a place by a negative": (lambda x: at(x, -number(x) + number(x)), (4,)),
    "a place by a product": (lambda x: at(x, number(x) * 0), (4,)),
    "a place in another type": (lambda x: at(x, number(x).astype(jnp.int16) - len(x)), (4,)),
    "a place within bounds": (lambda x: at(x, jax.lax.clamp(0, 0, 2)), (4,)),
    "a place by the larger": (lambda x: at(x, jax.lax.max(0, -1)), (4,)),
    "a place by the smaller": (lambda x: at(x, jax.lax.min(0, 1)), (4,)),
    "a place by a rest": (lambda x: at(x, jax.lax.rem(4, 2)), (4,)),
    "a place by comparisons": (lambda x: at(x, jax.lax.select_n(jax.lax.ge(1, 0), 1 - number(x), 0 * number(x))), (4,)),
    "a place by logic": (lambda x: at(x, jax.lax.select_n(jax.lax.gt(1, 0) & jax.lax.ne(1, 0), number(x), 0)), (4,)),
    "resized": (lambda x: jax.image.resize(x, (x.shape[0], 8, 8, 1), "bilinear"), (4, 4, 1)),
}


@pytest.mark.parametrize("name", KEPT)
def test_rows_that_only_seem_to(name) -> None:
    net, shape = KEPT[name]
    assert by(net, shape) == ""
