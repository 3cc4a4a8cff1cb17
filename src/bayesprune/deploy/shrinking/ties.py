"""Slices of arrays that must leave together."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import ELEMENTWISE, Op, OpProgram
from bayesprune.deploy.shrinking.depend import Indicators, KnownArrays
from bayesprune.structure.graph import joined
from bayesprune.structure.ops.movement import regrouped


class Ties:
    """Every slice (array, axis, index) is a node; ties make components, and a component leaves as a whole or not at all.

    ``of_rows``: the arrays that depend on the rows.
    """

    def __init__(self, program: OpProgram, of_rows: Collection[int]) -> None:
        self.program, self.of_rows = program, of_rows
        self.first: dict[tuple[int, int], int] = {}
        self.count = 0
        for number, shape in program.shapes.items():
            for axis, size in enumerate(shape):
                self.first[number, axis] = self.count
                self.count += size
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []
        self.pinned = np.zeros(self.count, bool)

    def slices(self, number: int, axis: int) -> np.ndarray:
        return self.first[number, axis] + np.arange(self.program.shapes[number][axis])

    def tie(self, one: np.ndarray, other: np.ndarray) -> None:
        assert np.size(one) == np.size(other)
        self.pairs.append((np.ravel(one), np.ravel(other)))

    def tie_axes(self, number: int, axes: Iterable[int], other: int, others: Iterable[int]) -> None:
        for axis, other_axis in zip(axes, others, strict=True):
            self.tie(self.slices(number, axis), self.slices(other, other_axis))

    def pin(self, number: int, axes: Iterable[int] | None = None) -> None:
        for axis in range(len(self.program.shapes[number])) if axes is None else axes:
            self.pinned[self.slices(number, axis)] = True

    def components(self) -> np.ndarray:
        """The component of each node."""
        one, other = (np.concatenate([np.zeros(0, int), *column]) for column in zip(*self.pairs, strict=True))
        return joined(one, other, self.count)


def keeps(program: OpProgram, known: KnownArrays, needed: Indicators) -> dict[int, list[np.ndarray]]:
    """By array and axis: which slices stay. An axis is never left without one."""
    ties = Ties(program, known.of_rows)
    for op in program.ops:
        tie(op, ties)
    ties.pin(program.rows)
    ties.pin(program.output)
    if not ties.pairs:
        return {number: [np.ones(size, bool) for size in shape] for number, shape in program.shapes.items()}
    stays = ties.pinned
    for number, axis in ties.first:
        others = tuple(a for a in range(needed[number].ndim) if a != axis)
        stays[ties.slices(number, axis)] |= needed[number].any(axis=others)
    component = ties.components()
    alive = np.zeros(component.max() + 1, bool)
    alive[component[stays]] = True
    for place in ties.first:
        if not alive[component[ties.slices(*place)]].any():
            alive[component[ties.first[place]]] = True
    return {
        number: [alive[component[ties.slices(number, axis)]] for axis in range(len(shape))]
        for number, shape in program.shapes.items()
    }


def tie(op: Op, ties: Ties) -> None:
    """The ties that one operation makes between the slices of its operands and of its result; whole, where none is known."""
    if op.name in RULES:
        RULES[op.name](op, ties)
        return
    for number in (*op.inputs, *op.outputs):
        ties.pin(number)


def _dot(op: Op, ties: Ties) -> None:
    (out,), batch, contract = op.outputs, op.attributes["batch"], op.attributes["contract"]
    first = len(batch[0])  # of the axes of the result that are left of a factor
    for number, shared, summed in zip(op.inputs, batch, contract, strict=True):
        free = [axis for axis in range(len(ties.program.shapes[number])) if axis not in (*shared, *summed)]
        ties.tie_axes(number, [*shared, *free], out, [*range(len(shared)), *range(first, first + len(free))])
        first += len(free)
    if all(number in ties.of_rows for number in op.inputs):  # what they are summed over leaves both together
        ties.tie_axes(op.inputs[0], contract[0], op.inputs[1], contract[1])


def _conv(op: Op, ties: Ties) -> None:
    (a, kernel), (out,), groups = op.inputs, op.outputs, op.attributes["groups"]
    data, weights, result = (op.attributes[key] for key in ("data", "weights", "result"))
    ties.tie_axes(a, data[:1], out, result[:1])
    ties.tie_axes(kernel, weights[:1], out, result[1:2])
    ties.pin(a, data[2:])
    ties.pin(kernel, weights[2:])
    ties.pin(out, result[2:])
    if kernel in ties.of_rows:  # a kernel that the rows have made
        ties.pin(a, data[1:2])
        ties.pin(kernel, weights[1:2])
    if groups > 1:  # a group leaves as a whole
        ties.pin(kernel, weights[1:2])
        inputs, outputs = (ties.slices(*place).reshape(groups, -1) for place in ((a, data[1]), (out, result[1])))
        for members in (inputs, outputs):
            ties.tie(np.broadcast_to(inputs[:, :1], members.shape), members)


def _lookup(op: Op, ties: Ties) -> None:
    """All rows of the table stay: which of them are asked for, the data say."""
    (table, index), (out,), shapes = op.inputs, op.outputs, ties.program.shapes
    leading, rest = len(shapes[index]) - 1, len(shapes[table]) - 1
    ties.pin(table, [0])
    ties.pin(index, [leading])
    ties.tie_axes(index, range(leading), out, range(leading))
    ties.tie_axes(table, range(1, 1 + rest), out, range(leading, leading + rest))


def _regroup(ties: Ties, a: int, of_a: list[int], out: int, of_out: list[int]) -> None:
    """Many axes that become one, or one that becomes many: its entries go with one of the many.

    Merged are an image's pixels and channels: the last, its channels, may leave. Split is one into heads (or groups) and what
    is in them: the first may leave.
    """
    if len(of_a) == len(of_out) == 1:
        ties.tie_axes(a, of_a, out, of_out)
        return
    if len(of_a) > 1 and len(of_out) > 1:
        ties.pin(a, of_a)
        ties.pin(out, of_out)
        return
    merged = len(of_out) == 1
    number, axes, one, axis = (a, of_a, out, of_out[0]) if merged else (out, of_out, a, of_a[0])
    sizes = [ties.program.shapes[number][i] for i in axes]
    moving = len(axes) - 1 if merged else 0
    index = np.indices(sizes)[moving].ravel()
    ties.tie(ties.slices(number, axes[moving])[index], ties.slices(one, axis))
    ties.pin(number, [i for position, i in enumerate(axes) if position != moving])


def _reshape(op: Op, ties: Ties) -> None:
    (a,), (out,), shapes = op.inputs, op.outputs, ties.program.shapes
    for before, after in regrouped(shapes[a], shapes[out]):
        _regroup(ties, a, before, out, after)


def _elementwise(op: Op, ties: Ties) -> None:
    (out,), shapes = op.outputs, ties.program.shapes
    for number in op.inputs:
        whole = [axis for axis, size in enumerate(shapes[number]) if size == shapes[out][axis]]  # else one number for all
        ties.tie_axes(number, whole, out, whole)


def _reduce(op: Op, ties: Ties) -> None:
    (a,), (out, *_), axes = op.inputs, op.outputs, op.attributes["axes"]
    rest = [axis for axis in range(len(ties.program.shapes[a])) if axis not in axes]
    ties.tie_axes(a, rest, out, range(len(rest)))
    if op.name != "reduce_sum":
        ties.pin(a, axes)


def _window(op: Op, ties: Ties) -> None:
    (a, *_), (out, *_), of = op.inputs, op.outputs, op.attributes
    for axis, triple in enumerate(zip(of["window"], of["strides"], of["sides"], strict=True)):
        if triple == (1, 1, [0, 0]):
            ties.tie_axes(a, [axis], out, [axis])
        else:
            ties.pin(a, [axis])
            ties.pin(out, [axis])


def _transpose(op: Op, ties: Ties) -> None:
    order = op.attributes["order"]
    ties.tie_axes(op.inputs[0], order, op.outputs[0], range(len(order)))


def _broadcast(op: Op, ties: Ties) -> None:
    (a,), (out,), shapes = op.inputs, op.outputs, ties.program.shapes
    for axis, of_out in enumerate(op.attributes["axes"]):
        if shapes[a][axis] == shapes[out][of_out]:
            ties.tie_axes(a, [axis], out, [of_out])


def _concatenate(op: Op, ties: Ties) -> None:
    (out,), along, start = op.outputs, op.attributes["axis"], 0
    for number in op.inputs:
        shape = ties.program.shapes[number]
        for axis, size in enumerate(shape):
            place = slice(start, start + size) if axis == along else slice(None)
            ties.tie(ties.slices(number, axis), ties.slices(out, axis)[place])
        start += shape[along]


def _part(kept: Callable[[Mapping[str, Any], int], Any]) -> Callable[[Op, Ties], None]:
    """Of an operation that takes some slices along each axis; ``kept``: (attributes, axis) -> which, in their order."""

    def tie(op: Op, ties: Ties) -> None:
        (a,), (out,) = op.inputs, op.outputs
        for axis in range(len(ties.program.shapes[a])):
            ties.tie(ties.slices(a, axis)[kept(op.attributes, axis)], ties.slices(out, axis))

    return tie


def _range(low: int, high: int, by: int) -> slice:
    return slice(low, None if high < 0 else high, by)


def _pad(op: Op, ties: Ties) -> None:
    (a, *_), (out,), shapes = op.inputs, op.outputs, ties.program.shapes
    for axis, (low, _) in enumerate(op.attributes["sides"]):
        ties.tie(ties.slices(a, axis), ties.slices(out, axis)[low : low + shapes[a][axis]])


RULES: dict[str, Callable[[Op, Ties], None]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(reader.WINDOW, _window),
    **dict.fromkeys(reader.REDUCE, _reduce),
    "dot": _dot,
    "conv": _conv,
    "lookup": _lookup,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "concatenate": _concatenate,
    "slice": _part(lambda of, axis: _range(*of["ranges"][axis])),
    "take": _part(lambda of, axis: of["index"] if axis == of["axis"] else slice(None)),
    "reverse": _part(lambda of, axis: slice(None, None, -1 if axis in of["axes"] else 1)),
    "pad": _pad,
}
