"""Data that an evaluation reads in their own order, block by block, however often: files, single rows, batches."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from bayesprune.core.same import array_digest, digest
from bayesprune.core.types import Dataset
from bayesprune.train.sources.by_row import Examples, Mapped, looked_at
from bayesprune.train.sources.source import Check, as_pair, joined, like, part_of

_AT_ONCE = 1024  # rows


@dataclass(frozen=True, eq=False)
class InOrder:
    """The inputs of such data, of which a slice gives checked rows. ``read``: rows from one number up to another; ``y``: all
    targets, by which a change of the rows is found; ``described``: what identifies them; ``row_bytes``: of x.

    An evaluator that knows nothing of it may make an array of it, all rows in memory.
    """

    read: Callable[[int, int], Dataset]
    y: np.ndarray
    described: str
    row_bytes: int

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, part: slice) -> Any:
        first, last, _ = part.indices(len(self))
        found = self.read(first, last)
        if not np.array_equal(found.y, self.y[first:last], equal_nan=True):  # NaN: a target that is missing
            raise ValueError(
                "eval_data gave other rows, or in another order, than when the fit began, and figures of several evaluations "
                "would not compare: do not shuffle what a fit is evaluated on."
            )
        return found.x

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


def by_number(table: Mapped | Examples, check: Check) -> Dataset:
    """Rows with an index; all are read once, to be checked."""

    def read(first: int, last: int) -> Dataset:
        return check(*table.rows(np.arange(first, last)))

    rows = len(table)
    some = check(*table.rows(looked_at(rows)))
    return _of(read, (read(n, min(n + _AT_ONCE, rows)) for n in range(0, rows, _AT_ONCE)), some)


def by_batch(again: Callable[[], Iterator[Any]], check: Check) -> Dataset:
    """The rows of one epoch of batches; all are read once, to be checked."""
    batches = BatchesInOrder(again, check)
    first = next(batches.epoch(), None)
    if first is None:
        raise ValueError("eval_data gives no batches: it is empty, or an iterator that is used up.")
    return _of(batches, batches.epoch(), first)


def _of(read: Callable[[int, int], Dataset], parts: Iterable[Dataset], some: Dataset) -> Dataset:
    y = np.concatenate([part.y for part in parts])
    identity = digest(tuple(map(array_digest, (y, *jax.tree.leaves(some)))))
    row_bytes = max(1, sum(leaf.nbytes for leaf in jax.tree.leaves(some.x)) // len(some.y))
    return Dataset(InOrder(read, y, f"{len(y)} rows, read in order [{identity[:16]}]", row_bytes), y)


class BatchesInOrder:
    """Batches, indexed by the numbers of their rows: read on where those follow, else from the beginning."""

    def __init__(self, again: Callable[[], Iterator[Any]], check: Check) -> None:
        self._again, self._check = again, check
        self._reading, self._held, self._at = iter(list[Dataset]()), list[Dataset](), 0

    def epoch(self) -> Iterator[Dataset]:
        """All of them, checked."""
        first = None
        for item in self._again():
            batch = self._check(*as_pair(item))
            first = batch if first is None else first
            yield like(batch, first)

    def __call__(self, first: int, last: int) -> Dataset:
        if first != self._at or not first:
            self._reading, self._held, self._at = self.epoch(), [], 0
        if first > self._at:
            self._take(first - self._at)
        return self._take(last - first)

    def _take(self, count: int) -> Dataset:
        while (rows := sum(len(part.y) for part in self._held)) < count:
            try:
                self._held.append(next(self._reading))
            except StopIteration:
                raise ValueError(
                    f"eval_data gave {self._at + rows} rows, fewer than when the fit began: let it give the same."
                ) from None
        whole = joined(self._held)
        self._held, self._at = [part_of(whole, count, len(whole.y))], self._at + count
        return part_of(whole, 0, count)
