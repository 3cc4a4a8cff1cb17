"""Minibatches by permutation: every row is seen once in each epoch, and no row is left out at its end."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Batches(NamedTuple):
    """Where the reading stands: ``offset`` rows into the permutation ``current`` of epoch ``epoch``; ``following`` is next."""

    rng_key: jax.Array
    epoch: jax.Array
    offset: jax.Array
    current: jax.Array
    following: jax.Array


def start(rng_key: jax.Array, num_rows: int) -> Batches:
    """Begin the first epoch. The permutation of epoch e depends on ``rng_key`` and e alone."""
    zero = jnp.zeros((), jnp.int32)
    return Batches(rng_key, zero, zero, _shuffle(rng_key, zero, num_rows), _shuffle(rng_key, zero + 1, num_rows))


def after(batches: Batches, num_taken: int) -> Batches:
    """Where the reading that began at ``batches`` stands once so many rows were taken."""
    num_rows = batches.current.shape[0]
    epoch, offset = (jnp.asarray(number, jnp.int32) for number in divmod(num_taken, num_rows))
    current, following = (_shuffle(batches.rng_key, epoch + ahead, num_rows) for ahead in (0, 1))
    return Batches(batches.rng_key, epoch, offset, current, following)


def take(batches: Batches, batch_size: int) -> tuple[Batches, jax.Array]:
    """The next ``batch_size`` row numbers; a batch that crosses the end of an epoch goes on with the next permutation."""
    num_rows = batches.current.shape[0]
    index = batches.offset + jnp.arange(batch_size, dtype=jnp.int32)
    rows = jnp.where(index < num_rows, batches.current[index % num_rows], batches.following[index % num_rows])
    moved = batches._replace(offset=batches.offset + batch_size)
    return jax.lax.cond(moved.offset >= num_rows, _turn, lambda unchanged: unchanged, moved), rows


def _turn(batches: Batches) -> Batches:
    num_rows = batches.current.shape[0]
    following = _shuffle(batches.rng_key, batches.epoch + 2, num_rows)
    return Batches(batches.rng_key, batches.epoch + 1, batches.offset - num_rows, batches.following, following)


def _shuffle(rng_key: jax.Array, epoch: Any, num_rows: int) -> jax.Array:
    return jax.random.permutation(jax.random.fold_in(rng_key, epoch), num_rows).astype(jnp.int32)
