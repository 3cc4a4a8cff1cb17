"""Networks computed from slices of their arrays: values and gradients are those of the whole arrays, in float64 to 1e-12.

The oracle is JAX itself on whole arrays, zeros where slices are left out.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from jax import lax

import bayesprune as bp
from bayesprune.model.short_program import of_short_arrays
from bayesprune.model.transforms.parts import UnfitError


class Convolutions(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.Conv(6, (3, 3))(x))
        x = linen.max_pool(linen.gelu(linen.Conv(8, (3, 3), padding="VALID")(x)), (2, 2), (2, 2))
        x = linen.avg_pool(jnp.tanh(linen.Conv(7, (3, 3), padding="SAME")(x)), (2, 2))
        return linen.Dense(4)(linen.softplus(linen.Dense(9)(x.reshape(len(x), -1))))


class Residual(linen.Module):
    """Sums, gates and norms, and a mean over units, in which a missing one counts."""

    @linen.compact
    def __call__(self, x):
        x = linen.Dense(8)(x)
        x = x + linen.Dense(8)(jnp.cos(linen.Dense(6)(x)))
        x = linen.LayerNorm()(x) * linen.sigmoid(linen.Dense(8)(x))
        return linen.Dense(3)(jnp.concatenate([x, x.mean(1, keepdims=True), jnp.where(x > 0.1, x, -x)], 1))


class Attention(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Dense(8)(x)
        return linen.Dense(2)(linen.MultiHeadDotProductAttention(num_heads=2)(x, x).max(1))


CASES = {
    "swish": (bp.nets.MLP((9, 7), 3), (5,)),
    "relu": (bp.nets.MLP((9, 7), 3, activation=jax.nn.relu), (2, 3)),
    "convolutions": (Convolutions(), (9, 9, 2)),
    "residual": (Residual(), (5,)),
    "attention": (Attention(), (4, 3)),
}


def arrays_of(net, shape, rng, rate):
    """A net's function of arrays, whole ones with slices of zeros, their slices, and a row's data."""
    x = rng.normal(size=(6, *shape))
    variables = net.init(jax.random.key(0), jnp.asarray(x))
    leaves, tree = jax.tree.flatten(variables)
    whole, short, kept = {}, {}, {}
    for number, leaf in enumerate(leaves):
        array, axes = rng.normal(size=leaf.shape), []
        for axis, size in enumerate(leaf.shape):
            stays = rng.random(size) < rate
            stays[rng.integers(size)] = True
            spared = size < 4 or (leaf.ndim == 4 and axis < 2) or size == jax.eval_shape(net.apply, variables, x).shape[-1]
            axes.append(None if spared or stays.all() else tuple(np.flatnonzero(stays).tolist()))
            if axes[-1] is not None:
                np.moveaxis(array, axis, 0)[~stays] = 0
        name = f"w{number:02}"
        whole[name], kept[name] = jnp.asarray(array), tuple(axes)
        for axis, index in enumerate(axes):
            array = array if index is None else np.take(array, index, axis)
        short[name] = jnp.asarray(array)

    def apply(params, x):
        return net.apply(jax.tree.unflatten(tree, [params[name] for name in sorted(params)]), x)

    return apply, whole, short, kept, jnp.asarray(x)


@pytest.mark.slow_cases(4)
@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.3, 0.7])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_whole_arrays(name, rate) -> None:
    with jax.enable_x64(True):
        apply, whole, short, kept, x = arrays_of(*CASES[name], np.random.default_rng(3), rate)
        function = of_short_arrays(apply, {site: array.shape for site, array in whole.items()}, kept)
        of = lambda one: jax.value_and_grad(lambda p: (jnp.sum(jnp.sin(made := one(p, x))), made), has_aux=True)  # noqa: E731
        (_, given), slopes = jax.jit(of(apply))(whole)
        (_, made), short_slopes = jax.jit(of(function))(short)
        np.testing.assert_allclose(made, given, rtol=1e-12, atol=1e-12)
        for site, slope in slopes.items():
            for axis, index in enumerate(kept[site]):
                slope = slope if index is None else jnp.take(slope, np.array(index), axis)
            np.testing.assert_allclose(short_slopes[site], slope, rtol=1e-11, atol=1e-11, err_msg=site)


def test_products_are_of_the_slices_alone() -> None:
    """Two kernels whose slices agree: nothing of the whole width is made, though cosh(0) is not 0."""
    stays = (1, 4, 5)
    apply = lambda p, x: jnp.cosh(x @ p["a"] + p["b"]) * jax.nn.silu(x @ p["a"]) @ p["c"]  # noqa: E731
    sizes = {"a": (3, 40), "b": (40,), "c": (40, 2)}
    short = of_short_arrays(apply, sizes, {"a": (None, stays), "b": (stays,), "c": (stays, None)}, strict=True)
    arrays = {"a": jnp.ones((3, 3)), "b": jnp.ones(3), "c": jnp.ones((3, 2))}
    trace = jax.make_jaxpr(short)(arrays, jnp.ones((5, 3)))
    assert "40]" not in str(trace)
    assert str(trace).count("dot_general[") == 3


def test_weights_stay_as_they_are_where_that_is_asked() -> None:
    sizes, apply = {"a": (3, 4), "b": (4,)}, lambda p, x: x @ p["a"] + p["b"]
    short = of_short_arrays(apply, sizes, {"a": (None, (0, 1)), "b": ((2, 3),)}, strict=True)
    with pytest.raises(UnfitError, match="slices of a weight array"):
        short({"a": jnp.ones((3, 2)), "b": jnp.ones(2)}, jnp.ones((5, 3)))


def test_what_has_no_rule_is_done_whole() -> None:
    apply = lambda p, x: lax.cumsum(jnp.sort(x @ p["a"], axis=1), axis=1)  # noqa: E731
    short = of_short_arrays(apply, {"a": (3, 5)}, {"a": (None, (1, 3))})
    x = jnp.arange(6.0).reshape(2, 3) - 2
    whole = jnp.zeros((3, 5)).at[:, jnp.array([1, 3])].set(2.0)
    np.testing.assert_array_equal(short({"a": jnp.full((3, 2), 2.0)}, x), apply({"a": whole}, x))


@pytest.mark.slow
def test_integers_and_switches_go_through() -> None:
    def apply(params, ids, doubled, key):
        rows = params["a"][ids]
        return (2 * rows if doubled else rows) + jax.random.normal(key, rows.shape)

    short = of_short_arrays(apply, {"a": (5, 4)}, {"a": ((0, 2), None)})
    whole = jnp.zeros((5, 4)).at[jnp.array([0, 2])].set(3.0)
    args = (jnp.array([2, 3, 0]), True, jax.random.key(1))
    np.testing.assert_array_equal(short({"a": jnp.full((2, 4), 3.0)}, *args), apply({"a": whole}, *args))
