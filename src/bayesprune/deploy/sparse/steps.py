"""What an engine does in turn, and which of it goes into one."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesprune.deploy.program.ops import Op, OpProgram, alive
from bayesprune.deploy.sparse.fusing import Segment

OF_MATRICES = ("dense", "blas")  # kernels that read the operand itself: a sparse matrix has taken in the moves before it


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
