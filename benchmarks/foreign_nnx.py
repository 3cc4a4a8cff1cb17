"""Nets in Flax nnx as other people write them, for `foreign.py`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from foreign_data import IMAGES, REAL, SEQUENCES, TOKENS, VECTORS, Net, normal, real

import bayesprune as bp


class Convolutional(nnx.Module):
    """The net of nnx's first tutorial: batch norm, dropout, pooling."""

    def __init__(self, rngs):
        self.conv, self.norm = nnx.Conv(1, 4, (3, 3), rngs=rngs), nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.hidden, self.head = nnx.Linear(64, 8, rngs=rngs), nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.norm(self.conv(x))), (2, 2), (2, 2))
        return self.head(self.dropout(nnx.relu(self.hidden(x.reshape(x.shape[0], -1)))))


class Blocks(nnx.Module):
    """A list of pre-norm transformer blocks over tokens, rotary positions, gated linear units."""

    def __init__(self, rngs):
        self.table = nnx.Embed(11, 8, rngs=rngs)
        self.attends = nnx.List([nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs) for _ in range(2)])
        self.gates = nnx.List([nnx.Linear(8, 24, use_bias=False, rngs=rngs) for _ in range(2)])
        self.downs = nnx.List([nnx.Linear(12, 8, use_bias=False, rngs=rngs) for _ in range(2)])
        self.norms = nnx.List([nnx.RMSNorm(8, rngs=rngs) for _ in range(4)])
        self.head = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, tokens):
        angle = jnp.arange(6)[:, None] / 10.0 ** jnp.arange(4)
        x = self.table(tokens)
        left, right = jnp.split(x, 2, -1)
        turned = [left * jnp.cos(angle) - right * jnp.sin(angle), left * jnp.sin(angle) + right * jnp.cos(angle)]
        x = jnp.concatenate(turned, -1)
        for block in range(2):
            x = x + self.attends[block](self.norms[2 * block](x))
            gate, value = jnp.split(self.gates[block](self.norms[2 * block + 1](x)), 2, -1)
            x = x + self.downs[block](nnx.silu(gate) * value)
        return self.head(x.mean(1))


class Recurrent(nnx.Module):
    """GRU and LSTM one after the other, the last step read."""

    def __init__(self, rngs):
        self.one = nnx.RNN(nnx.GRUCell(4, 5, rngs=rngs))
        self.two = nnx.RNN(nnx.OptimizedLSTMCell(5, 4, rngs=rngs))
        self.head = nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x):
        return self.head(self.two(self.one(x))[:, -1])


class Adapted(nnx.Module):
    """A base and low-rank adapters beside it."""

    def __init__(self, rngs):
        self.base, self.head = nnx.LoRALinear(5, 8, lora_rank=2, rngs=rngs), nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.base(x)))


class Tied(nnx.Module):
    """An autoencoder with tied weights: the decoder is the encoder turned round."""

    def __init__(self, rngs):
        self.encode = nnx.Linear(5, 3, rngs=rngs)
        self.back = nnx.Param(jnp.zeros(5))

    def __call__(self, x):
        return nnx.tanh(self.encode(x)) @ self.encode.kernel[...].T + self.back[...]


class Twins(nnx.Module):
    """Two inputs through one net, compared."""

    def __init__(self, rngs):
        self.one, self.two = nnx.Linear(5, 6, rngs=rngs), nnx.Linear(6, 4, rngs=rngs)
        self.head = nnx.Linear(4, 3, rngs=rngs)

    def tower(self, x):
        return self.two(nnx.relu(self.one(x)))

    def __call__(self, x, y):
        return self.head(jnp.abs(self.tower(x) - self.tower(y)))


class Heads(nnx.Module):
    """Two answers: a mean, and the log of a scale."""

    def __init__(self, rngs):
        self.trunk = nnx.Linear(5, 6, rngs=rngs)
        self.mean, self.log_scale = nnx.Linear(6, 1, rngs=rngs), nnx.Linear(6, 1, rngs=rngs)

    def __call__(self, x):
        x = nnx.tanh(self.trunk(x))
        return {"mean": self.mean(x), "log_scale": self.log_scale(x)}


class Hyper(nnx.Module):
    """A net that makes the weights of another, row by row."""

    def __init__(self, rngs):
        self.makes, self.reads = nnx.Linear(3, 20, rngs=rngs), nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, inputs):
        weights = self.makes(inputs["task"]).reshape(-1, 5, 4)
        return self.reads(nnx.relu(jnp.einsum("bi,bio->bo", inputs["x"], weights)))


class Cosine(nnx.Module):
    """A classifier by cosines, with learnt slopes of its activations."""

    def __init__(self, rngs):
        self.hidden, self.slope = nnx.Linear(5, 6, rngs=rngs), nnx.PReLU()
        self.directions = nnx.Param(jax.random.normal(rngs.params(), (6, 3)))

    def __call__(self, x):
        x, w = self.slope(self.hidden(x)), self.directions[...]
        x = x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + 1e-6)
        return 10 * x @ (w / (jnp.linalg.norm(w, axis=0) + 1e-6))


class Masked(nnx.Module):
    """Fixed masks on weights, as in MADE."""

    def __init__(self, rngs):
        self.one, self.two = nnx.Linear(5, 8, rngs=rngs), nnx.Linear(8, 5, rngs=rngs)
        order = np.arange(8) % 4
        self.first, self.second = np.arange(5)[:, None] <= order, order[:, None] < np.arange(5)

    def __call__(self, x):
        x = nnx.relu(x @ (self.one.kernel[...] * self.first) + self.one.bias[...])
        return x @ (self.two.kernel[...] * self.second) + self.two.bias[...]


class Ode(nnx.Module):
    """Four steps of a midpoint rule, in a loop."""

    def __init__(self, rngs):
        self.flow, self.head = nnx.Linear(5, 5, rngs=rngs), nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x):
        def step(_, h):
            one = jnp.tanh(self.flow(h))
            two = jnp.tanh(self.flow(h + 0.125 * one))
            return h + 0.25 * two

        return self.head(jax.lax.fori_loop(0, 4, step, x))


class Maxout(nnx.Module):
    """Maxout, and an outer product with the inputs, read by a layer over two axes."""

    def __init__(self, rngs):
        self.one = nnx.Linear(5, 12, rngs=rngs)
        self.last = nnx.LinearGeneral((6, 5), 3, axis=(-2, -1), rngs=rngs)

    def __call__(self, x):
        h = self.one(x).reshape(-1, 6, 2).max(-1)
        return self.last(h[:, :, None] * x[:, None, :])


class Stacked(nnx.Module):
    """Layers stacked by `nnx.vmap` and run by `nnx.scan`."""

    def __init__(self, rngs):
        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=0, out_axes=0)
        def make(rngs):
            return nnx.Linear(5, 5, rngs=rngs)

        self.layers, self.head = make(rngs), nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def run(x, layer):
            return x + nnx.tanh(layer(x))

        return self.head(run(x, self.layers))


def layers(rngs: Any) -> nnx.Sequential:
    """Layers and functions in a row."""
    return nnx.Sequential(nnx.Linear(5, 6, rngs=rngs), nnx.relu, nnx.Linear(6, 1, rngs=rngs))


def with_rngs(made: Callable[[Any], Any]) -> Callable[[], Any]:
    """The net of a first seed."""
    return lambda: made(nnx.Rngs(0))


def lora(path: str, shape: tuple[int, ...]) -> bool:
    """What is frozen beside adapters: the base."""
    return "lora" not in path and not path.startswith("head")


NNX = {
    "nnx/tutorial": Net("convolution, batch norm, dropout, as in nnx's tutorial", with_rngs(Convolutional), IMAGES),
    "nnx/transformer": Net("transformer: rotary positions, gated units, RMS norms", with_rngs(Blocks), TOKENS),
    "nnx/recurrent": Net("GRU, then LSTM", with_rngs(Recurrent), SEQUENCES),
    "nnx/lora": Net("low-rank adapters on a frozen base", with_rngs(Adapted), VECTORS, settings={"frozen": lora}),
    "nnx/tied": Net("an autoencoder with tied weights", with_rngs(Tied), VECTORS, VECTORS, real(prunable=bp.select.everything)),
    "nnx/twins": Net("two inputs through one tower", with_rngs(Twins), (VECTORS, normal(5))),
    "nnx/heads": Net("a mean and a scale, by name", with_rngs(Heads), VECTORS, REAL, real(output="mean")),
    "nnx/hyper": Net("a net that makes another's weights", with_rngs(Hyper), {"x": VECTORS, "task": normal(3)}),
    "nnx/cosine": Net("a cosine classifier, PReLU", with_rngs(Cosine), VECTORS),
    "nnx/masked": Net("fixed masks on weights, as MADE", with_rngs(Masked), VECTORS, VECTORS, real()),
    "nnx/ode": Net("a solver's steps in `fori_loop`", with_rngs(Ode), VECTORS),
    "nnx/maxout": Net("maxout and an outer product", with_rngs(Maxout), VECTORS),
    "nnx/scan": Net("`nnx.vmap` and `nnx.scan` over layers", with_rngs(Stacked), VECTORS),
    "nnx/ordinal": Net(
        "ordered classes", with_rngs(layers),
        VECTORS, settings={"likelihood": bp.likelihoods.Ordinal(3)},
    ),
}  # fmt: skip
