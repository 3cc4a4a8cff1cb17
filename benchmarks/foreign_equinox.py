"""Nets in Equinox as other people write them, for `foreign.py`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from foreign_data import IMAGES, REAL, SEQUENCES, TOKENS, VECTORS, Net, normal, real

import bayesprune as bp

KEY = jax.random.key(0)


class Convolutional(eqx.Module):
    """The net of Equinox's tutorial, a list of layers and functions; channels come first."""

    layers: list

    def __init__(self, key):
        one, two, three = jax.random.split(key, 3)
        self.layers = [
            eqx.nn.Conv2d(1, 3, kernel_size=3, key=one), eqx.nn.MaxPool2d(kernel_size=2, stride=2), jax.nn.relu, jnp.ravel,
            eqx.nn.Linear(3 * 9, 8, key=two), jax.nn.sigmoid, eqx.nn.Linear(8, 3, key=three),
        ]  # fmt: skip

    def __call__(self, x):
        x = jnp.moveaxis(x, -1, 0)
        for layer in self.layers:
            x = layer(x)
        return x


class Normed(eqx.Module):
    """Layer and group norms, learnt slopes, dropout with a key."""

    conv: eqx.nn.Conv1d
    norm: eqx.nn.GroupNorm
    act: eqx.nn.PReLU
    dropout: eqx.nn.Dropout
    head: eqx.nn.Linear

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.conv, self.norm = eqx.nn.Conv1d(4, 6, 3, padding=1, key=one), eqx.nn.GroupNorm(2, 6)
        self.act, self.dropout, self.head = eqx.nn.PReLU(), eqx.nn.Dropout(0.2), eqx.nn.Linear(6, 3, key=two)

    def __call__(self, x, key=None, inference=True):
        x = self.act(self.norm(self.conv(x.T))).mean(-1)
        return self.head(self.dropout(x, key=key, inference=inference))


class Recurrent(eqx.Module):
    """An LSTM's cell in `lax.scan`."""

    cell: eqx.nn.LSTMCell
    head: eqx.nn.Linear

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.cell, self.head = eqx.nn.LSTMCell(4, 5, key=one), eqx.nn.Linear(5, 3, key=two)

    def __call__(self, x):
        (h, _), _ = jax.lax.scan(lambda state, token: (self.cell(token, state), None), (jnp.zeros(5), jnp.zeros(5)), x)
        return self.head(h)


class Transformer(eqx.Module):
    """Attention with rotary positions over tokens."""

    table: eqx.nn.Embedding
    turn: eqx.nn.RotaryPositionalEmbedding
    attend: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    mlp: eqx.nn.MLP
    head: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.table, self.turn = eqx.nn.Embedding(11, 8, key=keys[0]), eqx.nn.RotaryPositionalEmbedding(4)
        self.attend, self.norm = eqx.nn.MultiheadAttention(2, 8, key=keys[1]), eqx.nn.LayerNorm(8)
        self.mlp, self.head = eqx.nn.MLP(8, 8, 12, 1, key=keys[2]), eqx.nn.Linear(8, 3, key=keys[3])

    def __call__(self, tokens):
        def heads(query, key, value):
            return jax.vmap(self.turn, 1, 1)(query), jax.vmap(self.turn, 1, 1)(key), value

        x = jax.vmap(self.table)(tokens)
        y = jax.vmap(self.norm)(x)
        x = x + self.attend(y, y, y, mask=jnp.tril(jnp.ones((6, 6), bool)), process_heads=heads)
        return self.head((x + jax.vmap(self.mlp)(x)).mean(0))


class Stateful(eqx.Module):
    """Batch norm and spectral norm, whose state goes through the call."""

    norm: eqx.nn.BatchNorm
    spectral: eqx.nn.SpectralNorm
    head: eqx.nn.Linear

    def __init__(self, key):
        one, two, three = jax.random.split(key, 3)
        self.norm = eqx.nn.BatchNorm(5, "batch", mode="batch")
        layer = eqx.nn.Linear(5, 6, key=one)
        self.spectral, self.head = eqx.nn.SpectralNorm(layer, "weight", key=two), eqx.nn.Linear(6, 3, key=three)

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        x, state = self.spectral(x, state)
        return self.head(jax.nn.relu(x)), state


class Shared(eqx.Module):
    """A table that is the last layer too, by `eqx.nn.Shared`."""

    tied: eqx.nn.Shared

    def __init__(self, key):
        one, two = jax.random.split(key)
        pair = (eqx.nn.Embedding(11, 6, key=one), eqx.nn.Linear(6, 11, use_bias=False, key=two))
        self.tied = eqx.nn.Shared(pair, lambda pair: pair[1].weight, lambda pair: pair[0].weight)

    def __call__(self, tokens):
        table, head = self.tied()
        return jax.vmap(head)(jnp.cumsum(jax.vmap(table)(tokens), 0))


class Linear(eqx.Module):
    """A linear recurrence by `lax.associative_scan`, as state-space layers have it."""

    decay: jax.Array
    into: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.decay, self.into, self.out = jnp.zeros(6), eqx.nn.Linear(4, 6, key=one), eqx.nn.Linear(6, 3, key=two)

    def __call__(self, x):
        def join(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1]

        u = jax.vmap(self.into)(x)
        _, h = jax.lax.associative_scan(join, (jnp.broadcast_to(jax.nn.sigmoid(self.decay), u.shape), u))
        return self.out(jax.nn.gelu(h[-1]))


class Fourier(eqx.Module):
    """Fourier transforms over tokens in the place of attention, as FNet."""

    mlp: eqx.nn.MLP
    head: eqx.nn.Linear

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.mlp, self.head = eqx.nn.MLP(4, 4, 6, 1, key=one), eqx.nn.Linear(4, 3, key=two)

    def __call__(self, x):
        x = x + jnp.fft.fft2(x).real
        return self.head((x + jax.vmap(self.mlp)(x)).mean(0))


class Sorted(eqx.Module):
    """The largest of a row's features, in their order."""

    one: eqx.nn.Linear
    two: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.one, self.two = eqx.nn.Linear(5, 8, key=first), eqx.nn.Linear(4, 3, key=second)

    def __call__(self, x):
        return self.two(jnp.sort(jax.nn.relu(self.one(x)))[-4:])


class Weighted(eqx.Module):
    """Weight norms; an attention that is written by hand, over two inputs."""

    keys: eqx.nn.WeightNorm
    values: eqx.nn.Linear
    query: eqx.nn.Linear
    head: eqx.nn.Linear

    def __init__(self, key):
        one, two, three, four = jax.random.split(key, 4)
        self.keys = eqx.nn.WeightNorm(eqx.nn.Linear(4, 6, key=one))
        self.values, self.query = eqx.nn.Linear(4, 6, key=two), eqx.nn.Linear(5, 6, key=three)
        self.head = eqx.nn.Linear(6, 3, key=four)

    def __call__(self, inputs):
        keys, values = jax.vmap(self.keys)(inputs["tokens"]), jax.vmap(self.values)(inputs["tokens"])
        weights = jax.nn.softmax(keys @ self.query(inputs["x"]) / jnp.sqrt(6.0))
        return self.head(weights @ values)


def of_key(made: Callable[[Any], Any]) -> Callable[[], Any]:
    """The net of a first key."""
    return lambda: made(KEY)


EQUINOX = {
    "equinox/tutorial": Net("a list of layers, as in Equinox's tutorial", of_key(Convolutional), IMAGES),
    "equinox/mlp": Net("`eqx.nn.MLP`", lambda: eqx.nn.MLP(5, 1, 8, 2, key=KEY), VECTORS, REAL, real()),
    "equinox/norms": Net("group norm, PReLU, dropout with a key", of_key(Normed), SEQUENCES),
    "equinox/lstm": Net("an LSTM's cell in `lax.scan`", of_key(Recurrent), SEQUENCES),
    "equinox/rotary": Net("attention with rotary positions", of_key(Transformer), TOKENS),
    "equinox/state": Net(
        "batch norm and spectral norm, with their state", lambda: eqx.nn.make_with_state(Stateful)(KEY), VECTORS
    ),
    "equinox/shared": Net("a tied table, `eqx.nn.Shared`", of_key(Shared), TOKENS, TOKENS, {"prunable": bp.select.everything}),
    "equinox/recurrence": Net("a linear recurrence, `associative_scan`", of_key(Linear), SEQUENCES),
    "equinox/fourier": Net("Fourier transforms, as FNet", of_key(Fourier), SEQUENCES),
    "equinox/sorted": Net("sorted features", of_key(Sorted), VECTORS),
    "equinox/weight_norm": Net(
        "weight norm, attention by hand, two inputs", of_key(Weighted), {"x": normal(5), "tokens": SEQUENCES}
    ),
}
