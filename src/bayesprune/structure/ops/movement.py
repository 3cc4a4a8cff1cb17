"""Operations that only move the entries of an array, done on labels of these entries."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jax import lax

from bayesprune.structure.graph import NOTHING, Labels, Shape, Signals, Value, Weights, bits_of, compress, expand, made_of
from bayesprune.structure.jaxprs import Equation
from bayesprune.structure.primitive import Function, Known, Params, Primitive, Walk, integers

MANY = 1 << 14  # labels of one array from which on it pays to tell fewer apart


def broadcast_in_dim(labels: Labels, rank: int, dimensions: Sequence[int]) -> Labels:
    """As ``lax.broadcast_in_dim``: the new axes have size 1."""
    sizes = [1] * rank
    for axis, to in enumerate(dimensions):
        sizes[to] = labels.shape[axis]
    return labels.reshape(sizes)


def reshape(labels: Labels, shape: Shape, new: Shape) -> Labels:
    """As ``lax.reshape`` from ``shape`` to ``new``; only axes that are joined or cut are written out.

    >>> reshape(np.array([[7, 8]]), (3, 2), (6,)).tolist()
    [7, 8, 7, 8, 7, 8]
    """
    before, after = list(labels.shape), [1] * len(new)
    joined = False
    for ins, outs in regrouped(shape, new):
        if all(labels.shape[axis] == 1 for axis in ins):
            continue
        if len(ins) == len(outs) == 1:
            after[outs[0]] = labels.shape[ins[0]]
            continue
        joined = True
        for axis in ins:
            before[axis] = shape[axis]
        for axis in outs:
            after[axis] = new[axis]
    moved = np.broadcast_to(labels, before).reshape(after)
    return compress(moved) if joined else moved


def regrouped(shape: Shape, new: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Which axes of a reshape become which: the smallest runs of equal size, axes of size 1 left out.

    >>> list(regrouped((2, 3, 4, 5), (6, 4, 5, 1)))
    [([0, 1], [0]), ([2], [1]), ([3], [2])]
    """
    ahead, behind = ([axis for axis, size in enumerate(s) if size > 1] for s in (shape, new))
    while ahead:
        ins, outs = [ahead.pop(0)], [behind.pop(0)]
        here, there = shape[ins[0]], new[outs[0]]
        while here != there:
            if here < there:
                ins.append(ahead.pop(0))
                here *= shape[ins[-1]]
            else:
                outs.append(behind.pop(0))
                there *= new[outs[-1]]
        yield ins, outs


def sliced(labels: Labels, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]) -> Labels:
    """As ``lax.slice``."""
    picks = zip(labels.shape, starts, limits, strides, strict=True)
    return labels[tuple(slice(None) if size == 1 else slice(low, high, step) for size, low, high, step in picks)]


def concatenate(parts: Sequence[Labels], shapes: Sequence[Shape], axis: int) -> Labels:
    """As ``lax.concatenate`` of arrays of these shapes."""
    if all(part.shape == parts[0].shape and part.shape[axis] == 1 and (part == parts[0]).all() for part in parts):
        return parts[0]
    whole = [expand(part, axis, shape[axis]) for part, shape in zip(parts, shapes, strict=True)]
    rest = np.broadcast_shapes(*((*part.shape[:axis], 1, *part.shape[axis + 1 :]) for part in whole))
    return np.concatenate([np.broadcast_to(p, (*rest[:axis], p.shape[axis], *rest[axis + 1 :])) for p in whole], axis)


def pad(labels: Labels, shape: Shape, value: int, config: Sequence[tuple[int, ...]]) -> Labels:
    """As ``lax.pad`` with entries of label ``value``; zeros around a map of one label are counted to the map."""
    for axis, (low, high, inner) in enumerate(config):
        same = labels.shape[axis] == 1 and shape[axis] != 1 and value == NOTHING
        if same or (low, high, inner) == (0, 0, 0):
            continue
        size = shape[axis]
        length = low + high + size + inner * max(size - 1, 0)
        places = low + np.arange(size) * (inner + 1)
        inside = (places >= 0) & (places < length)
        moved = np.full((*labels.shape[:axis], length, *labels.shape[axis + 1 :]), value, labels.dtype)
        np.moveaxis(moved, axis, 0)[places[inside]] = np.moveaxis(expand(labels, axis, size), axis, 0)[inside]
        labels = moved
    return labels


def _kept(params: Params, shape: Shape, new: Shape) -> list[tuple[int, ...]]:
    return [(axis,) for axis in range(len(shape))]


def _sources_of_broadcast(params: Params, shape: Shape, new: Shape) -> list[tuple[int, ...]]:
    back = {to: axis for axis, to in enumerate(integers(params["broadcast_dimensions"]))}
    return [(back[to],) if to in back else () for to in range(len(new))]


def _sources_of_reshape(params: Params, shape: Shape, new: Shape) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()] * len(new)
    for ins, outs in regrouped(shape, new):
        for to in outs:
            found[to] = tuple(ins)
    return found


def _cut(params: Params, shape: Shape, new: Shape) -> Callable[[Labels], Labels]:
    strides = params["strides"] or (1,) * len(shape)
    starts, limits = integers(params["start_indices"]), integers(params["limit_indices"])
    return lambda labels: sliced(labels, starts, limits, strides)


def _reshaped(params: Params, shape: Shape, new: Shape) -> Callable[[Labels], Labels] | None:
    return None if params.get("dimensions") is not None else lambda labels: reshape(labels, shape, new)


# ---- where the axis of an operand goes
def without(gone: Sequence[Any], axis: int) -> int | None:
    """An axis's place once others are taken away."""
    return None if axis in gone else axis - sum(1 for other in gone if other < axis)


def unless(key: str) -> Callable[..., int | None]:
    """Of operations along an axis, or axes, in this parameter: all others stay as they are."""

    def axis_of(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
        touched = params[key]
        return None if axis in (touched if isinstance(touched, Sequence) else (touched,)) else axis

    return axis_of


def whole(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    """Of a piece of the operand, or a piece put into it, that has the whole of the axis; and entry by entry."""
    return axis if axis < len(out) and shape[axis] == out[axis] else None


def _axis_of_reshape(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    before = math.prod(shape[:axis])
    places = (j for j, size in enumerate(out) if size == shape[axis] and math.prod(out[:j]) == before)
    return None if params["dimensions"] is not None else next(places, None)


def _axis_of_broadcast(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    place = int(params["broadcast_dimensions"][axis])
    return place if shape[axis] == out[place] else None


# ---- how a walk reads them
def moved(
    value: Value, move: Callable[[Labels], Labels], sources: Sequence[tuple[int, ...]], permutation: Sequence[int] | None = None
) -> Value:
    """An array whose entries are moved. ``permutation``: where nothing but its axes change places."""
    if isinstance(value, Signals):
        return value.labelled(move(value.labels))
    axes = tuple(bits_of(value.axes[axis] for axis in of_one) for of_one in sources)
    if value.whole is not None and permutation is not None:
        order = tuple(value.whole.order[axis] for axis in permutation)
        return replace(value, axes=axes, whole=value.whole._replace(order=order))
    return value.showing(move(value.entries), axes)


def _concatenated(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value]:
    shapes, axis = [tuple(atom.aval.shape) for atom in equation.invars], int(equation.params["dimension"])
    weights = [value for value in inputs if isinstance(value, Weights)]
    if len(weights) == len(inputs):
        return [_joined_weights(weights, shapes, axis)]
    parts = [walk.recorder.as_signals(one, "concatenated with data") for one in inputs]
    return [made_of(_side_by_side(walk, [part.labels for part in parts], shapes, axis), parts)]


def _side_by_side(walk: Walk, labels: list[Labels], shapes: list[Shape], axis: int) -> Labels:
    """Labels of a concatenation; maps that are joined at their positions, as a class token to many others, become one."""
    maps = any(one.shape[axis] == 1 < shape[axis] and one.size != 1 for one, shape in zip(labels, shapes, strict=True))
    size = sum(shape[axis] * one.size // max(1, one.shape[axis]) for one, shape in zip(labels, shapes, strict=True))
    if maps and size > MANY:
        ones = [walk.recorder.merge(one, (axis,), tie=True) for one in labels]
        joined = concatenate(ones, [(*s[:axis], 1, *s[axis + 1 :]) for s in shapes], axis)
        return walk.recorder.merge(joined, (axis,), tie=True)
    return concatenate(labels, shapes, axis)


def _joined_weights(inputs: list[Weights], shapes: list[Shape], axis: int) -> Weights:
    entries = concatenate([value.entries for value in inputs], shapes, axis)
    sites = tuple(dict.fromkeys(site for value in inputs for site in value.sites))
    axes = tuple(bits_of(column) for column in zip(*(value.axes for value in inputs), strict=True))
    strides = {value.stride for value in inputs}
    stride = strides.pop() if len(strides) == 1 else None
    return Weights(sites, axes, listed=entries, solid=any(value.solid for value in inputs), stride=stride)


def _parts(params: Params, shapes: Sequence[Any], known: Known) -> Function:
    ends = np.cumsum(params["sizes"]).tolist()
    pairs = list(zip(ends, params["sizes"], strict=True))
    return lambda array: [lax.slice_in_dim(array, end - size, end, axis=params["axis"]) for end, size in pairs]


def _padded(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value] | None:
    (value, filler), shape = inputs, tuple(equation.invars[0].aval.shape)
    if not isinstance(filler, Signals) or not filler.constant or (isinstance(value, Weights) and not filler.zero):
        return None
    label = int(filler.labels.reshape(-1)[0])
    config = [integers(sides) for sides in equation.params["padding_config"]]
    return [moved(value, lambda labels: pad(labels, shape, label, config), _kept({}, shape, shape))]


def _of_one(
    name: str, plan: str, move: Callable[..., Any], axis: Callable[..., Any], sources: Callable[..., Any] = _kept
) -> Primitive:
    """Of one array. ``sources``: for each axis of the result, the axes of the array that run along it."""

    def read(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value] | None:
        shapes = tuple(equation.invars[0].aval.shape), tuple(equation.outvars[0].aval.shape)
        labels = move(equation.params, *shapes)
        if labels is None:
            return None
        return [moved(inputs[0], labels, sources(equation.params, *shapes), equation.params.get("permutation"))]

    return Primitive(name, read=read, move=move, axis=axis, linear="sum", keeps=True, plan=plan)


def _of_several(name: str, plan: str, read: Callable[..., Any], axis: Callable[..., Any]) -> Primitive:
    return Primitive(name, read=read, axis=axis, linear="sum", keeps=True, plan=plan)


RECORDS = [
    _of_one(
        "transpose",
        "transpose",
        lambda params, shape, new: lambda labels: labels.transpose(integers(params["permutation"])),
        lambda params, shape, out, operand, axis: list(params["permutation"]).index(axis),
        lambda params, shape, new: [(axis,) for axis in integers(params["permutation"])],
    ),
    _of_one(
        "broadcast_in_dim",
        "broadcast",
        lambda params, shape, new: lambda labels: broadcast_in_dim(labels, len(new), integers(params["broadcast_dimensions"])),
        _axis_of_broadcast,
        _sources_of_broadcast,
    ),
    _of_one(
        "squeeze",
        "reshape",
        lambda params, shape, new: lambda labels: labels.squeeze(integers(params["dimensions"])),
        lambda params, shape, out, operand, axis: without(params["dimensions"], axis),
        lambda params, shape, new: [(axis,) for axis in range(len(shape)) if axis not in params["dimensions"]],
    ),
    _of_one("reshape", "reshape", _reshaped, _axis_of_reshape, _sources_of_reshape),
    _of_one("slice", "slice", _cut, whole),
    _of_one(
        "rev",
        "reverse",
        lambda params, shape, new: lambda labels: np.flip(labels, params["dimensions"]),
        unless("dimensions"),
    ),
    _of_several("concatenate", "concatenate", _concatenated, unless("dimension")),
    Primitive("split", axis=unless("axis"), linear="sum", keeps=True, written=_parts),
    _of_several(
        "pad", "pad", _padded, lambda params, shape, out, operand, axis: None if any(params["padding_config"][axis]) else axis
    ),
]
