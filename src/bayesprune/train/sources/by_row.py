"""Rows with an index: arrays in a file's mapped memory, and sources of single examples.

The order is that of a fit of arrays in the device's memory under the same key, so that the minibatches are the same ones; the
number of the next one is all there is to remember.
"""

import itertools
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayesprune.core.given import Numbered
from bayesprune.core.numbers import without_mask
from bayesprune.core.same import array_digest, digest
from bayesprune.core.types import Dataset, PyTree
from bayesprune.train.batches import Rows
from bayesprune.train.sites import Example
from bayesprune.train.sources.source import Check, Read, as_pair, example_of, like

_LOOKED_AT = 64


class Mapped:
    """Arrays, at least one of them in mapped memory; ``rows`` gives those of some numbers."""

    def __init__(self, x: PyTree, y: PyTree) -> None:
        self._arrays = Dataset(*jax.tree.map(lambda array: np.asarray(without_mask(array, "data")), (x, y)))
        self._files = mapped_files(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays.y)

    def rows(self, numbers: np.ndarray) -> tuple[Any, Any]:
        x, y = jax.tree.map(lambda array: array[numbers], self._arrays)
        for file in self._files:
            # Pages that were read count as this process's memory until they are given back; the kernel may keep them cached.
            if hasattr(mmap, "MADV_DONTNEED"):
                file.madvise(mmap.MADV_DONTNEED)
        return x, y


class Examples:
    """Anything with a length whose entries are single rows: a tfds data source, a dataset of PyTorch's or Grain's."""

    def __init__(self, entries: Sequence[Any] | Numbered) -> None:
        self._entries = entries
        info = getattr(entries, "dataset_info", None)
        # What tfds itself calls input and target, where a set has them.
        keys = tuple(getattr(info, "supervised_keys", None) or ())
        self._names = (keys[0], keys[1]) if len(keys) == 2 and all(isinstance(key, str) for key in keys) else ("x", "y")

    def __len__(self) -> int:
        return len(self._entries)

    def rows(self, numbers: np.ndarray) -> tuple[Any, Any]:
        wanted = [int(number) for number in numbers]
        together = getattr(self._entries, "__getitems__", None)
        items = list(together(wanted)) if together is not None else [self._entries[number] for number in wanted]
        if len(items) != len(wanted):
            raise ValueError(
                f"data gave {len(items)} rows where {len(wanted)} were asked of __getitems__: give one for each number, and "
                "leave out beforehand what is not to be trained on."
            )
        pairs = [as_pair(item, self._names) for item in items]
        x, y = (
            jax.tree.map(lambda *leaves: _stacked(leaves), *side, is_leaf=_written_out) for side in zip(*pairs, strict=True)
        )
        return x, y


@dataclass(frozen=True)
class ByRow:
    """Minibatches of rows by permutation. ``table``: `Mapped` or `Examples`.

    ``batch_size``: rows of a minibatch; ``here``: the numbers in it of those that this process reads.
    """

    table: Mapped | Examples
    batch_size: int
    here: np.ndarray
    check: Check
    first: Dataset
    example: Example

    @classmethod
    def of(cls, table: Mapped | Examples, batch_size: int, check: Check, here: np.ndarray | None = None) -> "ByRow":
        here = np.arange(batch_size) if here is None else here
        first = check(*table.rows(here))
        return cls(table, batch_size, here, check, first, example_of(first, len(table)))

    def read(self, rng_key: jax.Array, number: int, begun: int, state: Mapping[str, Any] | None, keep: bool) -> Iterator[Read]:
        rows = Rows(rng_key, len(self.table), self.batch_size)
        for each in itertools.count(begun + number):
            yield Read(like(self.check(*self.table.rows(rows(each)[self.here])), self.first), None)

    def described(self) -> str:
        found = self.check(*self.table.rows(looked_at(len(self.table))))
        digests = tuple(map(array_digest, jax.tree.leaves(found)))
        return f"{self.example.leaves}, some rows [{digest(digests)[:16]}]"


def mapped_files(data: PyTree) -> list[mmap.mmap]:
    """The mapped files of a tree's arrays; see `shared_mapping`."""
    return [file for file in map(shared_mapping, jax.tree.leaves(data)) if file is not None]


def shared_mapping(array: object) -> mmap.mmap | None:
    """The mapped file in whose memory an array or a view lies, if the array can only be read from there, or written to it.

    A mapping of mode "c" holds changes that no file has: it counts as an array in memory, as does what was copied.
    """
    mode = ""
    while array is not None and not isinstance(array, mmap.mmap):
        mode = getattr(array, "mode", mode) if isinstance(array, np.memmap) else mode
        array = getattr(array, "base", None)
    return array if mode in ("r", "r+", "w+") else None


def _written_out(node: object) -> bool:
    """Whether it is an array as a list, or a tuple, of its numbers: one row, not a tree of several."""
    return isinstance(node, list) or (isinstance(node, tuple) and all(np.isscalar(part) for part in node))


def _stacked(values: Sequence[Any]) -> np.ndarray:
    arrays = [np.asarray(without_mask(value, "data")) for value in values]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ValueError(f"data has rows of several shapes, {' and '.join(map(str, sorted(shapes)[:2]))}: pad them to one.")
    return np.stack(arrays)


def looked_at(rows: int) -> np.ndarray:
    """The numbers of the rows by which so many on disk are recognised: some of all, the first and the last among them."""
    return np.unique(np.linspace(0, rows - 1, _LOOKED_AT).astype(int))
