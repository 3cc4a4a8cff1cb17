"""Where the axis of rows goes in an operation, and whether the operation is linear: a table over JAX's primitives.

``move(equation, operand, axis)`` gives the axis of the result whose index n is made from index n of the operand's axis and
from no other; None where there is no such axis. What the table does not list has no rule, `known` says which those are.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

Shape = tuple[int, ...]

_ELEMENTWISE = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp convert_element_type copy
    copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igammac integer_pow is_finite le lgamma
    log log1p logistic lt max min mul ne neg nextafter not or polygamma pow real reduce_precision regularized_incomplete_beta
    rem round rsqrt select_n sharding_constraint sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta
"""
_REDUCTIONS = "argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum"
_LINEAR = """
    add add_any broadcast_in_dim concatenate copy copy_p cumsum neg pad real reduce_precision reduce_sum reduce_window_sum
    reshape rev sharding_constraint slice split squeeze stop_gradient sub transpose
"""
ELEMENTWISE, REDUCTIONS, LINEAR = (frozenset(names.split()) for names in (_ELEMENTWISE, _REDUCTIONS, _LINEAR))
BILINEAR = frozenset(("conv_general_dilated", "dot_general", "mul"))
# Linear in all operands but these: denominators, predicates, indices.
LINEAR_BUT = {
    "div": (1,),
    "select_n": (0,),
    "gather": (1,),
    "dynamic_slice": range(1, 99),
    "dynamic_update_slice": range(2, 99),
}


def known(equation: Any) -> bool:
    """Whether the table has the operation."""
    return equation.primitive.name in ELEMENTWISE | REDUCTIONS or equation.primitive.name in _MOVES


def is_linear(equation: Any, carried: Sequence[bool]) -> bool:
    """Whether the result is linear in all of the operands marked ``carried`` together, up to a constant."""
    name = equation.primitive.name
    if name == "convert_element_type":
        return bool(jnp.issubdtype(equation.params["new_dtype"], jnp.inexact))
    if name in BILINEAR:
        return sum(carried) <= 1
    return name in LINEAR or (name in LINEAR_BUT and not any(carried[i] for i in LINEAR_BUT[name] if i < len(carried)))


def move(equation: Any, operand: int, axis: int) -> int | None:
    """The axis of the first result (of every result, where there are several) that an operand's axis becomes, or None."""
    shape, out = tuple(equation.invars[operand].aval.shape), tuple(equation.outvars[0].aval.shape)
    name, params = equation.primitive.name, equation.params
    if name in REDUCTIONS:
        return _without(params["axes"], axis)
    if name in ELEMENTWISE:
        return axis if len(shape) == len(out) and shape[axis] == out[axis] else None
    return _MOVES[name](params, shape, out, operand, axis)


def guess(equation: Any, kinds: Sequence[Any], result: Any) -> int | None:
    """The likely axis of rows of a result without noise, where `move` knows none.

    A wrong guess costs noise, never rightness: what holds of noises is only ever concluded by the rules.
    """
    given = [(v.aval.shape, kind.axis) for v, kind in zip(equation.invars, kinds, strict=True) if kind.axis is not None]
    shape = getattr(result.aval, "shape", ())
    if not given:
        return None
    if equation.primitive.name == "gather":  # rows picked by an index are rows
        offsets = equation.params["dimension_numbers"].offset_dims
        return next((axis for axis in range(len(shape)) if axis not in offsets), None)
    (operand, axis), *_ = given
    if equation.primitive.name in REDUCTIONS:
        return None
    likely = [axis, *range(len(shape))] if axis < len(shape) else range(len(shape))
    return next((a for a in likely if shape[a] == operand[axis]), None)


def _without(gone: Sequence[Any], axis: int) -> int | None:
    """An axis's place once others are taken away."""
    return None if axis in gone else axis - sum(1 for other in gone if other < axis)


def _reshape(params: Any, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    before = math.prod(shape[:axis])
    places = (j for j, size in enumerate(out) if size == shape[axis] and math.prod(out[:j]) == before)
    return None if params["dimensions"] is not None else next(places, None)


def _broadcast(params: Any, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    place = int(params["broadcast_dimensions"][axis])
    return place if shape[axis] == out[place] else None


def _pad(params: Any, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    return None if any(params["padding_config"][axis]) else axis


def _whole(params: Any, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    """A piece of the operand, or a piece put into it, that has the whole of the axis."""
    return axis if shape[axis] == out[axis] else None


def _unless(name: str) -> Callable[..., int | None]:
    """Operations along an axis, or axes, in the parameter ``name``: all others stay as they are."""

    def moved(params: Any, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
        touched = params[name]
        return None if axis in (touched if isinstance(touched, Sequence) else (touched,)) else axis

    return moved


def _window(params: Any, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    ones = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    alone = all(params[key][axis] == 1 for key in ones if params.get(key) is not None)
    return axis if alone and shape[axis] == out[axis] else None


def _dot(params: Any, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    contracted, batch = (sides[operand] for sides in params["dimension_numbers"])
    if axis in batch:
        return list(batch).index(axis)
    free = [other for other in range(len(shape)) if other not in (*contracted, *batch)]
    start = len(batch) if operand == 0 else len(out) - len(free)
    return start + free.index(axis) if axis in free else None


def _convolution(params: Any, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    numbers = params["dimension_numbers"]
    rows = operand == 0 and axis == numbers.lhs_spec[0] and params["batch_group_count"] == 1
    return int(numbers.out_spec[0]) if rows else None


def _gather(params: Any, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    numbers = params["dimension_numbers"]
    by_index = [place for place in range(len(out)) if place not in numbers.offset_dims]
    if operand == 1:
        return by_index[axis] if axis < len(by_index) else None
    if axis in numbers.operand_batching_dims:
        return by_index[numbers.start_indices_batching_dims[numbers.operand_batching_dims.index(axis)]]
    if axis in (*numbers.collapsed_slice_dims, *numbers.start_index_map):
        return None
    kept = [a for a in range(len(shape)) if a not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
    place = int(numbers.offset_dims[kept.index(axis)])
    return place if out[place] == shape[axis] else None


_MOVES: dict[str, Callable[..., int | None]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _unless("dimension"),
    "conv_general_dilated": _convolution,
    "dot_general": _dot,
    "dynamic_slice": _whole,
    "dynamic_update_slice": _whole,
    "gather": _gather,
    "pad": _pad,
    "reshape": _reshape,
    "rev": _unless("dimensions"),
    "slice": _whole,
    "sort": _unless("dimension"),
    "split": _unless("axis"),
    "squeeze": lambda params, shape, out, operand, axis: _without(params["dimensions"], axis),
    "transpose": lambda params, shape, out, operand, axis: list(params["permutation"]).index(axis),
} | {
    **dict.fromkeys(("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"), _unless("axis")),
    **dict.fromkeys(("reduce_window_max", "reduce_window_min", "reduce_window_sum"), _window),
}
