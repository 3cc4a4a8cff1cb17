"""Linen, nnx and Equinox nets behind one face: the same outputs, the right order, state and dropout in training alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from bayesprune.model.adapters import adapt
from bayesprune.model.inputs import Inputs

ROWS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


class LinenNormed(linen.Module):
    """Batch statistics and dropout, told of training as ``train``."""

    @linen.compact
    def __call__(self, x, train: bool = False):
        x = linen.BatchNorm(use_running_average=not train, momentum=0.5)(linen.Dense(4)(x))
        return linen.Dense(2)(linen.Dropout(0.5, deterministic=not train)(x))


class LinenDeterministic(linen.Module):
    """Dropout, told of training as ``deterministic``."""

    @linen.compact
    def __call__(self, x, deterministic: bool = True):
        return linen.Dropout(0.5, deterministic=deterministic)(linen.Dense(8)(x))


class LinenBoth(linen.Module):
    """Norms told of training as ``train``, dropout as ``deterministic``."""

    @linen.compact
    def __call__(self, x, train: bool = False, deterministic: bool = True):
        x = linen.BatchNorm(use_running_average=not train, momentum=0.5)(linen.Dense(4)(x))
        return linen.Dropout(0.5, deterministic=deterministic)(x)


class NnxNormed(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.first, self.last = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)
        self.norm, self.dropout = nnx.BatchNorm(4, momentum=0.5, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(self.norm(self.first(x))))


class NnxDeep(nnx.Module):
    """More than ten layers in a list: their numbers must not be sorted as words."""

    def __init__(self, rngs: nnx.Rngs):
        self.layers = nnx.List([nnx.Linear(3, 3, rngs=rngs) for _ in range(12)])

    def __call__(self, x):
        for layer in self.layers:
            x = jnp.tanh(layer(x))
        return x


class EquinoxDropout(eqx.Module):
    linear: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.linear, self.dropout = eqx.nn.Linear(3, 8, key=key), eqx.nn.Dropout(0.5)

    def __call__(self, x, *, key=None):
        return self.dropout(self.linear(x), key=key)


def test_linen_gives_its_own_outputs() -> None:
    module = linen.Sequential([linen.Dense(4), jnp.tanh, linen.Dense(2)])
    net = adapt(module, Inputs.of_shape((3,)))
    params, state = net.init(jax.random.key(0))
    wanted = module.apply(module.init(jax.random.key(0), jnp.zeros((1, 3))), ROWS)
    assert sorted(params) == ["layers_0.bias", "layers_0.kernel", "layers_2.bias", "layers_2.kernel"] and state == {}
    np.testing.assert_array_equal(net.apply(params, state, ROWS, False, None)[0], wanted)


def test_nnx_gives_its_own_outputs_and_keeps_more_than_ten_layers_apart() -> None:
    module = NnxDeep(nnx.Rngs(0))
    net = adapt(module, Inputs.of_shape((3,)))
    params, state = net.init(jax.random.key(0))
    assert len(params) == 24 and state == {}
    np.testing.assert_allclose(net.apply(params, state, ROWS, False, None)[0], module(ROWS), rtol=1e-6)
    np.testing.assert_array_equal(params["layers.10.kernel"], module.layers[10].kernel[...])
    np.testing.assert_array_equal(params["layers.2.kernel"], module.layers[2].kernel[...])


def test_equinox_gives_its_own_outputs() -> None:
    module = eqx.nn.MLP(3, 2, 4, 12, key=jax.random.key(1))
    net = adapt(module, Inputs.of_shape((3,)))
    params, state = net.init(jax.random.key(0))
    assert "layers.12.weight" in params and state == {}
    np.testing.assert_allclose(net.apply(params, state, ROWS, False, None)[0], jax.vmap(module)(ROWS), rtol=1e-6)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("make", [LinenNormed, lambda: NnxNormed(nnx.Rngs(0))], ids=["linen", "nnx"])
def test_batch_statistics_move_in_training_alone(make) -> None:
    module = make()
    net = adapt(module, Inputs.of_shape((3,)))
    params, state = net.init(jax.random.key(0))
    still = net.apply(params, state, ROWS, False, None)
    moved = net.apply(params, state, ROWS, True, jax.random.key(1))[1]
    kept = lambda new: [np.asarray(leaf) for leaf in jax.tree.leaves(new)]  # noqa: E731
    assert all(np.array_equal(a, b) for a, b in zip(kept(state), kept(still[1]), strict=True))
    first = ("first" if isinstance(module, nnx.Module) else "Dense_0") + ".{}"
    before = ROWS @ params[first.format("kernel")] + params[first.format("bias")]
    # Momentum 0.5 from mean 0 and variance 1.
    means = [leaf for leaf in kept(moved) if np.allclose(leaf, 0.5 * before.mean(0), atol=1e-6)]
    variances = [leaf for leaf in kept(moved) if np.allclose(leaf, 0.5 + 0.5 * before.var(0), atol=1e-6)]
    assert len(means) == len(variances) == 1


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "module",
    [LinenBoth(), LinenNormed(), LinenDeterministic(), NnxNormed(nnx.Rngs(0)), EquinoxDropout(jax.random.key(0))],
    ids=["linen both", "linen train", "linen deterministic", "nnx", "equinox"],
)
def test_dropout_in_training_alone(module) -> None:
    net = adapt(module, Inputs.of_shape((3,)))
    params, state = net.init(jax.random.key(0))
    run = lambda train, key: np.asarray(net.apply(params, state, ROWS, train, key)[0])  # noqa: E731
    one, other = run(True, jax.random.key(1)), run(True, jax.random.key(2))
    assert not np.array_equal(one, other)
    assert np.array_equal(one, run(True, jax.random.key(1))), "the noise is the key's"
    assert np.array_equal(run(False, None), run(False, jax.random.key(1)))


def test_every_equinox_row_has_dropout_of_its_own() -> None:
    net = adapt(EquinoxDropout(jax.random.key(0)), Inputs.of_shape((3,)))
    params, state = net.init(jax.random.key(0))
    alike = np.ones((6, 3), np.float32)
    dropped = np.asarray(net.apply(params, state, alike, True, jax.random.key(3))[0]) == 0
    assert len({tuple(row) for row in dropped}) > 1


@pytest.mark.parametrize("module", [object(), lambda x: x, linen.Dense], ids=["object", "function", "class"])
def test_what_is_no_module_is_refused(module) -> None:
    with pytest.raises(TypeError, match="net must be a Flax linen, Flax nnx or Equinox module"):
        adapt(module, Inputs.of_shape((3,)))
