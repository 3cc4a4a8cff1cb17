"""What the readers of traced programs have in common: which equations stand for another program, and the parts of a loop."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive, jaxpr_as_fun, jaxprs_in_params

CALLS = ("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "custom_jvp_call", "custom_vjp_call")
MOST_EQUATIONS = 4000  # of a loop that is written out; a longer one takes seconds to read

JaxprLike = Jaxpr | ClosedJaxpr

T = TypeVar("T")


@runtime_checkable
class Atom(Protocol):
    """A variable or a literal of a traced program. JAX's own type of ``aval`` hides that it has a shape and a dtype."""

    aval: Any


@runtime_checkable
class Equation(Protocol):
    """What is read of an equation of a traced program, a `JaxprEqn`."""

    primitive: Primitive
    invars: Any
    outvars: Any
    params: dict[str, Any]
    effects: Any
    ctx: Any


def called(equation: Equation) -> Any:
    """The program that an equation stands for, closed or not: one that it calls, or the same in simpler operations; else None.

    A scan is written out turn by turn where it is short.
    """
    name, params = equation.primitive.name, equation.params
    if name in CALLS:
        return params["jaxpr" if "jaxpr" in params else "call_jaxpr"]
    if name not in WRITTEN_OUT or (name == "scan" and not _is_short(_of_all_turns(params))):
        return None
    return program_for(equation, lambda *arrays: WRITTEN_OUT[name](arrays, **params))


def program_for(equation: Equation, function: Callable[..., Any]) -> Any:
    """The program of ``function`` for operands like those of an equation."""
    return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in equation.invars))


def followed(
    program: JaxprLike, inputs: Sequence[T], step: Callable[[Any, list[T]], Sequence[T]], known: Callable[[Any], T]
) -> list[T]:
    """The results of a program whose arrays are not numbers but what is known of them, of whatever kind that is.

    ``step``: (equation, operands) -> its results; ``known``: of a constant.
    """
    jaxpr, constants = getattr(program, "jaxpr", program), getattr(program, "consts", ())
    values: dict[Any, T] = dict(zip(jaxpr.constvars, map(known, constants), strict=True))
    values.update(zip(jaxpr.invars, inputs, strict=True))

    def read(atom: Any) -> T:
        return known(atom.val) if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        values.update(zip(equation.outvars, step(equation, list(map(read, equation.invars))), strict=True))
    return list(map(read, jaxpr.outvars))


def followed_twice(
    one: JaxprLike,
    other: JaxprLike,
    inputs: Sequence[T],
    step: Callable[[Any, Any, list[T]], Sequence[T]],
    known: Callable[[Any, Any], T],
) -> list[T]:
    """`followed` for the same function of two numbers of rows, equation by equation side by side.

    ``step``: (equation, its twin, operands) -> its results; ``known``: of a constant in both.
    """
    inner, twin = (getattr(program, "jaxpr", program) for program in (one, other))
    pairs = zip(getattr(one, "consts", ()), getattr(other, "consts", ()), strict=True)
    values: dict[Any, T] = dict(zip(inner.constvars, [known(*pair) for pair in pairs], strict=True))
    values.update(zip(inner.invars, inputs, strict=True))

    def read(*atoms: Any) -> T:
        if not isinstance(atoms[0], Literal):
            return values[atoms[0]]
        return known(*(np.asarray(atom.val, getattr(atom.aval, "dtype", None)) for atom in atoms))

    for equation, second, empty in zip(inner.eqns, twin.eqns, _unread(inner, twin), strict=True):
        if empty is not None:
            values.update({variable: known(array, array) for variable, array in empty.items()})
            continue
        operands = [read(*pair) for pair in zip(equation.invars, second.invars, strict=False)]
        values.update(zip(equation.outvars, step(equation, second, operands), strict=True))
    return [read(*pair) for pair in zip(inner.outvars, twin.outvars, strict=True)]


def somewhere(program: JaxprLike, holds: Callable[[Any], bool]) -> bool:
    """Whether something holds of an equation of a program, however deep."""
    return any(holds(e) or any(somewhere(inner, holds) for inner in jaxprs_in_params(e.params)) for e in program.eqns)


def computed(equation: Equation, values: Sequence[Any]) -> list[Any]:
    """The results of an equation for numbers, now, though the network may be read within another trace."""
    with jax.ensure_compile_time_eval():
        made = equation.primitive.bind(*values, **equation.params)
    return list(made) if equation.primitive.multiple_results else [made]


def as_often(one: Equation, other: Equation) -> bool:
    """Of the same equation for two numbers of rows: whether it is no loop over the rows."""
    return bool(one.primitive.name != "scan" or one.params["length"] == other.params["length"])


def _unread(one: JaxprLike, other: JaxprLike) -> list[dict[Any, np.ndarray] | None]:
    """Of each equation that no result is made of, what it makes without entries, by variable; None of all others.

    ``one``, ``other``: the same function for two numbers of rows. `jnp.pad` repeats the edges of every axis, those of an axis
    that it does not pad not once.
    """
    read = {atom for atom in one.outvars if not isinstance(atom, Literal)}
    found: list[dict[Any, np.ndarray] | None] = []
    for equation, second in reversed(list(zip(one.eqns, other.eqns, strict=True))):
        pairs = zip(equation.outvars, second.outvars, strict=True)
        empty = {a: np.zeros(a.aval.shape, a.aval.dtype) for a, b in pairs if _empty(a.aval, b.aval)}
        is_read = bool(equation.effects) or any(v in read and v not in empty for v in equation.outvars)
        if is_read:
            read.update(atom for atom in equation.invars if not isinstance(atom, Literal))
        found.append(None if is_read else empty)
    return found[::-1]


def _empty(one: Any, other: Any) -> bool:
    """Whether an array has no entries, however many rows there are, and no axis of the rows."""
    return 0 in one.shape and one.shape == other.shape and isinstance(one.dtype, np.dtype)


def again(jaxpr: Jaxpr, equation: Equation, values: Sequence[Any]) -> list[Any]:
    """The results of an equation of ``jaxpr`` for other operands.

    It is run as a program of one equation: a function that brings its own derivative has no primitive's parameters.
    """
    operands = {v: value for v, value in zip(equation.invars, values, strict=True) if not isinstance(v, Literal)}
    program = jaxpr.replace(constvars=(), invars=list(operands), outvars=equation.outvars, eqns=[equation])
    return jax.core.eval_jaxpr(program, (), *operands.values())


def length(jaxpr: JaxprLike) -> int:
    """The number of equations of a program, those of inner programs and of short loops counted."""
    return sum(_length(equation) for equation in jaxpr.eqns)


def _length(equation: Equation) -> int:
    if equation.primitive.name == "scan":
        turns = _of_all_turns(equation.params)
        return turns if _is_short(turns) else 1
    program = called(equation)
    return 1 if program is None else 1 + length(program)


def _of_all_turns(params: dict[str, Any]) -> int:
    """The number of equations of a scan that is written out."""
    return int(params["length"]) * length(params["jaxpr"])


def _is_short(equations: int) -> bool:
    return 0 < equations <= MOST_EQUATIONS


def scan_parts(params: dict[str, Any], inputs: Sequence[T]) -> tuple[list[T], list[T], list[T]]:
    """The inputs of a scan that stay, that are carried from turn to turn, and that are cut into slices."""
    if "ft_in" in params:  # JAX 0.11 and later
        fixed, carry, slices = params["ft_in"].update(inputs).unpack()
        return list(fixed), list(carry), list(slices)
    fixed, carried = params["num_consts"], params["num_consts"] + params["num_carry"]
    return list(inputs[:fixed]), list(inputs[fixed:carried]), list(inputs[carried:])


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


def _turn_by_turn(arrays: Sequence[Any], **params: Any) -> list[Any]:
    fixed, carry, slices = scan_parts(params, arrays)
    body = params["jaxpr"] if isinstance(params["jaxpr"], ClosedJaxpr) else ClosedJaxpr(params["jaxpr"], ())
    turns = range(params["length"])
    made: list[list[Any]] = []
    for turn in reversed(turns) if params["reverse"] else turns:
        of_turn = [lax.index_in_dim(array, turn, 0, keepdims=False) for array in slices]
        results = jaxpr_as_fun(body)(*fixed, *carry, *of_turn)
        carry, kept = results[: len(carry)], results[len(carry) :]
        made.append(kept)
    in_order = made[::-1] if params["reverse"] else made
    return [*carry, *(_stack(of_each, 0) for of_each in zip(*in_order, strict=True))]


WRITTEN_OUT: dict[str, Callable[..., Any]] = {"stack": _stack, "unstack": _unstack, "tile": _tile, "scan": _turn_by_turn}
