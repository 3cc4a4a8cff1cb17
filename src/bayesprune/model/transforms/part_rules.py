"""How operations are done on `Part` arrays: on the slices that are there, wherever the others give zeros again.

What has no rule here is done on whole arrays, zeros put back: right for every network, and no quicker.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, Literal
from jax.extend.core import primitives as prims
from jax.typing import ArrayLike

from bayesprune.model.transforms.parts import (
    Index,
    Part,
    bind,
    entry_by_entry,
    moved,
    one_at_least,
    short_shape,
    spread_out,
    whole,
)
from bayesprune.structure.jaxprs import Equation, again
from bayesprune.structure.ops import record_of
from bayesprune.structure.ops.movement import regrouped

Rule = Callable[[Any, list[Part], bool], Part | None]


def run_parts(jaxpr: Jaxpr, consts: Sequence[Any], parts: list[Part], strict: bool) -> list[Part]:
    """A program's results of parts. ``strict``: weight arrays are not moved, see `parts.moved`."""
    at: dict[Any, Part] = dict(zip(jaxpr.constvars, (Part.whole(c) for c in consts), strict=True))
    at |= zip(jaxpr.invars, parts, strict=True)
    read = lambda variables: [_literal(v) if isinstance(v, Literal) else at[v] for v in variables]  # noqa: E731
    for equation in jaxpr.eqns:
        at |= zip(equation.outvars, _results(jaxpr, equation, read(equation.invars), strict), strict=True)
    return read(jaxpr.outvars)


def _literal(literal: Literal) -> Part:
    number = float(literal.val) if np.ndim(literal.val) == 0 and np.isrealobj(literal.val) else None
    return Part.whole(literal.val, of_weights=True, number=number)


def _results(jaxpr: Jaxpr, equation: Equation, parts: list[Part], strict: bool) -> list[Part]:
    name = equation.primitive.name
    if equation.primitive is prims.jit_p:
        inner = equation.params["jaxpr"]
        return run_parts(inner.jaxpr, inner.consts, parts, strict)
    plain = not any(part.cut_short for part in parts)
    if name == "broadcast_in_dim" or not plain:
        if equation.primitive is prims.custom_jvp_call_p and (done := _own_derivative(jaxpr, equation, parts, strict)):
            return done
        rule = RULES.get(name) or (entry_by_entry if record_of(equation).terms is not None else None)
        if rule is not None and (result := rule(equation, parts, strict)) is not None:
            return [result._replace(of_weights=all(part.of_weights for part in parts))]
    arrays = [spread_out(part) if plain else whole(part, strict) for part in parts]
    of_weights = all(part.of_weights for part in parts)
    return [Part.whole(value, of_weights) for value in again(jaxpr, equation, [array.value for array in arrays])]


def _zero_elsewhere(part: Part, strict: bool) -> Part:
    return spread_out(part) if part.rest == 0 else whole(part, strict)


def _meet(left: Part, right: Part, axes: tuple[int, int], strict: bool) -> tuple[Part, Part, Index | None]:
    """Two factors with the same slices along a pair of axes: those in which neither is zero, or those of a weight array."""
    a, b = left.kept[axes[0]], right.kept[axes[1]]
    if left.of_weights != right.of_weights:
        index = a if left.of_weights else b
    elif a is None or b is None:
        index = b if a is None else a
    else:
        index = one_at_least(np.intersect1d(a, b), a)
    return moved(left, axes[0], index, strict), moved(right, axes[1], index, strict), index


def _dot(equation: Equation, parts: list[Part], strict: bool) -> Part:
    contract, batch = equation.params["dimension_numbers"]
    left, right = (_zero_elsewhere(part, strict) for part in parts)
    for pair in zip(*contract, strict=True):
        left, right, _ = _meet(left, right, pair, strict)
    shared = []
    for pair in zip(*batch, strict=True):
        left, right, index = _meet(left, right, pair, strict)
        shared.append(index)
    free = [
        [part.kept[axis] for axis in range(len(part.sizes)) if axis not in (*contract[side], *batch[side])]
        for side, part in enumerate((left, right))
    ]
    value = bind(equation, [left.value, right.value])
    return Part(value, tuple(equation.outvars[0].aval.shape), (*shared, *free[0], *free[1]))


def _convolve(equation: Equation, parts: list[Part], strict: bool) -> Part | None:
    params = equation.params
    if params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    numbers = params["dimension_numbers"]
    data, kernel = (_zero_elsewhere(part, strict) for part in parts)
    for part, spec in ((data, numbers.lhs_spec), (kernel, numbers.rhs_spec)):
        if any(part.kept[axis] is not None for axis in spec[2:]):
            return None
    data, kernel, _ = _meet(data, kernel, (numbers.lhs_spec[1], numbers.rhs_spec[1]), strict)
    kept: list[Index | None] = [None] * len(data.sizes)
    kept[numbers.out_spec[0]], kept[numbers.out_spec[1]] = data.kept[numbers.lhs_spec[0]], kernel.kept[numbers.rhs_spec[0]]
    value = bind(equation, [data.value, kernel.value])
    return Part(value, tuple(equation.outvars[0].aval.shape), tuple(kept))


def _broadcast(equation: Equation, parts: list[Part], strict: bool) -> Part:
    """New axes along which data are constant stay of size 1; weights are laid out in full, for rules that look at them."""
    part, shape = parts[0], tuple(equation.params["shape"])
    place = {out: axis for axis, out in enumerate(equation.params["broadcast_dimensions"])}
    kept = tuple(part.kept[place[out]] if out in place else None for out in range(len(shape)))
    here = jnp.shape(part.value)
    given = tuple(here[place[out]] if out in place else 1 for out in range(len(shape)))
    if part.of_weights and part.number is None:
        part = spread_out(part)
        return Part(bind(equation, [part.value], shape=short_shape(shape, kept)), shape, kept, rest=part.rest)
    return Part(bind(equation, [part.value], shape=given), shape, kept, number=part.number, rest=part.rest)


def _transpose(equation: Equation, parts: list[Part], strict: bool) -> Part:
    (part,), order = parts, equation.params["permutation"]
    value = bind(equation, [part.value])
    return Part(value, tuple(part.sizes[a] for a in order), tuple(part.kept[a] for a in order), False, part.number, part.rest)


def _reshape(equation: Equation, parts: list[Part], strict: bool) -> Part | None:
    """Where the slices are slices of the result too: of many axes that become one, or of one that becomes many."""
    part, new = spread_out(parts[0]), tuple(equation.outvars[0].aval.shape)
    if equation.params["dimensions"] is not None or 0 in new:
        return None
    kept: list[Index | None] = [None] * len(new)
    for ins, outs in regrouped(part.sizes, new):
        if all(part.kept[axis] is None for axis in ins):
            continue
        flags = functools.reduce(np.multiply.outer, [_flags(part, axis) for axis in ins])
        flags = flags.reshape([new[axis] for axis in outs])
        along = [flags.any(tuple(a for a in range(flags.ndim) if a != one)) for one in range(flags.ndim)]
        if not np.array_equal(functools.reduce(np.multiply.outer, along), flags):
            return None
        for axis, there in zip(outs, along, strict=True):
            kept[axis] = None if there.all() else np.flatnonzero(there)
    lost = any(part.kept[axis] is not None for axis, size in enumerate(part.sizes) if size == 1)
    if lost:
        return None
    return Part(jnp.reshape(part.value, short_shape(new, kept)), new, tuple(kept), rest=part.rest)


def _flags(part: Part, axis: int) -> np.ndarray:
    flags, index = np.zeros(part.sizes[axis], bool), part.kept[axis]
    flags[slice(None) if index is None else index] = True
    return flags


def _squeeze(equation: Equation, parts: list[Part], strict: bool) -> Part | None:
    (part,), gone = parts, [axis % len(parts[0].sizes) for axis in equation.params["dimensions"]]
    if any(part.kept[axis] is not None for axis in gone):
        return None
    left = [axis for axis in range(len(part.sizes)) if axis not in gone]
    value = bind(equation, [part.value])
    return Part(value, tuple(part.sizes[a] for a in left), tuple(part.kept[a] for a in left), False, part.number, part.rest)


def _reduce(equation: Equation, parts: list[Part], strict: bool) -> Part | None:
    """Sums leave out zeros; of the others a cut axis has to stay."""
    part, axes = _zero_elsewhere(parts[0], strict), equation.params["axes"]
    if equation.primitive.name != "reduce_sum" and any(part.kept[axis] is not None for axis in axes):
        return None
    left = [axis for axis in range(len(part.sizes)) if axis not in axes]
    return Part(bind(equation, [part.value]), tuple(part.sizes[a] for a in left), tuple(part.kept[a] for a in left))


def _windows(equation: Equation, parts: list[Part], strict: bool) -> Part | None:
    """Pools: of a cut axis each window is one entry."""
    part, params = _zero_elsewhere(parts[0], strict), equation.params
    for axis, index in enumerate(part.kept):
        one = params["window_dimensions"][axis] == params["window_strides"][axis] == 1
        if index is not None and not (one and tuple(params["padding"][axis]) == (0, 0)):
            return None
    return Part(bind(equation, [part.value]), tuple(equation.outvars[0].aval.shape), part.kept)


def _own_derivative(jaxpr: Jaxpr, equation: Equation, parts: list[Part], strict: bool) -> list[Part] | None:
    """A function that brings its derivative, `jax.custom_jvp`: both are done on parts."""
    if not all(jnp.issubdtype(v.aval.dtype, jnp.floating) for v in (*equation.invars, *equation.outvars)):
        return None
    inner, parts = equation.params["call_jaxpr"], [spread_out(part) for part in parts]
    found: list[Part] = []

    def look(*values: ArrayLike) -> list[Any]:
        found[:] = run_parts(inner.jaxpr, inner.consts, _valued(parts, values), strict)
        found[:] = [spread_out(part) for part in found]
        return [part.value for part in found]

    values = [part.value for part in parts]
    jax.eval_shape(look, *(jax.ShapeDtypeStruct(jnp.shape(value), value.dtype) for value in values))
    shown = [part._replace(value=None) for part in found]

    def derivative(values: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars]
        one = lambda *given: again(jaxpr, equation, list(given))  # noqa: E731
        both = jax.make_jaxpr(lambda given, moves: jax.jvp(one, given, moves))(tuple(avals), tuple(avals))
        given = [*_valued(parts, values), *(part._replace(rest=0.0) for part in _valued(parts, tangents))]
        done = run_parts(both.jaxpr, both.consts, given, strict)
        for number, part in enumerate(done):
            for axis, index in enumerate(shown[number % len(shown)].kept):
                part = moved(part, axis, index, strict)
            done[number] = spread_out(part)
        results = [part.value for part in done]
        return results[: len(shown)], results[len(shown) :]

    wrapped = jax.custom_jvp(look)
    wrapped.defjvp(derivative)
    of_weights = all(part.of_weights for part in parts)
    return [part._replace(value=value, of_weights=of_weights) for part, value in zip(shown, wrapped(*values), strict=True)]


def _valued(parts: list[Part], values: Sequence[Any]) -> list[Part]:
    return [part._replace(value=value) for part, value in zip(parts, values, strict=True)]


RULES: dict[str, Rule] = {
    "dot_general": _dot,
    "conv_general_dilated": _convolve,
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "reduce_sum": _reduce,
    "reduce_max": _reduce,
    "reduce_min": _reduce,
    "reduce_window_max": _windows,
    "reduce_window_min": _windows,
    "reduce_window_sum": _windows,
}
