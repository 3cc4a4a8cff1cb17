"""Noise in nets of other hands: random in training, where the net says so, and never in prediction."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from bayesprune.model.adapters import adapt
from bayesprune.model.inputs import Inputs

X = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
IMAGES = np.random.default_rng(0).normal(size=(6, 8, 8, 1)).astype(np.float32)
KEY = jax.random.key(0)


class Tutorial(nnx.Module):
    """A first network of images: its dropout has no noise of its own, it is handed to the call."""

    def __init__(self, rngs: nnx.Rngs):
        self.conv, self.norm = nnx.Conv(1, 4, (3, 3), rngs=rngs), nnx.BatchNorm(4, rngs=rngs)
        self.dropout, self.head = nnx.Dropout(0.5), nnx.Linear(64, 3, rngs=rngs)

    def __call__(self, x, rngs=None):
        x = nnx.avg_pool(nnx.relu(self.norm(self.dropout(self.conv(x), rngs=rngs))), (2, 2), strides=(2, 2))
        return self.head(x.reshape(len(x), -1))


class NoSource(nnx.Module):
    """Dropout without a source of noise, in a net whose call has none either."""

    def __init__(self, rngs: nnx.Rngs):
        self.first, self.dropout = nnx.Linear(4, 3, rngs=rngs), nnx.Dropout(0.5)

    def __call__(self, x):
        return self.dropout(self.first(x))


class Jitters(nnx.Module):
    """Noise from a stream of its own name in training."""

    def __init__(self, rngs: nnx.Rngs):
        self.first, self.rngs = nnx.Linear(4, 3, rngs=rngs), nnx.Rngs(jitter=7)
        self.deterministic = False  # `nnx.Module.eval` sets it

    def __call__(self, x):
        x = self.first(x)
        return x if self.deterministic else x + jax.random.normal(self.rngs.jitter(), x.shape)


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.dense, self.dropout = nnx.Linear(4, 4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.dropout(jnp.tanh(self.dense(x)))


class Scanned(nnx.Module):
    """Three blocks whose parameters and noise are stacked, run one after the other."""

    def __init__(self, rngs: nnx.Rngs):
        stacked = nnx.split_rngs(splits=3)(nnx.vmap(Block, in_axes=(0,), out_axes=0))
        self.blocks, self.head = stacked(rngs), nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x):
        run = nnx.scan(lambda x, block: block(x), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        return self.head(run(x, self.blocks))


class KeywordOnly(linen.Module):
    @linen.compact
    def __call__(self, x, *, is_training):
        return linen.Dense(3)(linen.Dropout(0.5, deterministic=not is_training)(x))


class OtherNoise(linen.Module):
    """A collection of noise of its own name."""

    @linen.compact
    def __call__(self, x, train: bool = False):
        x = linen.Dense(3)(x)
        return x + jax.random.normal(self.make_rng("jitter"), x.shape) if train else x


class Enabled(eqx.Module):
    linear: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.linear, self.dropout = eqx.nn.Linear(4, 3, key=key), eqx.nn.Dropout(0.5)

    def __call__(self, x, enable_dropout, key):
        first, _ = jax.random.split(key)
        return self.dropout(self.linear(x), key=first, inference=not enable_dropout)


class Inference(eqx.Module):
    linear: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.linear, self.dropout = eqx.nn.Linear(4, 3, key=key), eqx.nn.Dropout(0.5)

    def __call__(self, x, key=None, inference=False):
        return self.dropout(self.linear(x), key=key, inference=inference)


RANDOM = {
    "nnx, rngs in the call": (lambda: Tutorial(nnx.Rngs(0)), IMAGES),
    "nnx, dropout without rngs": (lambda: NoSource(nnx.Rngs(0)), X),
    "nnx, a stream of another name": (lambda: Jitters(nnx.Rngs(0)), X),
    "nnx, layers in a scan": (lambda: Scanned(nnx.Rngs(0)), X),
    "linen, keyword alone": (KeywordOnly, X),
    "linen, noise of another name": (OtherNoise, X),
    "equinox, enable_dropout and key": (lambda: Enabled(KEY), X),
    "equinox, inference": (lambda: Inference(KEY), X),
}


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("name", RANDOM)
def test_random_in_training_and_never_in_prediction(name) -> None:
    make, x = RANDOM[name]
    net = adapt(make(), Inputs.of_example(x[:1]))
    params, state = net.init(KEY)
    run = jax.jit(lambda x, train, key: net.apply(params, state, x, train, key)[0], static_argnums=1)
    one, other = run(x, True, jax.random.key(1)), run(x, True, jax.random.key(2))
    assert one.shape == (len(x), 3) and not np.array_equal(one, other)
    assert np.array_equal(one, run(x, True, jax.random.key(1))), "the noise is the key's"
    assert np.array_equal(run(x, False, None), run(x, False, jax.random.key(1)))


def test_layers_of_one_array_have_noise_of_their_own() -> None:
    """Of ones, blocks that drop alike would keep the same units."""

    class Doubled(nnx.Module):
        def __init__(self):
            stacked = nnx.split_rngs(splits=2)(nnx.vmap(lambda r: nnx.Dropout(0.5, rngs=r), in_axes=(0,), out_axes=0))
            self.layers, self.scale = stacked(nnx.Rngs(0)), nnx.Param(jnp.ones(()))

        def __call__(self, x):
            run = nnx.scan(lambda x, layer: (x, layer(x)), in_axes=(nnx.Carry, 0), out_axes=(nnx.Carry, 0))
            return run(x * self.scale[...], self.layers)[1].transpose(1, 0, 2)

    net = adapt(Doubled(), Inputs.of_shape((8,)))
    first, second = np.moveaxis(np.asarray(net.apply(*net.init(KEY), np.ones((16, 8), np.float32), True, KEY)[0]), 1, 0)
    assert 0.3 < (first > 0).mean() < 0.7 and not np.array_equal(first > 0, second > 0)
