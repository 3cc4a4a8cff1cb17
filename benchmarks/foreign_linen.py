"""Nets in Flax linen as other people write them, for `foreign.py`."""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from foreign_data import COUNTS, EDGES, IMAGES, MASKS, NODES, REAL, SEQUENCES, TOKENS, VECTORS, Net, normal, real

import bayesprune as bp


class Tutorial(nn.Module):
    """The convolutional net of Flax's first tutorial."""

    @nn.compact
    def __call__(self, x):
        for features in (4, 6):
            x = nn.avg_pool(nn.relu(nn.Conv(features, (3, 3))(x)), (2, 2), strides=(2, 2))
        return nn.Dense(3)(nn.relu(nn.Dense(8)(x.reshape(x.shape[0], -1))))


class Residual(nn.Module):
    """Two residual blocks with batch norms, the second with strides and a projection."""

    @nn.compact
    def __call__(self, x, train: bool = False):
        norm = functools.partial(nn.BatchNorm, use_running_average=not train, momentum=0.9)
        x = nn.Conv(4, (3, 3), use_bias=False)(x)
        for features, stride in ((4, 1), (6, 2)):
            y = nn.relu(norm()(nn.Conv(features, (3, 3), (stride, stride), use_bias=False)(x)))
            y = norm(scale_init=nn.initializers.zeros)(nn.Conv(features, (3, 3), use_bias=False)(y))
            if x.shape != y.shape:
                x = norm()(nn.Conv(features, (1, 1), (stride, stride), use_bias=False)(x))
            x = nn.relu(x + y)
        return nn.Dense(3)(x.mean((1, 2)))


class Mobile(nn.Module):
    """Depthwise separable convolutions, squeeze and excitation, hard swish."""

    @nn.compact
    def __call__(self, x):
        x = nn.hard_swish(nn.Conv(6, (3, 3), 2)(x))
        y = nn.hard_swish(nn.Conv(6, (3, 3), feature_group_count=6)(x))
        gate = nn.hard_sigmoid(nn.Dense(6)(nn.relu(nn.Dense(2)(y.mean((1, 2))))))
        return nn.Dense(3)((x + nn.Conv(6, (1, 1))(y * gate[:, None, None])).mean((1, 2)))


class Causal(nn.Module):
    """A temporal convolutional net: dilated, causal, residual."""

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(6)(x)
        for dilation in (1, 2):
            x = x + nn.relu(nn.Conv(6, (2,), kernel_dilation=dilation, padding="CAUSAL")(x))
        return nn.Dense(3)(x[:, -1])


class UNet(nn.Module):
    """Down, up by a transposed convolution, and a skip; an image comes out."""

    @nn.compact
    def __call__(self, x):
        skip = nn.relu(nn.Conv(3, (3, 3))(x))
        down = nn.relu(nn.Conv(4, (3, 3))(nn.max_pool(skip, (2, 2), (2, 2))))
        up = nn.relu(nn.ConvTranspose(3, (2, 2), (2, 2))(down))
        return nn.Conv(1, (3, 3))(jnp.concatenate([skip, up], -1)).reshape(x.shape[0], -1)


class Resized(nn.Module):
    """An upsampling by `jax.image.resize`, and reflected borders."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(3, (3, 3), 2)(x))
        x = jax.image.resize(x, (x.shape[0], 8, 8, 3), "bilinear")
        x = nn.Conv(2, (3, 3), padding="VALID")(jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect"))
        return nn.Dense(3)(x.reshape(x.shape[0], -1))


class Dense(nn.Module):
    """Dense connections, group norms and dropout."""

    @nn.compact
    def __call__(self, x, train: bool = False):
        x = nn.Conv(4, (3, 3))(x)
        for _ in range(2):
            x = jnp.concatenate([x, nn.Conv(2, (3, 3))(nn.relu(nn.GroupNorm(num_groups=2)(x)))], -1)
        return nn.Dense(3)(nn.Dropout(0.2, deterministic=not train)(x.max((1, 2))))


class Long(nn.Module):
    """An LSTM, its last carry read."""

    @nn.compact
    def __call__(self, x):
        (_, h), _ = nn.RNN(nn.OptimizedLSTMCell(4), return_carry=True)(x)
        return nn.Dense(3)(h)


class BothWays(nn.Module):
    """A bidirectional GRU over tokens, with their lengths out of a padding token."""

    @nn.compact
    def __call__(self, tokens):
        lengths = jnp.sum(tokens > 0, 1)
        x = nn.Bidirectional(nn.RNN(nn.GRUCell(4)), nn.RNN(nn.GRUCell(4)))(nn.Embed(11, 4)(tokens), seq_lengths=lengths)
        return nn.Dense(3)(x.mean(1))


class Gpt(nn.Module):
    """A causal transformer with learnt positions, whose table of tokens is its last layer too."""

    @nn.compact
    def __call__(self, tokens):
        table = nn.Embed(11, 8)
        x = table(tokens) + self.param("positions", nn.initializers.normal(0.02), (6, 8))
        mask = nn.make_causal_mask(tokens)
        for _ in range(2):
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=2)(y, y, mask=mask)
            x = x + nn.Dense(8)(nn.gelu(nn.Dense(12)(nn.LayerNorm()(x))))
        return table.attend(nn.LayerNorm()(x))


class Vit(nn.Module):
    """A vision transformer with a class token."""

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (4, 4), (4, 4))(x).reshape(x.shape[0], -1, 8)
        first = self.param("cls", nn.initializers.zeros, (1, 1, 8))
        x = jnp.concatenate([jnp.tile(first, (x.shape[0], 1, 1)), x], 1)
        x = x + self.param("positions", nn.initializers.normal(0.02), (1, 5, 8))
        y = nn.LayerNorm()(x)
        x = x + nn.SelfAttention(num_heads=2)(y)
        return nn.Dense(3)(nn.LayerNorm()(x + nn.Dense(8)(nn.gelu(nn.Dense(12)(nn.LayerNorm()(x)))))[:, 0])


class Mixer(nn.Module):
    """A mixer: a layer over tokens, one over channels."""

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(6, (4, 4), (4, 4))(x).reshape(x.shape[0], 4, 6)
        y = nn.Dense(4)(nn.gelu(nn.Dense(5)(nn.LayerNorm()(x).swapaxes(1, 2)))).swapaxes(1, 2)
        x = x + y
        return nn.Dense(3)((x + nn.Dense(6)(nn.gelu(nn.Dense(8)(nn.LayerNorm()(x))))).mean(1))


class Normed(nn.Module):
    """RMS and instance norms, a weight norm, a spectral norm."""

    @nn.compact
    def __call__(self, x, train: bool = False):
        x = nn.relu(nn.InstanceNorm()(nn.Conv(4, (3, 3))(x))).mean((1, 2))
        x = nn.RMSNorm()(nn.WeightNorm(nn.Dense(6))(x))
        return nn.SpectralNorm(nn.Dense(3))(nn.elu(x), update_stats=train)


class Experts(nn.Module):
    """A mixture of experts: all of them, weighted by a softmax; then the best of them alone."""

    @nn.compact
    def __call__(self, x):
        init = nn.initializers.lecun_normal(batch_axis=0)
        soft = nn.softmax(nn.Dense(3)(x))
        x = nn.relu(jnp.einsum("bi,eio,be->bo", x, self.param("experts", init, (3, 5, 6)), soft))
        value, which = jax.lax.top_k(nn.softmax(nn.Dense(3)(x)), 1)
        sparse = jax.nn.one_hot(which[:, 0], 3) * value
        return nn.Dense(3)(jnp.einsum("bi,eio,be->bo", x, self.param("second", init, (3, 6, 6)), sparse))


class Siren(nn.Module):
    """Sines, with the start that its paper gives."""

    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            start = nn.initializers.variance_scaling(0.1, "fan_in", "uniform")
            x = jnp.sin(30 * nn.Dense(8, kernel_init=start)(x))
        return nn.Dense(1)(x)


class Kan(nn.Module):
    """Learnt functions on the edges: radial bases on a grid, beside a linear part."""

    @nn.compact
    def __call__(self, x):
        for features in (5, 3):
            grid = jnp.linspace(-2, 2, 5)
            basis = jnp.exp(-((x[..., None] - grid) ** 2))
            coefficients = self.param(f"splines_{features}", nn.initializers.normal(0.1), (x.shape[-1], 5, features))
            x = nn.Dense(features)(nn.silu(x)) + jnp.einsum("big,igo->bo", basis, coefficients)
        return x


class Sets(nn.Module):
    """Deep sets: a sum over elements that a mask leaves."""

    @nn.compact
    def __call__(self, elements, mask):
        x = nn.relu(nn.Dense(6)(elements)) * mask[..., None]
        return nn.Dense(3)(nn.relu(nn.Dense(6)(x.sum(1) / jnp.maximum(mask.sum(1, keepdims=True), 1))))


class Graph(nn.Module):
    """Two layers of messages along an adjacency matrix, a mean over nodes."""

    @nn.compact
    def __call__(self, inputs):
        nodes, edges = inputs["nodes"], inputs["edges"]
        degree = jnp.maximum(edges.sum(-1, keepdims=True), 1)
        for _ in range(2):
            nodes = nn.relu(nn.Dense(6)(nodes) + nn.Dense(6, use_bias=False)(edges @ nodes / degree))
        return nn.Dense(3)(nodes.mean(1))


SENDERS, RECEIVERS = np.array([0, 1, 2, 3, 4, 0]), np.array([1, 2, 3, 4, 0, 2])


class Gathered(nn.Module):
    """Messages on fixed edges: gathers and sums by segments."""

    @nn.compact
    def __call__(self, nodes):
        x = nn.Dense(6)(nodes)
        sent = nn.relu(nn.Dense(6)(jnp.concatenate([x[:, SENDERS], x[:, RECEIVERS]], -1)))
        summed = jax.vmap(lambda m: jax.ops.segment_sum(m, RECEIVERS, num_segments=5))(sent)
        return nn.Dense(3)(nn.relu(x + summed).max(1))


class WideAndDeep(nn.Module):
    """Columns of classes through tables beside columns of numbers, with products of pairs."""

    @nn.compact
    def __call__(self, inputs):
        tables = nn.Embed(11, 4)(inputs["classes"])
        pairs = 0.5 * (tables.sum(1) ** 2 - (tables**2).sum(1)).sum(-1, keepdims=True)
        deep = jnp.concatenate([tables.reshape(tables.shape[0], -1), inputs["numbers"]], -1)
        return nn.Dense(3)(inputs["numbers"]) + nn.Dense(3)(nn.relu(nn.Dense(8)(deep))) + pairs


class Scanned(nn.Module):
    """Equal layers run by `nn.scan`, with `nn.remat`."""

    @nn.compact
    def __call__(self, x):
        class Block(nn.Module):
            @nn.compact
            def __call__(self, x, _):
                return x + nn.tanh(nn.Dense(6)(x)), None

        stack = nn.scan(nn.remat(Block), variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        return nn.Dense(3)(stack()(nn.Dense(6)(x), None)[0])


class Modulated(nn.Module):
    """One input sets scale and shift of the other's features; gates and a highway."""

    @nn.compact
    def __call__(self, x, condition):
        scale, shift = jnp.split(nn.Dense(12)(condition), 2, -1)
        x = nn.relu(nn.Dense(6)(x) * (1 + scale) + shift)
        gate = nn.sigmoid(nn.Dense(6, bias_init=nn.initializers.constant(-2.0))(x))
        return nn.Dense(3)(gate * nn.relu(nn.Dense(6)(x)) + (1 - gate) * x)


class Counts(nn.Module):
    """A rate, for counts."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.softplus(nn.Dense(6)(x)))


def image(**settings: Any) -> dict[str, Any]:
    """A regression of whole images."""
    return dict(real(**settings))


LINEN = {
    "linen/tutorial": Net("convolutions and pooling, as in Flax's tutorial", Tutorial, IMAGES),
    "linen/residual": Net("residual blocks with batch norms", Residual, IMAGES),
    "linen/mobile": Net("depthwise convolutions, squeeze and excitation", Mobile, IMAGES),
    "linen/causal": Net("dilated causal convolutions", Causal, SEQUENCES),
    "linen/unet": Net("a U-net, with a transposed convolution", UNet, IMAGES, IMAGES.reshape(len(IMAGES), -1), image()),
    "linen/resized": Net("`jax.image.resize`, reflected borders", Resized, IMAGES),
    "linen/dense": Net("dense connections, group norms, dropout", Dense, IMAGES),
    "linen/lstm": Net("an LSTM's last carry", Long, SEQUENCES),
    "linen/bidirectional": Net("a bidirectional GRU over tokens, with lengths", BothWays, TOKENS),
    "linen/gpt": Net("a causal transformer with tied tables", Gpt, TOKENS, np.roll(TOKENS, -1, 1)),
    "linen/vit": Net("a vision transformer with a class token", Vit, IMAGES),
    "linen/mixer": Net("a mixer", Mixer, IMAGES),
    "linen/norms": Net("instance, RMS, weight and spectral norms", Normed, IMAGES),
    "linen/experts": Net("a mixture of experts, soft and top-1", Experts, VECTORS),
    "linen/siren": Net("SIREN", Siren, VECTORS, REAL, real()),
    "linen/kan": Net("learnt functions on edges, as KAN", Kan, VECTORS),
    "linen/sets": Net("deep sets with a mask, two inputs", Sets, (SEQUENCES, MASKS.astype(np.float32))),
    "linen/graph": Net("a graph net, nodes and adjacency by name", Graph, {"nodes": NODES, "edges": EDGES}),
    "linen/segments": Net("a graph net: gathers and segment sums", Gathered, NODES),
    "linen/wide": Net("wide and deep: classes and numbers", WideAndDeep, {"classes": TOKENS, "numbers": VECTORS}),
    "linen/scan": Net("`nn.scan` over layers, `nn.remat`", Scanned, VECTORS),
    "linen/film": Net("features modulated by a second input", Modulated, (VECTORS, normal(3))),
    "linen/counts": Net("a rate of counts", Counts, VECTORS, COUNTS, {"likelihood": bp.likelihoods.Poisson()}),
}
