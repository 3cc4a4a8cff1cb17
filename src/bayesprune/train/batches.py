"""Minibatches by permutation: every row is seen once in each epoch, and no row is left out at its end.

Rows in the device's memory are picked there, by `Batches`; those of a `Block` were picked before, and are taken in their order.
"""

import functools
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.types import Dataset, PyTree

Count = int | jax.Array  # of rows: a number, or a value of the data


class Batches(NamedTuple):
    """Where the reading is: ``offset`` rows into the permutation ``current`` of epoch ``epoch``; ``following`` is next."""

    rng_key: jax.Array
    epoch: jax.Array
    offset: jax.Array
    current: jax.Array
    following: jax.Array


class Block(NamedTuple):
    """Minibatches in the order in which they are taken: arrays (batches, rows, ...); ``first``: the number of the first one."""

    data: Dataset
    first: jax.Array | np.int32


class Padded(NamedTuple):
    """Rows in more places than there are: the first ``num_rows`` count, the others are never drawn.

    How many there are is a value, so that fits of as many places share what is compiled. A minibatch has fewer rows than that.
    """

    x: PyTree
    y: PyTree
    num_rows: Count


class Streamed(NamedTuple):
    """Where the reading of blocks is: the minibatch of this number is next, from row ``offset`` of its epoch on."""

    number: jax.Array
    offset: jax.Array


Reading = Batches | Streamed


def order_key(rng_key: jax.Array) -> jax.Array:
    """The key of the order of rows, of the three that `Loop.init` splits a fit's key into."""
    return jax.random.split(rng_key, 3)[2]


def start(rng_key: jax.Array, num_rows: Count, places: int | None = None) -> Batches:
    """Begin the first epoch. The permutation of epoch e depends on ``rng_key`` and e alone.

    ``places``: in which the rows are; None: as many.
    """
    zero, places = jnp.zeros((), jnp.int32), cast(int, num_rows) if places is None else places
    return Batches(rng_key, zero, zero, *(_shuffle(rng_key, zero + ahead, num_rows, places) for ahead in (0, 1)))


def after(reading: Reading, num_taken: int, num_rows: int) -> Reading:
    """Where the reading that began at ``reading`` stands once so many rows were taken.

    Blocks are still numbered from the first one that is given from here on.
    """
    epoch, offset = (jnp.asarray(number, jnp.int32) for number in divmod(num_taken, num_rows))
    if isinstance(reading, Streamed):
        return reading._replace(offset=offset)
    current, following = (_shuffle(reading.rng_key, epoch + ahead, num_rows, num_rows) for ahead in (0, 1))
    return Batches(reading.rng_key, epoch, offset, current, following)


def start_blocks() -> Streamed:
    """Before the first minibatch of the first block."""
    return Streamed(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


def take(batches: Batches, batch_size: int, num_rows: Count | None = None) -> tuple[Batches, jax.Array]:
    """The next ``batch_size`` row numbers; a batch that crosses the end of an epoch goes on with the next permutation.

    ``num_rows``: as of `start`; None: as many as places.
    """
    num_rows = batches.current.shape[0] if num_rows is None else num_rows
    index = batches.offset + jnp.arange(batch_size, dtype=jnp.int32)
    rows = jnp.where(index < num_rows, batches.current[index % num_rows], batches.following[index % num_rows])
    moved = batches._replace(offset=batches.offset + batch_size)
    turn = functools.partial(_turn, num_rows=num_rows)
    return jax.lax.cond(moved.offset >= num_rows, turn, lambda unchanged: unchanged, moved), rows


def take_from_block(reading: Streamed, block: Block, batch_size: int, num_rows: Count) -> tuple[Streamed, Dataset]:
    """The next minibatch of the block, which must hold it."""
    pick = functools.partial(jax.lax.dynamic_index_in_dim, index=reading.number - block.first, keepdims=False)
    offset = reading.offset + batch_size
    # As `Batches` counts it, so that equal offsets mean the same rows.
    moved = Streamed(reading.number + 1, jnp.where(offset >= num_rows, offset - num_rows, offset))
    return moved, jax.tree.map(pick, block.data)


class Rows:
    """The row numbers of any minibatch, on the host: those that `take` gives, minibatch after minibatch."""

    def __init__(self, rng_key: jax.Array, num_rows: int, batch_size: int) -> None:
        self._num_rows, self._batch_size = num_rows, batch_size
        # A minibatch has rows of two epochs at most.
        self._order = functools.lru_cache(maxsize=2)(lambda epoch: np.asarray(_permutation(rng_key, epoch, num_rows, num_rows)))

    def __call__(self, number: int) -> np.ndarray:
        """The rows of minibatch ``number``, counted from 0; all of them, in their own order, where a batch has all."""
        if self._batch_size == self._num_rows:
            return np.arange(self._num_rows)
        epoch, offset = divmod(number * self._batch_size, self._num_rows)
        rows = self._order(epoch)[offset : offset + self._batch_size]
        missing = self._batch_size - len(rows)
        return np.concatenate([rows, self._order(epoch + 1)[:missing]]) if missing else rows


def _turn(batches: Batches, num_rows: Count) -> Batches:
    following = _shuffle(batches.rng_key, batches.epoch + 2, num_rows, batches.current.shape[0])
    return Batches(batches.rng_key, batches.epoch + 1, batches.offset - num_rows, batches.following, following)


def _shuffle(rng_key: jax.Array, epoch: jax.Array | int, num_rows: Count, places: int) -> jax.Array:
    order = jax.random.permutation(jax.random.fold_in(rng_key, epoch), places).astype(jnp.int32)
    if isinstance(num_rows, int):
        return order
    return order[jnp.argsort(order >= num_rows, stable=True)]  # rows that count first, in the order that they have among all


_permutation = jax.jit(_shuffle, static_argnums=(2, 3))
