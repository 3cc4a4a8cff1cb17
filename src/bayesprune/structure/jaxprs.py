"""What the readers of traced programs have in common: which equations only call another program, and the parts of a loop."""

from collections.abc import Sequence
from typing import Any, TypeVar

CALLS = ("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "custom_jvp_call", "custom_vjp_call")

T = TypeVar("T")


def called(params: dict[str, Any]) -> Any:
    """The program that a call runs, closed or not."""
    return params["jaxpr" if "jaxpr" in params else "call_jaxpr"]


def scan_parts(params: dict[str, Any], inputs: Sequence[T]) -> tuple[list[T], list[T], list[T]]:
    """The inputs of a scan that stay, that are carried from turn to turn, and that are cut into slices."""
    if "ft_in" in params:  # JAX 0.11 and later
        fixed, carry, slices = params["ft_in"].update(inputs).unpack()
        return list(fixed), list(carry), list(slices)
    fixed, carried = params["num_consts"], params["num_consts"] + params["num_carry"]
    return list(inputs[:fixed]), list(inputs[fixed:carried]), list(inputs[carried:])


def length(jaxpr: Any) -> int:
    """The number of equations of a program, those of inner programs counted."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    return sum(1 + (length(called(e.params)) if e.primitive.name in CALLS else 0) for e in inner.eqns)
