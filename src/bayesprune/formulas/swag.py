"""Moments of the weights along a path of gradient descent, SWAG's Gaussian."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from bayesprune.core.compiling import WHOLE_PRODUCTS

REFERENCE = "maddox2019simple"


class PathMoments(NamedTuple):
    """Of n points of a path: ``mean``; ``squares`` = sum (w - mean)²; ``deviations`` (rank, ...): of the last points, each
    from the mean as it was when it came, the n-th in row (n - 1) mod rank."""

    mean: jax.Array
    squares: jax.Array
    deviations: jax.Array


def after_point(moments: PathMoments, point: ArrayLike, count: ArrayLike) -> PathMoments:
    """With one point more, the ``count``-th, from 1 on; (27.1).

    The paper keeps the mean of w², from which a variance far below the mean² cannot be told in float32; the sum of squares
    about the running mean (Welford's) is the same number.

    >>> moments = PathMoments(jnp.zeros(()), jnp.zeros(()), jnp.zeros((2,)))
    >>> for n, w in enumerate([1.0, 3.0, 5.0], 1):
    ...     moments = after_point(moments, w, n)
    >>> print(moments.mean, moments.squares, moments.deviations)
    3.0 8.0 [2. 1.]
    """
    mean = moments.mean + (point - moments.mean) / count
    squares = moments.squares + (point - moments.mean) * (point - mean)
    rank = moments.deviations.shape[0]
    if not rank:
        return PathMoments(mean, squares, moments.deviations)
    row = (jnp.asarray(count) - 1) % rank
    return PathMoments(mean, squares, moments.deviations.at[row].set(point - mean))


@WHOLE_PRODUCTS
def draw(moments: PathMoments, count: ArrayLike, along: ArrayLike, apart: ArrayLike) -> jax.Array:
    """One draw of an array of weights from (27.2),

      w = mean + sqrt(v / 2) e + sum_k z_k d_k / sqrt(2 (K - 1)),   v = squares / count

    ``along``: z, (K,), the same for every array of the network, K the rows of deviations; ``apart``: e, of the array's shape.

    >>> moments = PathMoments(jnp.ones(2), jnp.array([4.0, 0.0]), jnp.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> print(draw(moments, 2, along=jnp.array([0.0, 2.0**0.5]), apart=jnp.ones(2)))
    [2. 3.]
    """
    rank = moments.deviations.shape[0]
    shared = jnp.tensordot(jnp.asarray(along), moments.deviations, 1) / jnp.sqrt(2.0 * (rank - 1))
    return moments.mean + jnp.sqrt(moments.squares / count / 2.0) * apart + shared
