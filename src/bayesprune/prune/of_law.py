"""Whole units by a number that their scale's law gives: broadcast to arrays, cut, and the best one kept."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Real


def by_unit(values: Real[Array, "..."], weights: Real[Array, "..."]) -> Real[Array, "..."]:
    """Numbers of units with as many axes as the array has, 1 along those that units share.

    >>> by_unit(jnp.ones(3), jnp.ones((2, 3))).shape
    (1, 3)
    """
    values = jnp.asarray(values)
    return values.reshape((1,) * (jnp.ndim(weights) - values.ndim) + values.shape)


def alive(values: Real[Array, "..."], mask: Bool[Array, "..."]) -> Bool[Array, "..."]:
    """Which units have a living weight, in the shape of ``values`` as of `by_unit`.

    >>> print(alive(jnp.ones((1, 2)), jnp.array([[True, False], [False, False]])))
    [[ True False]]
    """
    shared = tuple(axis for axis, size in enumerate(values.shape) if size == 1)
    return jnp.any(mask, axis=shared, keepdims=True)


def cut_units(worth: Real[Array, "..."], stays: Bool[Array, "..."], mask: Bool[Array, "..."]) -> Bool[Array, "..."]:
    """What is alive of one array after a cut: units that are to stay, and that of highest worth; the dead stay dead.

    >>> print(cut_units(jnp.array([[1.0, 2.0, 3.0]]), jnp.array([[False, False, False]]), jnp.ones((2, 3), bool)))
    [[False False  True]
     [False False  True]]
    """
    best = jnp.max(worth, where=alive(worth, mask), initial=-jnp.inf)
    return mask & (stays | (worth == best))


def shared(values: Real[Array, "..."], mask: Bool[Array, "..."]) -> Real[Array, "..."]:
    """Numbers of units, in equal parts over the living weights of each, which so add up to it.

    >>> print(shared(jnp.array([[6.0]]), jnp.array([[True], [True], [False]]))[:2, 0])
    [3. 3.]
    """
    axes = tuple(axis for axis, size in enumerate(values.shape) if size == 1)
    count = jnp.sum(mask, axis=axes, keepdims=True, dtype=values.dtype)
    return jnp.where(mask, values / jnp.maximum(count, 1.0), 0.0)
