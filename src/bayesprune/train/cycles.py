"""Step sizes of samplers: constant, or by a cosine that starts anew in each cycle."""

from collections.abc import Callable
from typing import Any

from bayesprune.core.checks import check_integer, check_not_negative, check_positive
from bayesprune.core.schedules import Constant, CyclicalCosine

StepSize = float | Callable[[Any], Any]


def check_pace(step_size: StepSize, num_cycles: int, temperature: float | None) -> None:
    """Refuse a step size that is neither a positive number nor a function, a number of cycles or a temperature below zero."""
    if not callable(step_size):
        check_positive(step_size, "step_size")
    check_integer(num_cycles, "num_cycles", minimum=0)
    if temperature is not None:
        check_not_negative(temperature, "temperature")


def pace(step_size: StepSize, num_cycles: int, num_steps: int) -> Callable[[Any], Any]:
    """Step -> step size: a function as it is; a number, constant without cycles, else as `CyclicalCosine` has it.

    >>> [round(float(pace(0.1, cycles, 20)(5)), 3) for cycles in (0, 2)]
    [0.1, 0.05]
    """
    if callable(step_size):
        return step_size
    if not num_cycles:
        return Constant(step_size)
    if not num_steps:
        raise ValueError(
            "num_steps of the kernel is not known, and its cycles depend on it: bp.fit_sgmcmc says it; elsewhere give "
            "num_steps=, or num_cycles=0 for a constant step size."
        )
    return CyclicalCosine(step_size, max(num_steps // num_cycles, 1))
