"""Arithmetic of others, NumPyro's, optax's and Flax's, under the modes of JAX that it was written for."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """JAX's standard promotion of types and ranks, whatever the caller holds its own code to.

    >>> with jax.numpy_rank_promotion("raise"), as_written():
    ...     (jax.numpy.ones((2, 1)) + jax.numpy.ones(2)).shape
    (2, 2)
    """
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
