"""A program in segments, linear operations each with what is done to its result number by number; and what is done in turn."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesprune.deploy import reader
from bayesprune.deploy.program.linear import LINEAR, MOVES, by_row, moved, moves, pattern
from bayesprune.deploy.program.normal import normal
from bayesprune.deploy.program.ops import Op, OpProgram, alive
from bayesprune.deploy.sparse.fusing import Fuser, Segment, StoredPlace

Arrays = Mapping[int, np.ndarray]
OF_MATRICES = ("dense", "blas")  # kernels that read the operand itself: a sparse matrix has taken in the moves before it


def joined(program: OpProgram, head: OpProgram) -> OpProgram:
    """One program of the network and its head."""
    offset = max([*program.sizes, *program.constants, program.rows]) + 1
    name = lambda number: program.output if number == head.rows else number + offset  # noqa: E731
    ops = [op._replace(inputs=tuple(map(name, op.inputs)), outputs=tuple(map(name, op.outputs))) for op in head.ops]
    return replace(
        program,
        ops=(*program.ops, *ops),
        sizes={**{name(n): sizes for n, sizes in head.sizes.items()}, **program.sizes},
        constants={**program.constants, **{name(n): value for n, value in head.constants.items()}},
        output=name(head.output),
    )


def check_data(program: OpProgram) -> None:
    """Refuse operations that only JAX can run."""
    if opaque := program.opaque:
        raise ValueError(f"{', '.join(opaque)} can be run by JAX only: use `Compact.predict`.")


def folded(program: OpProgram, values: Arrays) -> dict[int, np.ndarray]:
    """All arrays that are known before there are rows."""
    known = dict(values)
    for op in program.ops:
        if all(i in known for i in op.inputs) and all(n >= 0 for n in program.sizes[op.outputs[0]]):
            known[op.outputs[0]] = np.asarray(reader.step(op.name, op.attributes, 1, *(known[i] for i in op.inputs)))
    return known


def with_weights(
    program: OpProgram, head: OpProgram, weights: Mapping[str, np.ndarray]
) -> tuple[OpProgram, dict[int, np.ndarray]]:
    """A network with these weights and its head as one program in its normal form, and what is known before there are rows.

    Raises ``ValueError`` for operations that only JAX can run.
    """
    whole = normal(joined(program, head), program.weights.values())
    check_data(whole)
    given = {number: np.asarray(weights[site], np.float32) for site, number in program.weights.items()}
    return whole, folded(whole, {**whole.constants, **given})


def traced(program: OpProgram, random: Mapping[int, tuple[int, ...]]) -> dict[int, StoredPlace]:
    """Arrays that are random ones, their numbers moved at most. ``random``: shapes by number."""
    found = {
        number: StoredPlace(number, np.arange(np.prod(shape, dtype=int)).reshape(shape)) for number, shape in random.items()
    }
    for op in program.ops:
        place = found.get(op.inputs[0])
        zero = op.name != "pad" or not np.any(program.constants.get(op.inputs[1], 1))
        if place and op.name in MOVES and zero and all(n >= 0 for n in program.sizes[op.outputs[0]]):
            found[op.outputs[0]] = StoredPlace(place.number, moved([op], place.where))
    return found


def singles(program: OpProgram, values: Arrays) -> set[int]:
    """The arrays of float32, from a run on a row of zeros. ``values``: of all weights."""
    made = {**program.constants, **values, program.rows: np.zeros(program.shapes[program.rows], np.float32)}
    with np.errstate(all="ignore"):
        reader.run(program.ops, made, 1)
    return {number for number, value in made.items() if value.dtype == np.float32}


class Finder:
    """``known``: arrays by number; ``random``: of `traced`; ``alive``: of each random array, which of its numbers may not be
    zero."""

    def __init__(self, program: OpProgram, known: Arrays, random: Mapping[int, StoredPlace], alive: Arrays) -> None:
        self.program, self.known, self.random, self.alive = program, known, random, alive
        self.singles = singles(program, {**known, **{n: np.zeros(a.shape, np.float32) for n, a in alive.items()}})
        self.makers = {op.outputs[0]: op for op in program.ops}
        self.users: dict[int, list[int]] = {program.output: [-1]}
        for index, op in enumerate(program.ops):
            for number in op.inputs:
                self.users.setdefault(number, []).append(index)

    def segments(self) -> list[Segment]:
        """In the order of the operations."""
        found, taken = list[Segment](), set[int]()
        for index, op in enumerate(self.program.ops):
            start = None if index in taken else self.start(index, op)
            if start is not None:
                found.append(Fuser(self.program, self.known, self.random, self.users, start).segment())
                taken.update(found[-1].taken)
        return found

    def start(self, index: int, op: Op) -> Segment | None:
        """The linear operation alone; None: it is none, or its weights depend on the rows."""
        sizes, operand = self.program.sizes, op.inputs[0]
        if op.name not in LINEAR or operand in self.known or operand in self.random or operand not in self.singles:
            return None
        before, after = sizes[operand], sizes[op.outputs[0]]
        whole, alive = by_row(before) and by_row(after), np.ones(1, bool)
        weights: np.ndarray | StoredPlace | None = np.ones(1, np.float32)
        axes: Any = (op.attributes.get(key, [0])[0] for key in ("data", "result"))
        if op.name in ("dot", "conv"):
            weights, alive = self.weights(op.inputs[1])
            whole = whole and not any(axes)
        elif op.name == "window_sum":
            whole = whole and op.attributes["window"][0] == 1
        else:
            whole = whole and 0 not in op.attributes["axes"]
        if alive is None or weights is None or getattr(weights, "dtype", np.float32) != np.float32:
            return None
        if op.name == "dot":
            if not op.is_matrix_product(sizes) or len(before) < 2:
                return None
            before, after = before[:1] + before[-1:], after[:1] + after[-1:]
        elif not whole:
            return None
        lead = len(sizes[operand]) - 1 if op.name == "dot" else 1
        source, path = self.back(operand) if whole and lead == 1 else (operand, [])
        inputs = sizes[source][1:] if path else before[1:]
        where = moved(path, np.arange(np.prod(inputs, dtype=int)).reshape(1, *inputs))
        matrix = pattern(op, before[1:], after[1:], alive, where, int(np.prod(inputs, dtype=int)))
        return Segment(index, op, source, op.outputs[0], lead, after[1:], matrix, weights)

    def weights(self, number: int) -> tuple[np.ndarray | StoredPlace | None, Any]:
        """An array with which of its numbers may not be zero."""
        if number in self.known:
            return self.known[number], self.known[number] != 0
        place = self.random.get(number)
        if place is None:
            return None, None
        return place, np.where(place.where >= 0, self.alive[place.number].reshape(-1)[place.where], False)

    def back(self, number: int) -> tuple[int, list[Op]]:
        """The array that ``number`` was made from by moves alone, and the moves."""
        path: list[Op] = []
        while (op := self.makers.get(number)) and moves(op, self.program.sizes, self.known):
            path.insert(0, op)
            number = op.inputs[0]
        return number, path


# ---- what an engine does in turn, and which of it goes into one
@dataclass(frozen=True, eq=False)
class Step:
    """``output`` = ``call(rows, *inputs)``, of a segment ``call(*inputs)``. ``index``: of its operation."""

    index: int
    inputs: tuple[int, ...]
    output: int
    call: Callable[..., np.ndarray]
    segment: Segment | None = None
    kernel: str = ""

    @property
    def outputs(self) -> tuple[int]:
        """As an operation has them."""
        return (self.output,)


def never(*_: object) -> np.ndarray:
    """The call of a segment that has no kernel yet."""
    raise AssertionError("a segment is run by its kernel")


def source_of(segment: Segment, kernel: str) -> int:
    """The array that a segment reads by this kernel."""
    return segment.op.inputs[0] if kernel in OF_MATRICES else segment.source


def in_turn(
    program: OpProgram,
    segments: Mapping[int, Segment],
    kernels: Mapping[int, str],
    known: Collection[int],
    call: Callable[[Op], Callable[..., np.ndarray]],
) -> list[Step]:
    """Segments and the operations between them, as far as the output depends on them; ``call``: of an operation."""
    steps, taken = list[Step](), {index for segment in segments.values() for index in segment.taken}
    for index, op in enumerate(program.ops):
        if segment := segments.get(index):
            inputs = (source_of(segment, kernels[index]),)
            steps.append(Step(index, inputs, segment.output, never, segment, kernels[index]))
        elif index not in taken and op.outputs[0] not in known:
            steps.append(Step(index, op.inputs, op.outputs[0], call(op)))
    return list(alive(steps, program.output)[0])


def fused(steps: Sequence[Step], output: int, kernel: Callable[[list[Segment], str], Callable[..., Any]]) -> list[Step]:
    """Steps with their kernels; compiled segments that follow upon one another are one. ``kernel``: of segments, by name."""
    made = list[Step]()
    for group in linked(steps, output):
        segments = [s.segment for s in group if s.segment is not None]
        call = kernel(segments, group[0].kernel) if segments else group[0].call
        made.append(replace(group[-1], inputs=group[0].inputs, call=call))
    return made


def linked(steps: Sequence[Step], output: int) -> list[list[Step]]:
    """Steps in order, in groups: compiled segments of which each is the only reader of the one before, or one step alone."""
    readers = Counter([output, *(i for step in steps for i in step.inputs)])
    groups: dict[int, list[Step]] = {}  # by the array that they end with
    for step in steps:
        before = groups.get(step.inputs[0]) if step.kernel == "numba" and readers[step.inputs[0]] == 1 else None
        if before and before[-1].kernel == "numba" and _by_row(before[-1]) and _by_row(step):
            groups[step.output] = [*groups.pop(step.inputs[0]), step]
        else:
            groups[step.output] = [step]
    return sorted(groups.values(), key=lambda group: group[-1].index)


def _by_row(step: Step) -> bool:
    return step.segment is not None and step.segment.lead == 1
