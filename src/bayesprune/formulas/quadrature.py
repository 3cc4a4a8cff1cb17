"""Expectations under a normal distribution by Gauss-Hermite quadrature: of smooth functions, without draws."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from bayesprune.core.compiling import WHOLE_PRODUCTS

NODES = 32


def nodes(count: int = NODES) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights for N(0, 1), exact for polynomials up to degree 2 ``count`` - 1; the weights sum to 1.

    >>> points, weights = nodes(3)
    >>> round(float(weights @ points**4), 6)
    3.0
    """
    points, weights = np.polynomial.hermite_e.hermegauss(count)
    return points, weights / weights.sum()


@WHOLE_PRODUCTS
def expect(
    fn: Callable[[Array], Array], loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."], count: int = NODES
) -> Float[Array, "..."]:
    """E fn(t), t ~ N(loc, scale²), element by element. ``fn`` works on arrays; ``loc`` and ``scale`` broadcast.

    >>> print(expect(jnp.square, 1.0, 2.0).round(4))
    5.0
    """
    loc, scale = jnp.broadcast_arrays(jnp.asarray(loc, float), jnp.asarray(scale, float))
    points, weights = (jnp.asarray(part, loc.dtype) for part in nodes(count))
    along = points.reshape((1,) * loc.ndim + (count,))
    return fn(loc[..., None] + scale[..., None] * along) @ weights
