"""Small networks of many kinds, each with the shape of one row; and their weights and state, drawn at random."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

import bayesprune as bp
from bayesprune.model.adapters import adapt
from bayesprune.model.inputs import Inputs
from bayesprune.structure import Graph, read

KEY = jax.random.key(0)


class Convolutions(linen.Module):
    """Padding, pools, a depthwise and a grouped convolution, and a dense layer that reads pixels."""

    @linen.compact
    def __call__(self, x):
        x = linen.max_pool(linen.relu(linen.Conv(4, (3, 3))(x)), (2, 2), (2, 2))
        x = jnp.tanh(linen.Conv(8, (2, 2), feature_group_count=4, padding="VALID")(x))
        x = linen.Conv(6, (2, 2), feature_group_count=2)(x)
        return linen.Dense(2)(linen.avg_pool(x, (2, 2), (1, 1)).reshape(len(x), -1))


class Branches(linen.Module):
    """Splits, a concatenation, a gate, a residual sum, a constant activation."""

    @linen.compact
    def __call__(self, x):
        x = linen.Dense(6)(x)
        a, b = jnp.split(x, 2, axis=-1)
        both = jnp.concatenate([jnp.tanh(a), jax.nn.sigmoid(b), x[:, 1:3]], axis=-1)
        y = linen.Dense(4)(both)
        gated = linen.Dense(4)(both) * jnp.cos(y)
        return linen.Dense(2)(y + linen.Dense(4, use_bias=False)(linen.relu(gated)))


class Attention(linen.Module):
    """One block of a vision transformer with a class token."""

    @linen.compact
    def __call__(self, x):
        x = linen.Conv(4, (2, 2), (2, 2))(x).reshape(len(x), -1, 4)
        token = self.param("token", linen.initializers.normal(), (1, 1, 4))
        x = jnp.concatenate([jnp.broadcast_to(token, (len(x), 1, 4)), x], axis=1)
        x = x + self.param("place", linen.initializers.normal(), (1, 5, 4))
        y = linen.LayerNorm()(x)
        x = x + linen.MultiHeadDotProductAttention(num_heads=2)(y, y)
        x = x + linen.Dense(4)(linen.gelu(linen.Dense(5)(linen.LayerNorm()(x))))
        return linen.Dense(2)(x[:, 0])


class Mixer(linen.Module):
    """Dense layers over channels, then over places, then over channels."""

    @linen.compact
    def __call__(self, x):
        x = jnp.tanh(linen.Dense(4)(x))
        x = linen.Dense(3)(x.swapaxes(1, 2)).swapaxes(1, 2)
        return linen.Dense(2)(jnp.tanh(x).reshape(len(x), -1))


class Shared(eqx.Module):
    """One matrix there and back again, and a scale that is shared by all units."""

    w: jax.Array
    scale: jax.Array
    head: jax.Array

    def __call__(self, x):
        return self.head @ jnp.tanh(self.scale * (self.w.T @ jnp.tanh(self.w @ x)))


class Fused(eqx.Module):
    """Kernels that are concatenated, sliced, repeated and reshaped before they meet data."""

    a: jax.Array
    b: jax.Array
    head: jax.Array

    def __call__(self, x):
        x = jnp.concatenate([self.a, self.b[1:]]) @ x
        return jnp.repeat(self.head.reshape(4, 2), 2, axis=0).T @ jnp.tanh(jnp.concatenate([x, x]))


class NnxNormed(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.first, self.second = nnx.Linear(3, 5, rngs=rngs), nnx.Linear(5, 4, use_bias=False, rngs=rngs)
        self.steady, self.ln_f = nnx.BatchNorm(5, rngs=rngs), nnx.LayerNorm(4, rngs=rngs)
        self.head = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.head(self.ln_f(nnx.relu(self.second(nnx.relu(self.steady(self.first(x)))))))


class Chosen(linen.Module):
    """A branch that is settled when the net runs, and a look-up."""

    @linen.compact
    def __call__(self, x):
        w = self.param("w", linen.initializers.normal(), (3, 4))
        v = self.param("v", linen.initializers.normal(), (3, 4))
        y = jax.lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: x @ v)
        return linen.Dense(2)(jnp.tanh(y) * linen.Embed(3, 4)(jnp.abs(x[:, 0]).astype(int) % 3))


class Gated(linen.Module):
    """One unit that multiplies all channels, and a kernel that is scaled by itself."""

    @linen.compact
    def __call__(self, x):
        y = linen.Dense(4, use_bias=False)(x) * linen.Dense(1)(x)
        w = self.param("scaled", linen.initializers.normal(), (4, 3))
        return linen.Dense(2)(jnp.tanh(y @ (w / (1.0 + jnp.abs(w).sum(axis=0)))))


class Recurrent(linen.Module):
    """A loop of four turns over one cell."""

    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(linen.RNN(linen.SimpleCell(3))(linen.Dense(4)(x))[:, -1])


class Stacked(eqx.Module):
    """Layers kept in one array, run one after another by a scan."""

    stack: jax.Array
    head: jax.Array

    def __call__(self, x):
        x, before = jax.lax.scan(lambda x, layer: (jnp.tanh(layer @ x), x), x, self.stack)
        return self.head @ (x + before[-1])


class Endless(linen.Module):
    """A loop whose length is settled when the net runs, and a sort, which are not followed, between layers that are."""

    @linen.compact
    def __call__(self, x):
        x = linen.Dense(4)(x)
        w = self.param("w", linen.initializers.normal(), (4, 4))
        turns = jnp.where(x[0, 0] > 0, 2, 3)
        _, x = jax.lax.while_loop(lambda at: at[0] < turns, lambda at: (at[0] + 1, jnp.tanh(at[1] @ w)), (0, x))
        return linen.Dense(2)(jnp.sort(jnp.tanh(linen.Dense(3)(x)), axis=-1))


def tiny_vit(**settings) -> bp.nets.ViT:
    sizes = {"patch": 2, "features": 4, "num_blocks": 1, "num_heads": 2, "hidden": 5, "frame": 0}
    return bp.nets.ViT(2, **(sizes | settings))


NETS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (lambda: bp.nets.MLP((5, 6), 2), (4,)),
    "narrow mlp": (lambda: bp.nets.MLP((1, 2), 1), (1,)),
    "sigmoid": (lambda: eqx.nn.MLP(3, 2, 4, 2, activation=jax.nn.sigmoid, key=KEY), (3,)),
    "convolutions": (Convolutions, (6, 6, 2)),
    "branches": (Branches, (3,)),
    "attention": (Attention, (4, 4, 3)),
    "mixer": (Mixer, (3, 2)),
    "shared": (lambda: Shared(jnp.ones((4, 3)), jnp.ones(()), jnp.ones((2, 3))), (3,)),
    "fused": (lambda: Fused(jnp.ones((2, 3)), jnp.ones((3, 3)), jnp.ones(8)), (3,)),
    "nnx": (lambda: NnxNormed(nnx.Rngs(0)), (3,)),
    "equinox, images": (
        lambda: eqx.nn.Sequential(
            [
                eqx.nn.Conv2d(2, 4, 3, key=KEY),
                eqx.nn.GroupNorm(2, 4),
                eqx.nn.Lambda(jax.nn.relu),
                eqx.nn.Conv2d(4, 3, 2, use_bias=False, key=KEY),
                eqx.nn.Lambda(jnp.ravel),
                eqx.nn.Linear(12, 2, key=KEY),
            ]
        ),
        (2, 5, 5),
    ),
    "chosen": (Chosen, (3,)),
    "gated": (Gated, (3,)),
    "recurrent": (Recurrent, (4, 3)),
    "stacked": (lambda: Stacked(jnp.ones((3, 4, 4)), jnp.ones((2, 4))), (4,)),
    "endless": (Endless, (3,)),
    "vit": (lambda: tiny_vit(), (4, 4, 2)),
    "vit, mean": (lambda: tiny_vit(pool="mean"), (4, 4, 2)),
    "vit, each token": (lambda: tiny_vit(pool="none"), (4, 4, 2)),
    "two mixer blocks": (lambda: bp.nets.MLPMixer(2, 2, 3, 2, 4, 5, frame=0), (4, 4, 2)),
    "lenet": (lambda: bp.nets.LeNet5(10), (28, 28, 1)),
    "resnet, batch": (lambda: bp.nets.ResNet(2, (1, 1), 4), (6, 6, 2)),
    "resnet, group": (lambda: bp.nets.ResNet(2, (1, 1), 4, norm="group"), (6, 6, 2)),
    "resnet, frn": (lambda: bp.nets.ResNet(2, (1, 1), 4, norm="frn"), (6, 6, 2)),
}
LARGE = ("vit", "vit, mean", "vit, each token", "two mixer blocks", "lenet", "resnet, batch", "resnet, group", "resnet, frn")

Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A network as a function of its weights, with its graph."""

    net: Any
    shape: tuple[int, ...]

    @cached_property
    def adapted(self) -> Any:
        return adapt(self.net, Inputs.of_shape(self.shape))

    @cached_property
    def abstract(self) -> Any:
        return jax.eval_shape(self.adapted.init, KEY)

    @cached_property
    def graph(self) -> Graph:
        params, state = self.abstract
        row = jax.ShapeDtypeStruct((1, *self.shape), jnp.float32)
        apply = lambda params, state, x: self.adapted.apply(params, state, x, False, None)[0]  # noqa: E731
        return read(jax.make_jaxpr(apply)(params, state, row), {site: params[site].shape for site in sorted(params)})

    @cached_property
    def outputs(self) -> Callable[[Weights, Any], np.ndarray]:
        """(weights, number of a draw) -> outputs: state and rows are drawn anew with that number."""
        run = jax.jit(lambda weights, state, x: self.adapted.apply(weights, state, x, False, None)[0])
        return lambda weights, draw: np.asarray(run(weights, *self.drawn(draw)))

    @cached_property
    def slopes(self) -> Callable[[Weights, Any], Weights]:
        """(weights, number of a draw) -> the gradient of a random sum of the outputs."""

        def total(weights, state, x, signs):
            return (signs * self.adapted.apply(weights, state, x, False, None)[0]).sum()

        slope = jax.jit(jax.grad(total))
        shape = jax.eval_shape(lambda w: self.adapted.apply(w, *self.drawn(0), False, None)[0], self.abstract[0]).shape
        signs = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        return lambda weights, draw: {s: np.asarray(g) for s, g in slope(weights, *self.drawn(draw), signs).items()}

    def drawn(self, draw: int) -> tuple[Any, jax.Array]:
        rng = np.random.default_rng(draw)
        positive = lambda leaf: rng.uniform(0.5, 1.5, leaf.shape).astype(np.float32)  # noqa: E731
        x = jnp.asarray(rng.normal(size=(12, *self.shape)), jnp.float32)
        return jax.tree.map(positive, self.abstract[1]), x

    def weights(self, rng: np.random.Generator) -> Weights:
        return {site: rng.normal(size=spec.shape).astype(np.float32) for site, spec in self.abstract[0].items()}

    def mask(self, rng: np.random.Generator, density: float) -> Weights:
        return {site: rng.random(spec.shape) < density for site, spec in self.abstract[0].items()}


@cache
def case(name: str) -> Case:
    make, shape = NETS[name]
    return Case(make(), shape)
