"""The smaller program: slices that nothing needs are gone, constants are folded."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune.deploy.program.ops import ELEMENTWISE, KEPT_WHOLE, OPAQUE, Op, OpProgram, alive
from bayesprune.deploy.program.run import evaluate
from bayesprune.deploy.shrinking.plan import ShrinkPlan, constant_part, grid, reads_of, slim, summed
from bayesprune.structure.graph import compress

MIXED = (
    "a constant of the network differs from place to place of an axis that holds rows and places together: keep the rows in an "
    "axis of their own."
)
Evaluate = Callable[[Op, list[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class Small:
    """The smaller program, and of each random weight array: ``places``, the kept indices by axis, and ``alive``, of those
    entries which the outputs depend on. ``folds``: arrays that are sums with constants that were folded."""

    program: OpProgram
    places: Mapping[str, list[np.ndarray]]
    alive: Mapping[str, np.ndarray]
    folds: frozenset[int]

    def inputs(self, values: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Its rows and weights, by number, of the arrays of the network."""
        found = {self.program.rows: values[self.program.rows]}
        for site, number in self.program.weights.items():
            found[number] = np.where(self.alive[site], values[number][np.ix_(*self.places[site])], 0)
        return found


def build(plan: ShrinkPlan, values: Mapping[int, np.ndarray], evaluate: Evaluate = evaluate) -> Small:
    """The smaller program. ``values``: of the known entries, by array; ``evaluate``: the arithmetic of what is folded."""
    return _Builder(plan, values, evaluate).small()


class _Builder:
    def __init__(self, plan: ShrinkPlan, values: Mapping[int, np.ndarray], evaluate: Evaluate) -> None:
        self.plan, self.values, self.evaluate = plan, values, evaluate
        self.program, self.known, self.keep = plan.program, plan.known, plan.keep
        self.ops: list[Op] = []
        self.sizes: dict[int, tuple[int, ...]] = {}
        self.constants: dict[int, np.ndarray] = {}
        self.count = max(self.program.sizes)
        self.same: dict[Any, int] = {}  # constants by what is in them: one that is read in every turn of a loop is kept once
        self.folds: set[int] = set()
        self.emitted = {self.program.rows}  # arrays that the smaller program has, beside constants

    def small(self) -> Small:
        weights = {}
        self.arrive(self.program.rows)
        for site, number in self.program.weights.items():
            if self.known.unknown[number].any():
                weights[site] = number
                self.arrive(number)
        for op in self.program.ops:
            self.op(op)
        output = self.program.output
        if output not in self.emitted:  # nothing that is alive reaches the outputs: they are the same for every row
            output = self.broadcast(self.constant(self.values[output]), self.program.sizes[output])
        ops, used = alive(self.ops, output)
        of_one_row = self.program.sizes[self.program.rows][0] > 0
        program = OpProgram(
            ops=ops,
            sizes={i: sizes for i, sizes in self.sizes.items() if i in used | {self.program.rows, *weights.values()}},
            constants={i: value for i, value in self.constants.items() if i in used},
            weights={site: number for site, number in weights.items() if number in used},
            rows=self.program.rows,
            output=output,
            one_by_one=self.program.one_by_one and (of_one_row or any(op.name == OPAQUE for op in ops)),
        )
        places = {site: [np.flatnonzero(k) for k in self.keep[number]] for site, number in program.weights.items()}
        entries = {
            site: slim(np.asarray(self.known.unknown[number] & self.plan.needed[number]), self.keep[number])
            for site, number in program.weights.items()
        }
        return Small(program, places, entries, frozenset(self.folds))

    # ---- arrays
    def new(self, sizes: Sequence[int]) -> int:
        self.count += 1
        self.sizes[self.count] = tuple(sizes)
        return self.count

    def arrive(self, number: int) -> int:
        """An array of the network, in its smaller size."""
        self.sizes[number] = self.smaller(number)
        self.emitted.add(number)
        return number

    def smaller(self, number: int) -> tuple[int, ...]:
        """Its sizes there, below zero where they grow with the rows."""
        kept = [int(k.sum()) for k in self.keep[number]]
        return tuple(-n if size < 0 else n for n, size in zip(kept, self.program.sizes[number], strict=True))

    def constant(self, value: np.ndarray) -> int:
        value = np.asarray(value)
        content = (value.shape, value.dtype.str, hashlib.sha256(value.tobytes()).digest())
        if content not in self.same:
            self.same[content] = self.new(value.shape)
            self.constants[self.same[content]] = value
        return self.same[content]

    def operand(self, number: int) -> int:
        """An operand in its smaller size: what is known everywhere is a constant."""
        return number if number in self.emitted else self.constant(compress(slim(self.values[number], self.keep[number])))

    # ---- operations
    def op(self, op: Op) -> None:
        varies = any(self.known.unknown[number].any() for number in op.outputs)
        if not varies or not self.emitted & set(op.inputs):  # what reads only what no output needs is no more needed itself
            return
        if op.name in KEPT_WHOLE:
            whole = [n if n in self.emitted else self.constant(self.values[n]) for n in op.inputs]
            self.ops.append(op._replace(inputs=tuple(whole), outputs=tuple(map(self.arrive, op.outputs))))
        elif op.name in ("dot", "conv"):
            self.product(op)
        elif op.name == "reduce_sum":
            self.total(op)
        elif op.name == "slice":
            self.part(op)
        else:
            # One entry may stand for many only where another operand has the whole shape.
            sizes, shaped = self.program.sizes, op.name in ELEMENTWISE
            shaped = shaped and any(n in self.emitted and sizes[n] == sizes[op.outputs[0]] for n in op.inputs)
            inputs = [self.operand(n) if shaped else self.whole(n) for n in op.inputs]
            self.write(op._replace(attributes=self.attributes(op)), inputs)

    def whole(self, number: int) -> int:
        """An operand whose shape matters: a constant with an axis of rows is the same for all of them."""
        if number in self.emitted:
            return number
        return self.for_rows(number, slim(self.values[number], self.keep[number]))

    def for_rows(self, number: int, value: np.ndarray) -> int:
        """``value`` of array ``number`` as a constant, repeated along its axis of rows."""
        constant, sizes = self.constant(value), self.program.sizes[number]
        rows = [axis for axis, size in enumerate(sizes) if size < 0]
        if not rows:
            return constant
        if any(value.shape[axis] > 1 for axis in rows):
            raise ValueError(MIXED)
        return self.broadcast(constant, [-1 if axis in rows else size for axis, size in enumerate(value.shape)])

    def broadcast(self, number: int, sizes: Sequence[int]) -> int:
        """An array as another one of as many axes, of these sizes."""
        result = self.new(sizes)
        self.ops.append(Op("broadcast", (number,), (result,), {"sizes": list(sizes), "axes": list(range(len(sizes)))}))
        return result

    def attributes(self, op: Op) -> Mapping[str, Any]:
        """The attributes at the smaller sizes."""
        out = op.outputs[0]
        if op.name in ("reshape", "broadcast"):
            return {**op.attributes, "sizes": list(self.smaller(out))}
        if op.name == "pad":
            pairs = zip(self.keep[out], op.attributes["sides"], strict=True)
            return {"sides": [[int(k[:low].sum()), int(k[len(k) - high :].sum())] for k, (low, high) in pairs]}
        if op.name == "take":
            axis, index = op.attributes["axis"], np.asarray(op.attributes["index"], int)
            place = np.cumsum(self.keep[op.inputs[0]][axis]) - 1
            return {"axis": axis, "index": place[index[self.keep[out][axis]]].tolist()}
        return op.attributes

    def write(self, op: Op, inputs: list[int], folded: np.ndarray | None = None) -> None:
        """Add an operation, and what is folded into its result."""
        out = op.outputs[0]
        extra = None if folded is None else slim(folded, self.keep[out])
        self.arrive(out)
        if extra is None or not extra.any():
            self.ops.append(op._replace(inputs=tuple(inputs)))
            return
        extra = compress(extra)
        if any(size < 0 and n > 1 for size, n in zip(self.program.sizes[out], extra.shape, strict=True)):
            raise ValueError(MIXED)
        self.folds.add(out)
        partial = self.new(self.sizes[out])
        self.ops.append(op._replace(inputs=tuple(inputs), outputs=(partial,)))
        self.ops.append(Op("add", (partial, self.constant(extra)), (out,), {}))

    def part(self, op: Op) -> None:
        """A slice: what of it is still there, as a slice where it is one, else by its indices."""
        number, ranges = op.inputs[0], []
        current = self.whole(number)
        for axis, (low, high, by) in enumerate(op.attributes["ranges"]):
            kept = self.keep[number][axis]
            cut = slice(low, None if high < 0 else high, by)
            chosen, reach = np.zeros((2, len(kept)), bool)  # slices that are asked for, and that the result has kept
            chosen[cut], reach[cut] = True, self.keep[op.outputs[0]][axis]
            index = np.flatnonzero(chosen[kept & (reach | ~chosen)])
            whole = len(index) == kept.sum()
            high = -1 if high < 0 else int(kept.sum())
            if not whole and (np.diff(index) == 1).all():
                ranges.append([int(index[0]), int(index[-1]) + 1, 1])
            else:
                if not whole:
                    current = self.take(current, axis, index)
                    high = len(index)
                ranges.append([0, high, 1])
        self.write(op._replace(attributes={"ranges": ranges}), [current])

    def take(self, number: int, axis: int, index: np.ndarray) -> int:
        if number in self.constants:
            return self.constant(np.take(self.constants[number], index, axis))
        sizes = list(self.sizes[number])
        sizes[axis] = len(index)
        result = self.new(sizes)
        self.ops.append(Op("take", (number,), (result,), {"index": index.tolist(), "axis": axis}))
        return result

    def total(self, op: Op) -> None:
        """A sum: the constants among what is gone are added."""
        number = op.inputs[0]
        gone = ~grid(self.keep[number]) & ~self.known.unknown[number]
        folded = self.evaluate(op, [np.where(gone, self.values[number], 0)])[0] if gone.any() else None
        self.write(op, [self.whole(number)], folded)

    def product(self, op: Op) -> None:
        """A product: of what it sums over only what is not constant is read."""
        pairs = summed(op)
        reads = reads_of(self.plan, self.emitted, op, pairs)
        if not all(read.any() for read in reads):  # what is left of the result depends on nothing that varies
            return
        inputs = []
        for side, number in enumerate(op.inputs):
            current, stays = number, self.keep[number]
            if number not in self.emitted:
                axes = [pair[side] for pair in pairs]
                stays = [np.ones(len(k), bool) if axis in axes else k for axis, k in enumerate(stays)]
                current = self.for_rows(number, slim(self.values[number], stays))
            for pair, read in zip(pairs, reads, strict=True):
                kept = stays[pair[side]]
                if (read != kept).any():
                    current = self.take(current, pair[side], np.flatnonzero(read[kept]))
            inputs.append(current)
        if op.name == "conv" and (groups := op.attributes["groups"]) > 1:
            kept = self.keep[op.inputs[0]][op.attributes["data"][1]].reshape(groups, -1).any(1)
            self.write(op._replace(attributes={**op.attributes, "groups": int(kept.sum())}), inputs)
            return
        constant = constant_part(self.plan, self.values, op, pairs, reads)
        self.write(op, inputs, self.evaluate(op, constant)[0] if constant else None)
