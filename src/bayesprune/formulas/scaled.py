"""A weight that shares a random scale with others: w = s w_hat, s and w_hat independent."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real


def moments(
    mean: Real[ArrayLike, "..."], variance: Real[ArrayLike, "..."], loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Mean and variance of s w_hat, of ``mean`` and ``variance`` of s and w_hat ~ (loc, scale²), (16.2).

    E w = E s loc,   Var w = (E s)² scale² + Var s (scale² + loc²)

    >>> print(*moments(2.0, 0.0, 3.0, 0.5))
    6.0 1.0

    Source: Louizos, Ullrich & Welling 2017, equation 8.
    """
    mean, loc = jnp.asarray(mean, float), jnp.asarray(loc, float)
    return mean * loc, jnp.square(mean * scale) + variance * (jnp.square(scale) + jnp.square(loc))
