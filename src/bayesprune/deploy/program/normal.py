"""One form for products with fixed matrices: rows first, the matrix second, whatever order the network was written in."""

from collections.abc import Iterable
from dataclasses import replace

from bayesprune.deploy.program.ops import ELEMENTWISE, Op, OpProgram, alive


def normal(program: OpProgram, fixed: Iterable[int]) -> OpProgram:
    """The same function; products of a matrix and rows, W x, are x Wᵀ, and transpositions that undo each other are gone.

    ``fixed``: arrays that do not depend on the rows, besides constants.
    """
    writer = _NormalWriter(program, {*fixed, *program.constants})
    for op in program.ops:
        writer.op(op)
    output = writer.name(program.output)
    return replace(program, ops=alive(writer.ops, output)[0], sizes=writer.sizes, output=output)


class _NormalWriter:
    def __init__(self, program: OpProgram, fixed: set[int]) -> None:
        self.fixed, self.sizes = fixed, dict(program.sizes)
        self.ops: list[Op] = []
        self.same: dict[int, int] = {}  # arrays that are another one
        self.turned: dict[int, tuple[int, list[int]]] = {}  # array: what it is a transposition of, and its order
        self.count = max([*program.sizes, *program.constants])

    def name(self, number: int) -> int:
        return self.same.get(number, number)

    def op(self, op: Op) -> None:
        op = op._replace(inputs=tuple(map(self.name, op.inputs)))
        if self.fixed.issuperset(op.inputs):
            self.fixed.update(op.outputs)
            self.ops.append(op)
        elif op.name == "transpose":
            source, order = self.turned.get(op.inputs[0], (op.inputs[0], list(range(len(op.attributes["order"])))))
            self.turn(source, [order[axis] for axis in op.attributes["order"]], op.outputs[0])
        elif not (self.product(op) or self.elementwise(op)):
            self.ops.append(op)

    def turn(self, source: int, order: list[int], output: int | None = None) -> int:
        """A transposition of ``source``, as the array ``output``; itself where nothing changes."""
        if order == sorted(order):
            if output is not None:
                self.same[output] = source
            return source
        number = self.new([self.sizes[source][axis] for axis in order]) if output is None else output
        self.ops.append(Op("transpose", (source,), (number,), {"order": order}))
        if source in self.fixed:
            self.fixed.add(number)
        else:
            self.turned[number] = (source, order)
        return number

    def new(self, sizes: Iterable[int]) -> int:
        self.count += 1
        self.sizes[self.count] = tuple(sizes)
        return self.count

    def product(self, op: Op) -> bool:
        """A product of rows with one matrix, as x W over the last axis of x and the first of W."""
        if op.name != "dot" or op.attributes["batch"][0] or len(op.attributes["contract"][0]) != 1:
            return False
        side = next((side for side in (1, 0) if op.inputs[side] in self.fixed and len(self.sizes[op.inputs[side]]) == 2), None)
        if side is None:
            return False
        (over,), (along,) = op.attributes["contract"][1 - side], op.attributes["contract"][side]
        rows, matrix = op.inputs[1 - side], op.inputs[side]
        ndim = len(self.sizes[rows])
        source, order = self.turned.get(rows, (rows, list(range(ndim))))
        order = [axis for place, axis in enumerate(order) if place != over] + [order[over]]
        first = order[:-1] == sorted(order[:-1])  # else rows are no longer first; they are put in order afterwards
        back = sorted(range(ndim - 1), key=order.__getitem__)
        if not first:
            order = [order[place] for place in back] + order[-1:]
        rows = self.turn(source, order)
        matrix = matrix if along == 0 else self.turn(matrix, [1, 0])
        made = self.new([*(self.sizes[rows][:-1]), self.sizes[matrix][1]])
        self.ops.append(Op("dot", (rows, matrix), (made,), {"contract": [[ndim - 1], [0]], "batch": [[], []]}))
        again = [back.index(place) for place in range(ndim - 1)]
        self.turn(made, [*again, ndim - 1] if side == 1 else [ndim - 1, *again], op.outputs[0])
        return True

    def elementwise(self, op: Op) -> bool:
        """Number by number on transposed arrays: before the transposition in place of after it."""
        if op.name not in ELEMENTWISE:
            return False
        orders = [self.turned[i][1] for i in op.inputs if i in self.turned]
        plain = [i for i in op.inputs if i not in self.turned]
        ndim = len(self.sizes[op.outputs[0]])
        if not orders or any(order != orders[0] for order in orders) or len(orders[0]) != ndim:
            return False
        if any(i not in self.fixed or len(self.sizes[i]) not in (0, ndim) for i in plain):
            return False
        back = [orders[0].index(axis) for axis in range(ndim)]
        before = [self.turned[i][0] if i in self.turned else self.turn(i, back) if self.sizes[i] else i for i in op.inputs]
        made = self.new([self.sizes[op.outputs[0]][axis] for axis in back])
        self.ops.append(op._replace(inputs=tuple(before), outputs=(made,)))
        self.turn(made, orders[0], op.outputs[0])
        return True
