"""What an engine does in turn, and which of it goes into one."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bayesprune.deploy.sparse.fusing import Segment


@dataclass(frozen=True, eq=False)
class Step:
    """``output`` = ``call(rows, *inputs)``. ``index``: of its operation; ``segment``, ``kernel``: where it is one."""

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
