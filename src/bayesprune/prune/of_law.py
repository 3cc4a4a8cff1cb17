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


def cut(worth: Real[Array, "..."], least: Real[Array, ""] | float, mask: Bool[Array, "..."]) -> Bool[Array, "..."]:
    """What stays of one array: units of at least ``least``, and the best one; NaN falls, the dead stay dead.

    >>> print(cut(jnp.array([[1.0, 2.0, 3.0]]), 2.5, jnp.ones((2, 3), bool)))
    [[False False  True]
     [False False  True]]
    """
    best = jnp.max(worth, where=alive(worth, mask), initial=-jnp.inf)
    return mask & ((worth >= least) | (worth == best))
