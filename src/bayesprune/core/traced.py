"""A function known by what it computes: a digest of its trace."""

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var
from jax.interpreters.partial_eval import dce_jaxpr

from bayesprune.core.same import array_digest, digest
from bayesprune.core.types import PyTree

# Equations that carry Python functions beside what they compute: rules of their derivatives, and what to keep for them.
_WITH_RULES = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "checkpoint", "remat", "remat2")


class OpaqueError(TypeError):
    """The trace holds something that only its identity tells from another, such as a callback to Python."""


def fingerprint(fn: Callable[..., Any], *args: PyTree) -> str:
    """A digest of what ``fn(*args)`` computes, equal for functions of equal traces, in every process of one JAX version.

    ``args``: trees of arrays or of `jax.ShapeDtypeStruct`. Constants count by their type and bytes; the names of variables do
    not. Two functions that differ in their derivatives' rules alone are the same.

    Raises `OpaqueError` where the trace calls back to Python, and whatever ``fn`` raises when it is traced.

    >>> import jax.numpy as jnp
    >>> one, other = (fingerprint(lambda x: jnp.sin(x) * scale, 1.0) for scale in (2.0, 2.0))
    >>> one == other, one == fingerprint(lambda x: jnp.sin(x) * 3.0, 1.0)
    (True, False)
    """
    # A new function around it: JAX would give the trace of before back, although a name in it may be bound anew.
    traced, shapes = jax.make_jaxpr(lambda *args: fn(*args), return_shape=True)(*args)
    return digest((_setting(str(jax.tree.structure((args, shapes)))), _closed(traced)))


def of_jaxpr(traced: ClosedJaxpr) -> str:
    """The digest of a trace that was made already."""
    return digest(_closed(traced))


def needs_first(fn: Callable[..., Any], *args: PyTree) -> bool:
    """Whether what ``fn(*args)`` gives depends on the first of the arguments, one array or key.

    >>> needs_first(lambda x, y: x + y, 1.0, 2.0), needs_first(lambda x, y: 0 * y, 1.0, 2.0)
    (True, False)
    """
    traced = jax.make_jaxpr(fn)(*args).jaxpr
    return bool(dce_jaxpr(traced, [True] * len(traced.outvars))[1][0])


def without_idle(traced: ClosedJaxpr) -> ClosedJaxpr:
    """The trace without equations and constants that no output needs."""
    jaxpr = traced.jaxpr
    needed = {variable for variable in jaxpr.outvars if not isinstance(variable, Literal)}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or needed.intersection(equation.outvars):
            kept.append(equation)
            needed |= {variable for variable in equation.invars if not isinstance(variable, Literal)}
    pairs = [(variable, value) for variable, value in zip(jaxpr.constvars, traced.consts, strict=True) if variable in needed]
    used = jaxpr.replace(constvars=[variable for variable, _ in pairs], eqns=kept[::-1])
    return ClosedJaxpr(used, [value for _, value in pairs])


def _closed(traced: ClosedJaxpr) -> Hashable:
    return _jaxpr(traced.jaxpr), tuple(_setting(constant) for constant in traced.consts)


def _jaxpr(jaxpr: Jaxpr) -> Hashable:
    if jaxpr.effects:
        raise OpaqueError(f"the trace has effects outside of itself: {jaxpr.effects}.")
    numbers: dict[Var, int] = {}

    def atom(variable: Literal | Var) -> Hashable:
        if isinstance(variable, Literal):
            return _type(variable.aval), _setting(variable.val)
        return numbers.setdefault(variable, len(numbers))

    def new(variables: Sequence[Any]) -> Hashable:
        return tuple((_type(variable.aval), atom(variable)) for variable in variables)

    inputs = new([*jaxpr.constvars, *jaxpr.invars])
    equations = []
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        settings = tuple((k, _setting(v, name in _WITH_RULES)) for k, v in sorted(equation.params.items()))
        equations.append((name, settings, tuple(map(atom, equation.invars)), new(equation.outvars)))
    return inputs, tuple(equations), tuple(map(atom, jaxpr.outvars))


def _type(aval: object) -> Hashable:
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    return str(aval) if dtype is None else (shape, str(dtype), getattr(aval, "weak_type", False))


def _setting(value: object, rules: bool = False) -> Hashable:
    """A setting of an equation, or a constant. ``rules``: Python functions in it do not matter."""
    if isinstance(value, ClosedJaxpr):
        return _closed(value)
    if isinstance(value, Jaxpr):
        return _jaxpr(value)
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(_setting(part, rules) for part in value)
    if isinstance(value, dict):
        return tuple((str(name), _setting(part, rules)) for name, part in sorted(value.items()))
    if not isinstance(value, type) and hasattr(value, "dtype") and hasattr(value, "__array__"):
        return array_digest(value)
    if rules and callable(value):
        return "rule"
    text = repr(value)  # numbers, names, shardings, meshes, kinds of random keys: they say what they are
    if re.search(r" at 0x[0-9a-fA-F]+", text):
        raise OpaqueError(f"the trace holds {text}, which says nothing of what it does.")
    return text
