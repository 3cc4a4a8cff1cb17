"""What the readers of traced programs have in common: which equations stand for another program, and the parts of a loop."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax import lax

CALLS = ("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "custom_jvp_call", "custom_vjp_call")

T = TypeVar("T")


def called(equation: Any) -> Any:
    """The program that an equation stands for, closed or not: one that it calls, or the same in older operations; else None."""
    name, params = equation.primitive.name, equation.params
    if name in CALLS:
        return params["jaxpr" if "jaxpr" in params else "call_jaxpr"]
    if name not in WRITTEN_OUT:
        return None
    arrays = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in equation.invars]
    return jax.make_jaxpr(lambda *arrays: WRITTEN_OUT[name](arrays, **params))(*arrays)


def _stack(arrays: Sequence[Any], axis: int) -> Any:
    return lax.concatenate([lax.expand_dims(array, (axis,)) for array in arrays], axis)


def _unstack(arrays: Sequence[Any], axis: int) -> Any:
    (array,) = arrays
    return [lax.index_in_dim(array, i, axis, keepdims=False) for i in range(array.shape[axis])]


def _tile(arrays: Sequence[Any], reps: Sequence[int]) -> Any:
    (array,) = arrays
    for axis, times in enumerate(reps):
        array = lax.concatenate([array] * times, axis)
    return array


WRITTEN_OUT: dict[str, Callable[..., Any]] = {"stack": _stack, "unstack": _unstack, "tile": _tile}


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
    return sum(1 + (length(program) if (program := called(e)) is not None else 0) for e in inner.eqns)
