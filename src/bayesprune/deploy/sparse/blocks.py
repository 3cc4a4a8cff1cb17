"""Sparse matrices in blocks: outputs side by side that read the same numbers read them once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayesprune.deploy.program.linear import Pattern

# A number read for a whole block takes as long as this many of one output: there are more products to be made with it.
WORTH = 1.8


class Blocks(NamedTuple):
    """Layers as `kernels_numba.rows` takes them: ``tall[i]`` outputs of layer i at a time, of which there are ``heights[i]``.

    Step g of layer i, from ``steps[i]`` to ``steps[i + 1]``, reads ``columns[ptr[g]:ptr[g + 1]]``; its numbers, ``tall`` for
    each column, follow upon one another from ``firsts[i]``, and what its outputs begin with from ``tops[i]``. ``entries``,
    ``begins``: of which entry of the matrices, or which output, each of these numbers is, counted from one; 0: it is zero.
    """

    heights: np.ndarray
    tall: np.ndarray
    steps: np.ndarray
    tops: np.ndarray
    firsts: np.ndarray
    ptr: np.ndarray
    columns: np.ndarray
    entries: np.ndarray
    begins: np.ndarray

    def filled(self, numbers: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and what outputs begin with, from those of all matrices one after another."""
        return tuple(  # type: ignore[return-value]
            np.concatenate([np.zeros(1, of.dtype), of])[places]
            for of, places in ((numbers, self.entries), (start, self.begins))
        )


def blocks(patterns: Sequence[Pattern], size: int) -> Blocks:
    """Matrices in blocks of ``size`` outputs where these share what they read, else output by output.

    >>> full = Pattern(np.array([0, 3, 6]), np.array([0, 1, 2, 0, 1, 2]), np.arange(6), 3)
    >>> made = blocks([full], 2)
    >>> made.tall, made.columns, made.entries
    (array([2], dtype=int32), array([0, 1, 2], dtype=int32), array([1, 4, 2, 5, 3, 6]))
    """
    ptr, columns, entries, begins, tall = [np.zeros(1, int)], [], [], [], list[int]()
    before = outputs = 0
    for pattern in patterns:
        ends, read, places = _shared(pattern, size)
        once = np.bincount(places, minlength=1).max() <= 1
        tall.append(size if once and len(read) * WORTH <= len(pattern.columns) else 1)
        if tall[-1] == 1:
            ends, read, places = pattern.ptr[1:], pattern.columns, np.arange(len(pattern.columns))
        entry = np.zeros(len(read) * tall[-1], np.int64)
        entry[places] = before + 1 + np.arange(len(pattern.columns))
        begin = np.zeros(len(ends) * tall[-1], np.int64)
        begin[: pattern.height] = outputs + 1 + np.arange(pattern.height)
        ptr.append(ends + ptr[-1][-1])
        columns.append(read)
        entries.append(entry)
        begins.append(begin)
        before, outputs = before + len(pattern.columns), outputs + pattern.height
    starts = [np.cumsum([0, *map(len, parts)]) for parts in (ptr[1:], begins, entries)]
    whole = [np.array([p.height for p in patterns]), np.array(tall), *starts, np.concatenate(ptr), np.concatenate(columns)]
    return Blocks._make([*(array.astype(np.int32) for array in whole), np.concatenate(entries), np.concatenate(begins)])


def _shared(pattern: Pattern, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each block of outputs, where the columns that it reads end, and these; and for each entry its number's place.

    Where an output reads a column twice, as where images were tiled, two entries have the same place.
    """
    width = max(1, pattern.width)
    read, which = np.unique(pattern.rows // size * width + pattern.columns, return_inverse=True)
    ends = np.searchsorted(read // width, np.arange(-(-pattern.height // size)), side="right")
    return ends, read % width, which.reshape(-1) * size + pattern.rows % size
