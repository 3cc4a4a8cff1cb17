"""Standard normal noise for millions of weights at every step: drawn exactly, or quicker from a table of quantiles."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

Noise = Callable[[jax.Array, tuple[int, ...]], jax.Array]

_BITS = 16


def exact(rng_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """`jax.random.normal`: one 32-bit word and an inverse error function for each number."""
    return jax.random.normal(rng_key, shape)


def none(rng_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """No noise: every weight at its mean."""
    return jnp.zeros(shape)


def quantile(rng_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Normal noise from a table of 65,536 equally likely quantiles: two numbers for each 32-bit word.

    Each number is Phi^-1((i + 1/2) / 65536) for a uniform 16-bit i, scaled so that the variance is exactly one: mean 0,
    variance 1, fourth moment within 0.1 % of the normal's, largest value 4.32. Meant for the noise of a training step, where
    a million draws by `exact` cost more than the layers that use them: several times quicker on a CPU.

    Args:
        rng_key: a typed key.
        shape: shape of the result.

    Example:
        >>> noise = quantile(jax.random.key(0), (1000, 10))
        >>> bool(abs(noise.mean()) < 0.05), bool(abs(noise.std() - 1) < 0.05)
        (True, True)
    """
    size = int(np.prod(shape))
    words = jax.random.bits(rng_key, ((size + 1) // 2,), jnp.uint32)
    index = jnp.concatenate([words & 0xFFFF, words >> _BITS])[:size]
    return quantiles()[index].reshape(shape)


def quantiles() -> jax.Array:
    """The table of `quantile`."""
    return jnp.asarray(_table())


@functools.cache
def _table() -> np.ndarray:
    """The quantiles, float32; the upper half mirrors the lower, so that the mean is exactly zero."""
    lower = ndtri((np.arange(2 ** (_BITS - 1)) + 0.5) / 2**_BITS)
    lower /= np.sqrt(np.mean(lower**2))
    return np.concatenate([lower, -lower[::-1]]).astype(np.float32)
