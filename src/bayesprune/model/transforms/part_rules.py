"""How operations are done on `Part` arrays: on the slices that are there, wherever the others give zeros again.

What has no rule here is done on whole arrays, zeros put back: right for every network, and no quicker.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jax.extend.core import primitives as prims

from bayesprune.core.send import send
from bayesprune.model.transforms.parts import Index, Part, moved, spread_out, whole
from bayesprune.structure.ops import record_of
from bayesprune.structure.ops.movement import regrouped

Rule = Callable[[Any, list[Part], bool], Part | None]
_EITHER = frozenset(("mul", "and"))  # zero where one factor is
_OVER = frozenset(("div", "rem"))  # zero where the first is


def run(jaxpr: Any, consts: Any, parts: list[Part], strict: bool) -> list[Part]:
    """A program's results of parts. ``strict``: weight arrays are not moved, see `parts.moved`."""
    at: dict[Any, Part] = dict(zip(jaxpr.constvars, (Part.whole(c) for c in consts), strict=True))
    at |= zip(jaxpr.invars, parts, strict=True)
    read = lambda variables: [_literal(v) if isinstance(v, Literal) else at[v] for v in variables]  # noqa: E731
    for equation in jaxpr.eqns:
        at |= zip(equation.outvars, _results(jaxpr, equation, read(equation.invars), strict), strict=True)
    return read(jaxpr.outvars)


def _literal(literal: Any) -> Part:
    number = float(literal.val) if np.ndim(literal.val) == 0 and np.isrealobj(literal.val) else None
    return Part.whole(literal.val, of_weights=True, number=number)


def _results(jaxpr: Any, equation: Any, parts: list[Part], strict: bool) -> list[Part]:
    name = equation.primitive.name
    if equation.primitive is prims.jit_p:
        inner = equation.params["jaxpr"]
        return run(inner.jaxpr, inner.consts, parts, strict)
    plain = not any(part.cut_short for part in parts)
    if name == "broadcast_in_dim" or not plain:
        if equation.primitive is prims.custom_jvp_call_p and (done := _own_derivative(jaxpr, equation, parts, strict)):
            return done
        rule = RULES.get(name) or (_elementwise if record_of(equation).terms is not None else None)
        if rule is not None and (result := rule(equation, parts, strict)) is not None:
            return [result._replace(of_weights=all(part.of_weights for part in parts))]
    arrays = [spread_out(part) if plain else whole(part, strict) for part in parts]
    of_weights = all(part.of_weights for part in parts)
    return [Part.whole(value, of_weights) for value in _again(jaxpr, equation, [array.value for array in arrays])]


def _again(jaxpr: Any, equation: Any, values: list[Any]) -> list[Any]:
    """The equation on whole arrays. As a program of one: a function with its own derivative has no primitive's parameters."""
    operands = {v: value for v, value in zip(equation.invars, values, strict=True) if not isinstance(v, Literal)}
    program = jaxpr.replace(constvars=(), invars=list(operands), outvars=equation.outvars, eqns=[equation])
    return jax.core.eval_jaxpr(program, (), *operands.values())


def _bind(equation: Any, values: list[Any], **changed: Any) -> Any:
    with equation.ctx.manager:
        return equation.primitive.bind(*values, **(equation.params | changed))


def _elementwise(equation: Any, parts: list[Part], strict: bool) -> Part | None:
    """On the slices where the result is not one number; None where it is no such number elsewhere."""
    sizes = tuple(equation.outvars[0].aval.shape)
    if len(equation.outvars) > 1 or any(part.sizes and len(part.sizes) != len(sizes) for part in parts):
        return None
    left = [_left(equation, parts, axis) for axis in range(len(sizes))]
    rests = {rest for index, rest in left if index is not None}
    if len(rests) > 1:
        return None
    done = []
    for part in parts:
        for axis, (index, _) in enumerate(left):
            if part.sizes and not part.constant_along(axis) and part.sizes[axis] == sizes[axis]:
                part = moved(part, axis, index, strict)
        done.append(part)
    values = [part.value for part in done]
    if len(values) > 2:  # a choice among arrays, which have one shape
        shape = np.broadcast_shapes(*map(jnp.shape, values))
        values = [value if not jnp.ndim(value) else jnp.broadcast_to(value, shape) for value in values]
    kept = tuple(index for index, _ in left)
    number = _number(equation, parts)
    return Part(_bind(equation, values), sizes, kept, number=number, rest=next(iter(rests), 0.0))


def _left(equation: Any, parts: list[Part], axis: int) -> tuple[Index | None, float]:
    """The slices along an axis outside of which the result is one number, and that; None: all."""
    name = equation.primitive.name
    index = [part.kept[axis] if part.sizes else None for part in parts]
    zeros = [one if part.rest == 0 else None for one, part in zip(index, parts, strict=True)]
    there, empty = [one for one in index if one is not None], [one for one in zeros if one is not None]
    if not there:
        return None, 0.0
    if name in _EITHER and empty:
        return _one_at_least(functools.reduce(np.intersect1d, empty), empty[0]), 0.0
    if name in _OVER and zeros[0] is not None and index[1] is None:
        return zeros[0], 0.0
    if name == "select_n":
        cases = [one for one, part in zip(zeros[1:], parts[1:], strict=True) if part.number != 0]
        if cases and all(one is not None for one in cases):
            return functools.reduce(np.union1d, [one for one in cases if one is not None]), 0.0
    rests = [part.number if one is None else part.rest for one, part in zip(index, parts, strict=True)]
    if any(rest is None for rest in rests):
        return None, 0.0
    rest = _value(equation, rests)
    return (functools.reduce(np.union1d, there), rest) if np.isfinite(rest) else (None, 0.0)


def _value(equation: Any, numbers: list[Any]) -> float:
    """What an operation makes of numbers."""
    with jax.core.eval_context():  # whatever traces it
        values = [send(n, v.aval.dtype) for n, v in zip(numbers, equation.invars, strict=True)]
        return float(jax.device_get(equation.primitive.bind(*values, **equation.params)))


def _number(equation: Any, parts: list[Part]) -> float | None:
    single = equation.primitive.name in ("convert_element_type", "neg", "copy")
    return _value(equation, [parts[0].number]) if single and parts[0].number is not None else None


def _one_at_least(index: Index, other: Index) -> Index:
    return index if len(index) else other[:1]


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
        index = _one_at_least(np.intersect1d(a, b), a)
    return moved(left, axes[0], index, strict), moved(right, axes[1], index, strict), index


def _dot(equation: Any, parts: list[Part], strict: bool) -> Part:
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
    value = _bind(equation, [left.value, right.value])
    return Part(value, tuple(equation.outvars[0].aval.shape), (*shared, *free[0], *free[1]))


def _convolve(equation: Any, parts: list[Part], strict: bool) -> Part | None:
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
    value = _bind(equation, [data.value, kernel.value])
    return Part(value, tuple(equation.outvars[0].aval.shape), tuple(kept))


def _broadcast(equation: Any, parts: list[Part], strict: bool) -> Part:
    """New axes along which data are constant stay of size 1; weights are laid out, for whoever looks at what they meet."""
    part, shape = parts[0], tuple(equation.params["shape"])
    place = {out: axis for axis, out in enumerate(equation.params["broadcast_dimensions"])}
    kept = tuple(part.kept[place[out]] if out in place else None for out in range(len(shape)))
    here = jnp.shape(part.value)
    given = tuple(here[place[out]] if out in place else 1 for out in range(len(shape)))
    if part.of_weights and part.number is None:
        part = spread_out(part)
        given = tuple(size if index is None else len(index) for size, index in zip(shape, kept, strict=True))
        return Part(_bind(equation, [part.value], shape=given), shape, kept, rest=part.rest)
    return Part(_bind(equation, [part.value], shape=given), shape, kept, number=part.number, rest=part.rest)


def _transpose(equation: Any, parts: list[Part], strict: bool) -> Part:
    (part,), order = parts, equation.params["permutation"]
    value = _bind(equation, [part.value])
    return Part(value, tuple(part.sizes[a] for a in order), tuple(part.kept[a] for a in order), False, part.number, part.rest)


def _reshape(equation: Any, parts: list[Part], strict: bool) -> Part | None:
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
    shape = tuple(size if index is None else len(index) for size, index in zip(new, kept, strict=True))
    return Part(jnp.reshape(part.value, shape), new, tuple(kept), rest=part.rest)


def _flags(part: Part, axis: int) -> np.ndarray:
    flags, index = np.zeros(part.sizes[axis], bool), part.kept[axis]
    flags[slice(None) if index is None else index] = True
    return flags


def _squeeze(equation: Any, parts: list[Part], strict: bool) -> Part | None:
    (part,), gone = parts, [axis % len(parts[0].sizes) for axis in equation.params["dimensions"]]
    if any(part.kept[axis] is not None for axis in gone):
        return None
    left = [axis for axis in range(len(part.sizes)) if axis not in gone]
    value = _bind(equation, [part.value])
    return Part(value, tuple(part.sizes[a] for a in left), tuple(part.kept[a] for a in left), False, part.number, part.rest)


def _reduce(equation: Any, parts: list[Part], strict: bool) -> Part | None:
    """Sums leave out zeros; of the others a cut axis has to stay."""
    part, axes = _zero_elsewhere(parts[0], strict), equation.params["axes"]
    if equation.primitive.name != "reduce_sum" and any(part.kept[axis] is not None for axis in axes):
        return None
    left = [axis for axis in range(len(part.sizes)) if axis not in axes]
    return Part(_bind(equation, [part.value]), tuple(part.sizes[a] for a in left), tuple(part.kept[a] for a in left))


def _windows(equation: Any, parts: list[Part], strict: bool) -> Part | None:
    """Pools: of a cut axis each window is one entry."""
    part, params = _zero_elsewhere(parts[0], strict), equation.params
    for axis, index in enumerate(part.kept):
        one = params["window_dimensions"][axis] == params["window_strides"][axis] == 1
        if index is not None and not (one and tuple(params["padding"][axis]) == (0, 0)):
            return None
    return Part(_bind(equation, [part.value]), tuple(equation.outvars[0].aval.shape), part.kept)


def _own_derivative(jaxpr: Any, equation: Any, parts: list[Part], strict: bool) -> list[Part] | None:
    """A function that brings its derivative, `jax.custom_jvp`: both are done on parts."""
    if not all(jnp.issubdtype(v.aval.dtype, jnp.floating) for v in (*equation.invars, *equation.outvars)):
        return None
    inner, parts = equation.params["call_jaxpr"], [spread_out(part) for part in parts]
    found: list[Part] = []

    def look(*values: Any) -> list[Any]:
        found[:] = run(inner.jaxpr, inner.consts, _valued(parts, values), strict)
        found[:] = [spread_out(part) for part in found]
        return [part.value for part in found]

    values = [part.value for part in parts]
    jax.eval_shape(look, *(jax.ShapeDtypeStruct(jnp.shape(value), value.dtype) for value in values))
    shown = [part._replace(value=None) for part in found]

    def function(*values: Any) -> list[Any]:
        return look(*values)

    def derivative(values: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars]
        one = lambda *given: _again(jaxpr, equation, list(given))  # noqa: E731
        both = jax.make_jaxpr(lambda given, moves: jax.jvp(one, given, moves))(tuple(avals), tuple(avals))
        given = [*_valued(parts, values), *(part._replace(rest=0.0) for part in _valued(parts, tangents))]
        done = run(both.jaxpr, both.consts, given, strict)
        for number, part in enumerate(done):
            for axis, index in enumerate(shown[number % len(shown)].kept):
                part = moved(part, axis, index, strict)
            done[number] = spread_out(part)
        results = [part.value for part in done]
        return results[: len(shown)], results[len(shown) :]

    wrapped = jax.custom_jvp(function)
    wrapped.defjvp(derivative)
    of_weights = all(part.of_weights for part in parts)
    return [part._replace(value=value, of_weights=of_weights) for part, value in zip(shown, wrapped(*values), strict=True)]


def _valued(parts: list[Part], values: Any) -> list[Part]:
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
