"""Bits of a weight: its moments where it shares a random scale, what rounding it costs, how many its posterior calls for."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Real


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


MANTISSA = 23


def cost(step: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """Mean divergence of N(loc, scale²) from itself with loc rounded to multiples of ``step``, step²/(24 scale²) nats (16.5).

    >>> print(round(float(cost(12**0.5 * 0.1, 0.1)), 4))
    0.5
    """
    return jnp.square(jnp.asarray(step, float) / scale) / 24.0


def shared_step(nats: Real[ArrayLike, ""], scale: Real[Array, "weights"]) -> Float[Array, ""]:
    """The one step for all weights at which (16.5) costs ``nats`` for each in the mean.

    >>> print(round(float(shared_step(0.5, jnp.array([0.1, 0.1]))), 4))
    0.3464
    """
    # In units of the smallest scale: the squares of small ones would be lost.
    least = jnp.min(scale)
    return least * jnp.sqrt(24.0 * nats / jnp.mean(jnp.square(least / scale)))


def mantissa_bits(variance: Real[ArrayLike, "..."]) -> Int[Array, "..."]:
    """The number of t in 1, ..., 23 with 2 variance < 2^-t: the paper's significant bits, its round-off a variance (16.6).

    >>> print(mantissa_bits(0.01**2))
    12

    Source: Louizos, Ullrich & Welling 2017, the authors' code.
    """
    places = 2.0 ** -jnp.arange(1, MANTISSA + 1, dtype=float)
    return jnp.sum(2.0 * jnp.asarray(variance, float)[..., None] < places, axis=-1)


def exponent_bits(largest: Real[ArrayLike, ""]) -> Float[Array, ""]:
    """ceil( log2( log2(max|w| + 1) + 1 ) + 1 ), the paper's bits of a layer's exponents (16.6).

    >>> print(exponent_bits(0.3), exponent_bits(100.0))
    2.0 4.0

    Source: Louizos, Ullrich & Welling 2017, the authors' code.
    """
    return jnp.ceil(jnp.log2(jnp.log2(jnp.asarray(largest, float) + 1.0) + 1.0) + 1.0)
