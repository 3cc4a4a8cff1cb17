"""Operations that are linear in a row, as sparse matrices: from a row's numbers in one line to those of the result."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import Op

MOVES = frozenset(["reshape", "transpose", "take", "slice", "reverse", "broadcast", "pad"])
LINEAR = frozenset(["dot", "conv", "window_sum", "reduce_sum"])
LARGEST = 1 << 20  # entries of a matrix; a convolution over larger images is quicker as it is

Shape = tuple[int, ...]


class Pattern(NamedTuple):
    """A sparse matrix by rows without its numbers: entry j of row i, for j from ``ptr[i]`` to ``ptr[i + 1]``, is in column
    ``columns[j]`` and is the number at ``places[j]`` of the flattened weights."""

    ptr: np.ndarray
    columns: np.ndarray
    places: np.ndarray
    width: int

    @property
    def height(self) -> int:
        return len(self.ptr) - 1

    @property
    def rows(self) -> np.ndarray:
        """The row of each entry."""
        return np.repeat(np.arange(self.height), np.diff(self.ptr))


def terms(op: Op, shape: Shape) -> int:
    """Of how many products or numbers an entry of a sum, or of any reduction, is made; ``shape``: of the last operand."""
    of = op.attributes
    if op.name == "conv":
        return math.prod(shape) // shape[of["weights"][0]]
    if "window" in of:
        return math.prod(of["window"])
    return math.prod(shape[axis] for axis in (of["contract"][1] if op.name == "dot" else of["axes"]))


def moves(op: Op, sizes: Mapping[int, Shape], constants: Mapping[int, np.ndarray]) -> bool:
    """Whether the operation moves numbers within each row, and does nothing else."""
    before, after = sizes[op.inputs[0]], sizes[op.outputs[0]]
    if op.name not in MOVES or not (by_row(before) and by_row(after)):
        return False
    attributes = op.attributes
    match op.name:
        case "transpose":
            return bool(attributes["order"][0] == 0)
        case "take":
            return bool(attributes["axis"] != 0)
        case "slice":
            return list(attributes["ranges"][0]) == [0, -1, 1]
        case "reverse":
            return 0 not in attributes["axes"]
        case "broadcast":
            return list(attributes["axes"][:1]) == [0]
        case "pad":
            filled = constants.get(op.inputs[1])
            return not any(attributes["sides"][0]) and filled is not None and not np.any(filled)
    return True


def by_row(sizes: Shape) -> bool:
    """Whether an array has one entry along its first axis for each row, and no other axis grows with them."""
    return sizes[:1] == (-1,) and all(n > 0 for n in sizes[1:])


def moved(path: list[Op], where: np.ndarray) -> np.ndarray:
    """Where the numbers come from after moves, -1 for zeros. ``where``: before them."""
    for op in path:
        filler = [np.asarray(-1)] * (op.name == "pad")
        where = reader.step(op.name, op.attributes, 1, where, *filler)
    return where


def pattern(op: Op, shape: Shape, result: Shape, alive: np.ndarray, where: np.ndarray, width: int) -> Pattern | None:
    """The matrix of a product, a convolution or a sum for one row; None: it has more than `LARGEST` entries.

    ``shape``, ``result``: of operand and result without the axis of rows; ``alive``: which weights are other than zero (one,
    of a sum); ``where``: for each number of the operand its place among ``width``, -1: it is zero.
    """
    if op.name == "dot":
        inputs, rows = np.nonzero(alive)
        columns, places = where.reshape(-1)[inputs], np.flatnonzero(alive)
    else:
        if math.prod(result) * np.count_nonzero(alive) > LARGEST * _shared(op, result):
            return None
        where = where.reshape(1, *shape)
        found = _convolution(op, where, (1, *result), alive) if op.name == "conv" else _sums(op, where, result)
        rows, columns, places = found
    inside = columns >= 0
    rows, columns, places = rows[inside], columns[inside], places[inside]
    if len(rows) > LARGEST:
        return None
    order = np.argsort(rows, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=math.prod(result)))])
    return Pattern(ptr.astype(np.int32), columns[order].astype(np.int32), places[order].astype(np.int32), width)


def _shared(op: Op, result: Shape) -> int:
    """How many of the result's numbers each weight has no part in."""
    return result[op.attributes["result"][1] - 1] if op.name == "conv" else 1


def _convolution(op: Op, where: np.ndarray, result: Shape, alive: np.ndarray) -> tuple[np.ndarray, ...]:
    attributes = op.attributes
    data, weights, groups = attributes["data"], attributes["weights"], attributes["groups"]
    where = np.pad(where.transpose(data), [(0, 0), (0, 0), *attributes["sides"]], constant_values=-1)[0]
    alive_as, places = alive.transpose(weights), np.arange(alive.size).reshape(alive.shape).transpose(weights)
    space = tuple(range(1, where.ndim))
    windows = reader.windows_of(where, space, alive_as.shape[2:], attributes["strides"], attributes["dilation"])
    windows = np.moveaxis(windows, space, range(-len(space), 0))  # (channels, taps, positions)
    outputs, channels, *taps = np.nonzero(alive_as)
    channels = channels + outputs // (len(alive_as) // groups) * alive_as.shape[1]
    rows = np.arange(math.prod(result)).reshape(result).transpose(attributes["result"])[0][outputs]
    columns = windows[(channels, *taps)]
    return rows.reshape(-1), columns.reshape(-1), np.repeat(places[alive_as], math.prod(rows.shape[1:]))


def windows(
    a: np.ndarray, empty: int, window: Sequence[int], strides: Sequence[int], sides: Sequence[Sequence[int]]
) -> np.ndarray:
    """The numbers of each window in one line, along a last axis of their own.

    >>> windows(np.arange(4).reshape(1, 4), -1, [1, 2], [1, 2], [[0, 0], [1, 1]]).tolist()
    [[[-1, 0], [1, 2], [3, -1]]]
    """
    found = reader.windows_of(np.pad(a, sides, constant_values=empty), range(a.ndim), window, strides, [1] * a.ndim)
    return found.reshape(*found.shape[: a.ndim], math.prod(window))


def _sums(op: Op, where: np.ndarray, result: Shape) -> tuple[np.ndarray, ...]:
    if op.name == "window_sum":
        summed = windows(where, -1, **op.attributes)
    else:
        summed = np.moveaxis(where, op.attributes["axes"], range(-len(op.attributes["axes"]), 0))
    columns = summed.reshape(math.prod(result), -1)
    rows = np.repeat(np.arange(len(columns)), columns.shape[1])
    return rows, columns.reshape(-1), np.zeros(rows.size, int)
