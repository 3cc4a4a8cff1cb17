"""Step sizes of samplers: constant, or by a cosine that starts anew in each cycle."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jax.typing import ArrayLike

from bayesprune.core.checks import check_integer, check_not_negative, check_number, check_positive
from bayesprune.core.schedules import Constant, CyclicalCosine
from bayesprune.core.types import PyTree
from bayesprune.train.kernel import Moments

StepSize = float | Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Paced:
    """What samplers have in common. Their ``step_size`` is a field of their own: its unit differs.

    ``temperature``: T. ``num_cycles``: 0 keeps the step size, otherwise it falls by a cosine, anew in each cycle.
    ``num_steps``: of the whole run, of which cycles are parts; 0: not known yet.

    Raises `ValueError` for a step size that is not positive, and numbers below zero; `TypeError` for a step size that is
    neither one number nor a function, and for several temperatures.
    """

    temperature: float = 1.0
    num_cycles: int = 0
    num_steps: int = 0

    def __post_init__(self) -> None:
        self.check_pace()
        check_number(self.temperature, "temperature")
        check_not_negative(self.temperature, "temperature")

    def check_pace(self) -> None:
        """Refuse a step size and numbers of cycles and steps that are none."""
        step_size: StepSize = self.step_size  # type: ignore[attr-defined]
        if not callable(step_size):
            check_number(step_size, "step_size")
            check_positive(step_size, "step_size")
        check_integer(self.num_cycles, "num_cycles", minimum=0)
        check_integer(self.num_steps, "num_steps", minimum=0)

    def moments(self, state: PyTree) -> Moments:
        """None, as of a state that only counts."""
        return {}

    def with_moments(self, state: PyTree, moments: Moments) -> Any:
        """The state as it is."""
        return state

    def pace(self, step: ArrayLike) -> Any:
        """The step size of a step: a function's own; a number, constant without cycles, else as `CyclicalCosine` has it."""
        step_size: StepSize = self.step_size  # type: ignore[attr-defined]
        if callable(step_size):
            return step_size(step)
        if not self.num_cycles:
            return Constant(step_size)(step)
        if not self.num_steps:
            raise ValueError(
                "num_steps of the kernel is not known, and its cycles depend on it: bp.fit_sgmcmc says it; elsewhere give "
                "num_steps=, or num_cycles=0 for a constant step size."
            )
        return CyclicalCosine(step_size, max(self.num_steps // self.num_cycles, 1))(step)
