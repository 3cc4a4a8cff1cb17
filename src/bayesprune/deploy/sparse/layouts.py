"""Sparse matrices as compiled kernels read them: in blocks of outputs, or as runs, and the order of the numbers between them.

Outputs side by side that read the same numbers read them once. A run is entries of one value along a diagonal, as a convolution
has along each line of an image.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayesprune.deploy.program.linear import Pattern
from bayesprune.deploy.sparse.fusing import Segment, StoredPlace

# A number read for a whole block takes as long as this many of one output: there are more products to be made with it.
WORTH = 1.8
LONG = 4  # entries of a run on average, from which runs are quicker than rows
STRIDES = (1, 2, 3)


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


class Runs(NamedTuple):
    """Of several matrices, run k adds ``values[k] * x[column + stride * i]`` to output ``row + i`` for i below its length.

    ``places``: (runs, 3), row, column and length; those of matrix m are ``ptr[m]`` to ``ptr[m + 1]``, none where its runs are
    short; ``strides``: of each matrix.
    """

    ptr: np.ndarray
    places: np.ndarray
    values: np.ndarray
    strides: np.ndarray


def runs(patterns: Sequence[Pattern], numbers: Sequence[np.ndarray], gaps: Sequence[np.ndarray]) -> Runs:
    """The runs of matrices, where they are long; ``numbers``: of their entries; ``gaps``: outputs that may hold anything.

    >>> shifted = Pattern(np.array([0, 1, 2, 2, 3, 4]), np.array([2, 3, 5, 6]), np.zeros(4, int), 8)
    >>> runs([shifted], [np.full(4, 0.5)], [np.arange(5) == 2]).places.tolist()
    [[0, 2, 5]]
    """
    places, values, strides = [np.zeros((0, 3), int)], [np.zeros(0)], list[int]()
    for pattern, entries, gap in zip(patterns, numbers, gaps, strict=True):
        found = [_runs(pattern, entries, gap, stride) for stride in STRIDES]
        best = min(range(len(STRIDES)), key=lambda i: len(found[i][1]))
        long = 0 < len(found[best][1]) * LONG <= len(entries)
        places.append(found[best][0] if long else places[0])
        values.append(found[best][1] if long else values[0])
        strides.append(STRIDES[best])
    ptr = np.cumsum([len(part) for part in values])
    joined = np.concatenate(places).astype(np.int32), np.concatenate(values).astype(np.float32)
    return Runs(ptr.astype(np.int32), *joined, np.array(strides, np.int32))


def _runs(pattern: Pattern, entries: np.ndarray, gap: np.ndarray, stride: int) -> tuple[np.ndarray, np.ndarray]:
    diagonal = pattern.columns - stride * pattern.rows
    order = np.lexsort((pattern.rows, diagonal, pattern.places))
    row, column, value, diagonal = (array[order] for array in (pattern.rows, pattern.columns, entries, diagonal))
    step = np.diff(row) - np.diff(np.cumsum(gap)[row]) if stride == 1 else np.diff(row)
    first = np.ones(len(order), bool)
    first[1:] = (step != 1) | (np.diff(diagonal) != 0) | (np.diff(value) != 0)
    begin = np.flatnonzero(first)
    last = np.append(begin, len(order))[1:] - 1
    return np.stack([row[begin], column[begin], row[last] - row[begin] + 1], 1), value[begin]


def in_lines(segments: Sequence[Segment], gaps: bool) -> tuple[list[Segment], np.ndarray, list[np.ndarray]]:
    """The same segments with the numbers between them in an order of our own: channels side by side, as `blocks` needs them.

    ``gaps``: images channel by channel instead, so that their lines make runs, with room after each line of a convolution's
    result up to the length of the lines that it reads, so that all its lines make one run; what is there is of no use.
    With them, the numbers of a row that are read, in order; and for each segment where each number of its result is.
    """
    first = segments[0].matrix
    inputs, place = _inputs(segments[0], np.unique(first.columns)), np.zeros(first.width, np.int64)
    place[inputs] = np.arange(len(inputs))
    found, places, width = list[Segment](), list[np.ndarray](), len(inputs)
    for segment in segments:
        pattern = segment.matrix._replace(columns=place[segment.matrix.columns], width=width)
        place = _places(segment, pattern, gaps)
        width = int(place.max()) + 1
        order = np.argsort(place)
        counts = np.zeros(width, np.int64)
        counts[place] = np.diff(pattern.ptr)
        ptr = np.concatenate([[0], np.cumsum(counts)])
        entries = np.arange(ptr[-1]) + np.repeat(pattern.ptr[:-1][order] - ptr[place[order]], np.diff(pattern.ptr)[order])
        columns = pattern.columns[entries].astype(np.int32)
        scale, shift = (None if v is None else _spread(v, place, width, 0) for v in (segment.scale, segment.shift))
        bias = segment.bias and StoredPlace(segment.bias.number, _spread(segment.bias.where, place, width, -1))
        moved = Pattern(ptr.astype(np.int32), columns, pattern.places[entries], pattern.width)
        found.append(replace(segment, pattern=moved, scale=scale, shift=shift, bias=bias))
        places.append(place)
    return found, inputs.astype(np.int32), places


def _spread(values: np.ndarray, place: np.ndarray, width: int, empty: int) -> np.ndarray:
    found = np.full(width, empty, values.dtype)
    found[place] = values
    return found


def _places(segment: Segment, pattern: Pattern, gaps: bool) -> np.ndarray:
    """Where each number of the result is to be: channels last; with ``gaps`` first, then the lines of the image."""
    op, axes, shape = segment.op, range(len(segment.shape)), segment.shape
    if op.name == "conv":
        channels = [op.attributes["result"][1] - 1]
    else:
        channels = [axis for axis in axes if op.name == "window_sum" and op.attributes["window"][axis + 1] == 1]
    image = [axis for axis in axes if axis not in channels]
    order = [*channels, *image] if gaps else [*image, *channels]
    turned = [shape[axis] for axis in order]
    length = _line(pattern, shape, order) if gaps and op.name == "conv" and len(shape) == 3 and len(pattern.columns) else 0
    if length:
        stands = np.arange(turned[0] * turned[1] * length).reshape(*turned[:2], length)[..., : turned[2]]
    else:
        stands = np.arange(math.prod(turned)).reshape(turned)
    return stands.transpose(np.argsort(order)).reshape(-1)


def _line(pattern: Pattern, shape: tuple[int, ...], order: list[int]) -> int:
    """How far apart the lines are that a convolution reads; 0: not even, or too far to leave as much room."""
    of_one = np.flatnonzero(pattern.places == pattern.places[0])
    place = np.unravel_index(pattern.rows[of_one], shape)
    line, within, column = place[order[1]], place[order[2]], pattern.columns[of_one]
    begins = np.flatnonzero(within == within.min())
    begins = begins[np.argsort(line[begins])]
    apart = np.unique(np.diff(column[begins]) // np.maximum(1, np.diff(line[begins])))
    width = shape[order[2]]
    return int(apart[0]) if len(apart) == 1 and width <= apart[0] <= 2 * width else 0


def _inputs(segment: Segment, used: np.ndarray) -> np.ndarray:
    """The numbers of a row that are read; by a convolution channel by channel where channels are last."""
    axes, weights = segment.op.attributes, segment.weights
    if segment.op.name != "conv" or axes["data"][1] != len(axes["data"]) - 1:
        return used
    shape = weights.where.shape if isinstance(weights, StoredPlace) else weights.shape
    channels = shape[axes["weights"][1]] * axes["groups"]
    return used[np.lexsort((used // channels, used % channels))]
