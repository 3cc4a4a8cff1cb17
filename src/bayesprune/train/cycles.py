"""Step sizes of samplers: constant, or by a cosine that starts anew in each cycle."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from jax.typing import ArrayLike

from bayesprune.core.checks import check_integer, check_not_negative, check_number, check_positive
from bayesprune.core.schedules import Constant, CyclicalCosine
from bayesprune.core.types import PyTree
from bayesprune.train.kernel import Moments

StepSize = float | Callable[[Any], Any]
RATE = 0.1  # learning rate of a sampler whose step size is not given: what a step moves by the mean gradient of a row


@dataclass(frozen=True, kw_only=True)
class Paced:
    """What samplers have in common. Their ``step_size`` is a field of their own: its unit differs.

    ``temperature``: T. ``num_cycles``: 0 keeps the step size, otherwise it falls by a cosine, anew in each cycle.
    ``num_steps``: of the whole run, of which cycles are parts; ``num_rows``: of the data; 0: not known yet.

    Raises `ValueError` for a step size that is not positive, and numbers below zero; `TypeError` for a step size that is
    neither one number nor a function, and for several temperatures.
    """

    temperature: float = 1.0
    num_cycles: int = 0
    num_steps: int = 0
    num_rows: int = 0

    has_default: ClassVar[bool] = False  # whether a step size of None is `default_step`

    def __post_init__(self) -> None:
        self.check_pace()
        check_number(self.temperature, "temperature")
        check_not_negative(self.temperature, "temperature")

    def check_pace(self) -> None:
        """Refuse a step size and numbers of cycles and steps that are none."""
        step_size: Any = self.step_size  # type: ignore[attr-defined]
        if not callable(step_size) and not (step_size is None and self.has_default):
            check_number(step_size, "step_size")
            check_positive(step_size, "step_size")
        for name in ("num_cycles", "num_steps", "num_rows"):
            check_integer(getattr(self, name), name, minimum=0)

    def default_step(self) -> float:
        """The step size where none is given: a learning rate of .1 over the rows, whose gradients U sums."""
        if not self.num_rows:
            raise ValueError(
                "num_rows of the kernel is not known, and its default step size depends on it: bp.fit_sgmcmc says it; "
                "elsewhere give num_rows=, or step_size=."
            )
        return RATE / self.num_rows

    def moments(self, state: PyTree) -> Moments:
        """None, as of a state that only counts."""
        return {}

    def with_moments(self, state: PyTree, moments: Moments) -> Any:
        """The state as it is."""
        return state

    def pace(self, step: ArrayLike) -> Any:
        """The step size of a step: a function's own; a number, constant without cycles, else as `CyclicalCosine` has it."""
        given: StepSize | None = self.step_size  # type: ignore[attr-defined]
        step_size = self.default_step() if given is None else given
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
