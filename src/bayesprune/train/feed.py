"""What feeds the compiled loop: all rows in the device's memory, or blocks of minibatches, read and sent while it works."""

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike

from bayesprune.core.types import Dataset
from bayesprune.train.batches import Block, Padded, order_key
from bayesprune.train.share import everywhere, rows_here, spread
from bayesprune.train.sites import Example
from bayesprune.train.sources.source import Read, Source
from bayesprune.train.state import CHUNK

# Of one block. While one is in use, the next one is read on the host and sent.
BLOCK_BYTES = 2**25


class Now(NamedTuple):
    """Where a fit is: ``begun`` steps were those of fits before it; ``state``: of the reading."""

    step: int
    begun: int
    state: Any


@dataclass(frozen=True)
class WholeFeed:
    """Data in the device's memory. ``first``: what the loop starts from; ``shown``: rows that a model may be run on; ``types``:
    of the numbers as they were given, before the fit made its own of them."""

    data: Dataset | Padded
    types: str = ""

    @property
    def example(self) -> Example:
        return Example.of(self.shown)

    @property
    def first(self) -> Dataset | Padded:
        return self.data

    alike = first

    @property
    def shown(self) -> Dataset:
        return Dataset(self.data.x, self.data.y)

    def described(self) -> Any:
        return self.data

    @contextlib.contextmanager
    def open(self, rng_key: jax.Array, now: Now, last: int, ahead: int, keep: bool) -> Iterator["WholeFeed"]:
        yield self

    def block(self, step: int) -> tuple[Dataset | Padded, int]:
        """What holds the minibatch of the step after ``step``, and for how many steps it lasts."""
        return self.data, CHUNK

    def ahead(self, step: int) -> Dataset | Padded:
        """What holds all minibatches that a sparsifier may look at then."""
        return self.data

    def state(self, step: int) -> Any:
        """Where the reading is, for a checkpoint."""
        return None


@dataclass(frozen=True)
class Stream:
    """Data that are read as they are needed; ``mesh``: the devices over which rows are spread. Fields are those of `WholeFeed`.

    ``batch_size``: rows of a minibatch, of which ``source`` reads those that are this process's own; ``shown``: its first ones,
    or where processes have others, those of the first process.
    """

    source: Source
    batch_size: int
    shown: Dataset
    mesh: Mesh | None = None
    types: str = ""

    @property
    def example(self) -> Example:
        return self.source.example

    @property
    def first(self) -> Block:
        return self.send(jax.tree.map(lambda leaf: leaf[None], self.source.first), 0)

    @property
    def alike(self) -> Block:
        """The shapes of a block."""
        shape = lambda leaf: jax.ShapeDtypeStruct((self.length, self.batch_size, *leaf.shape[1:]), leaf.dtype)  # noqa: E731
        return Block(jax.tree.map(shape, self.source.first), np.int32(0))

    @property
    def length(self) -> int:
        """Minibatches in a block."""
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(self.source.first))
        return max(1, min(CHUNK, BLOCK_BYTES // size))

    def described(self) -> str:
        return self.source.described()

    def empty(self, length: int) -> Dataset:
        """Room on the host for so many minibatches."""
        return jax.tree.map(lambda leaf: np.zeros((length, *leaf.shape), leaf.dtype), self.source.first)

    def send(self, batches: Dataset, first: int) -> Block:
        """Minibatches, the first one of number ``first``, from the host to the devices."""
        if self.mesh is None:
            return Block(jax.device_put(batches), jax.device_put(np.int32(first)))
        here = rows_here(self.mesh, self.batch_size)
        return Block(spread(batches, self.mesh, self.batch_size, here), everywhere(np.int32(first), self.mesh))

    @contextlib.contextmanager
    def open(self, rng_key: jax.Array, now: Now, last: int, ahead: int, keep: bool) -> Iterator["Flow"]:
        """The minibatches from ``now`` up to step ``last``, and ``ahead`` of them at once where a sparsifier looks.

        ``rng_key``: of the fit. ``keep``: whether states are to be kept.
        """
        read = self.source.read(order_key(rng_key), now.step, now.begun, now.state, keep)
        flow = Flow(self, read, now.step, last + ahead - 1, ahead, now.state)
        try:
            yield flow
        finally:
            flow.close()


class Held(NamedTuple):
    """A block of the minibatches ``first`` to ``end``, and where the reading stood before each of them and after the last."""

    block: Block
    first: int
    end: int
    states: list[Any]


class Flow:
    """Blocks in their order. One is read in a thread of its own while the device works on the one before."""

    def __init__(
        self, of: Stream, reading: Iterator[Read], step: int, last: int, ahead: int, state: Mapping[str, Any] | None
    ) -> None:
        self._of, self._reading, self._position, self._last, self._ahead, self._now = of, reading, step, last, ahead, state
        self._held: deque[Held] = deque()
        self._next: Future[Held] | None = None
        self._start, self._closed = state, False
        self._default = jax.config.jax_default_device  # type: ignore[attr-defined]  # a thread has no part in what another one has set for itself
        self._thread = ThreadPoolExecutor(1, "bayesprune-data")

    def block(self, step: int) -> tuple[Block, int]:
        while self._held and self._held[0].end <= step:
            self._held.popleft()
        held = self._holding(step)
        return held.block, held.end - step

    def ahead(self, step: int) -> Block:
        parts = [self._holding(number) for number in range(step, step + self._ahead)]
        picked = [_pick(held.block.data, number - held.first) for number, held in enumerate(parts, step)]
        return Block(jax.tree.map(lambda *leaves: jax.numpy.stack(leaves), *picked), jax.numpy.asarray(step, jax.numpy.int32))

    def state(self, step: int) -> Any:
        for held in self._held:
            if held.first <= step <= held.end:
                return held.states[step - held.first]
        return self._start

    def close(self) -> None:
        """End the reading; what has been read ahead is forgotten."""
        self._closed = True
        self._thread.shutdown(cancel_futures=True)

    def _holding(self, number: int) -> Held:
        while not self._held or self._held[-1].end <= number:
            read = self._next or self._thread.submit(self._read)
            self._held.append(read.result())
            more = self._held[-1].end < self._last
            self._next = self._thread.submit(self._read) if more else None
        return next(held for held in self._held if held.first <= number < held.end)

    def _read(self) -> Held:
        """The next block: in the thread."""
        first, states, room = self._position, [self._now], self._of.empty(self._of.length)
        end = min(first + self._of.length, self._last)
        while self._position < end and not self._closed:
            batch, self._now = next(self._reading)
            jax.tree.map(lambda into, leaf: into.__setitem__(self._position - first, leaf), room, batch)
            states.append(self._now)
            self._position += 1
        with jax.default_device(self._default):
            return Held(self._of.send(room, first), first, self._position, states)


@jax.jit
def _pick(data: Dataset, index: ArrayLike) -> Dataset:
    return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, index, keepdims=False), data)
