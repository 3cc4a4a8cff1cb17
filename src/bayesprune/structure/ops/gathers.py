"""Look-ups, and parts of arrays taken or put at places that the network says: gathers, scatters, dynamic slices."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from bayesprune.structure.graph import CONSTANT, Labels, Shape, Signals, Terms, Value, Weights
from bayesprune.structure.jaxprs import Equation
from bayesprune.structure.ops.movement import whole
from bayesprune.structure.primitive import Function, Known, Params, Primitive, Walk, numbers_of
from bayesprune.structure.recorder import Recorder

MOST_PLACES = 256  # that an array is written out around


def _gather(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value] | None:
    """A look-up: of each axis of the table either all is taken or single entries. None: it is neither."""
    (table, index), params, recorder = inputs, equation.params, walk.recorder
    shape = tuple(equation.invars[0].aval.shape)
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    if numbers.operand_batching_dims or not isinstance(index, Signals):
        return None
    places = [axis for axis in range(len(shape)) if axis not in numbers.collapsed_slice_dims]
    whole_axes = {axis: to for axis, to in zip(places, numbers.offset_dims, strict=True) if sizes[axis] == shape[axis]}
    chosen = tuple(axis for axis in range(len(shape)) if axis not in whole_axes)
    rank = len(numbers.offset_dims) + index.labels.ndim - 1
    if isinstance(table, Weights):
        recorder.looked_up |= set(table.sites)
        bits = recorder.role(table, index.upstream, index.heads, inputs=chosen, outputs=tuple(whole_axes))
        kept = [size if axis in whole_axes else 1 for axis, size in enumerate(table.shape)]
        labels, heads = recorder.new(tuple(kept)), bits
        once = np.full((1,) * (labels.ndim + 1), CONSTANT)
        recorder.weigh(table, labels[None], once)
        chooser = recorder.merge(index.labels, range(index.labels.ndim), tie=False)
        recorder.weigh(table, labels[None], chooser.reshape(once.shape))
    else:
        labels, bits, heads = recorder.merge(table.labels, chosen, tie=False), table.upstream, table.heads
        if not index.constant:
            labels = _depending_on(recorder, labels, [index])
    out = [1] * rank
    for axis, to in whole_axes.items():
        out[to] = labels.shape[axis]
    order = sorted(whole_axes, key=lambda axis: whole_axes[axis])
    labels = labels.transpose(*order, *chosen).reshape(out)
    of_rows = index.of_rows or (isinstance(table, Signals) and table.of_rows)
    return [Signals(labels, of_rows, bits | index.upstream, heads)]


def _depending_on(recorder: Recorder, labels: Labels, choosers: Sequence[Signals]) -> Labels:
    """The same signals where others decide which of their places is read."""
    target = recorder.new(labels.shape, recorder.blend(labels))
    recorder.terms.append(Terms(target, labels))
    for chooser in choosers:
        one = recorder.merge(chooser.labels, range(chooser.labels.ndim), tie=False)
        recorder.terms.append(Terms(target, labels, one.reshape((1,) * labels.ndim)))
    recorder.tie(target, labels)
    return target


def _sliced(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value] | None:
    """A slice whose place the network says only when it runs; of others it is written where each entry goes."""
    (value, *starts), shape = inputs, tuple(equation.invars[0].aval.shape)
    choosers = [start for start in starts if isinstance(start, Signals)]
    if isinstance(value, Weights) or len(choosers) < len(starts) or None not in numbers_of(equation, inputs)[1:]:
        return None
    axes = [axis for axis, size in enumerate(equation.params["slice_sizes"]) if size != shape[axis]]
    labels = walk.recorder.merge(value.labels, axes, tie=False)
    moving = [start for start in choosers if not start.constant]
    return [value.labelled(_depending_on(walk.recorder, labels, moving) if moving else labels)]


# ---- the same in simpler operations
def _part(params: Params, shapes: Sequence[Any], known: Known) -> Function | None:
    """A slice whose place is known."""
    starts = _starts(known[1:], shapes[0], params["slice_sizes"])
    if starts is None:
        return None
    ends = [start + size for start, size in zip(starts, params["slice_sizes"], strict=True)]
    return lambda array, *_: lax.slice(array, starts, ends)


def _placed(params: Params, shapes: Sequence[Any], known: Known) -> Function | None:
    """An array in whose place, which is known, another one is put."""
    starts = _starts(known[2:], shapes[0], shapes[1])
    if starts is None:
        return None

    def put(whole: jax.Array, part: jax.Array, axis: int) -> jax.Array:
        if axis == whole.ndim:
            return part
        first, last = starts[axis], starts[axis] + part.shape[axis]
        inside = put(lax.slice_in_dim(whole, first, last, axis=axis), part, axis + 1)
        before = [lax.slice_in_dim(whole, 0, first, axis=axis)] if first > 0 else []
        after = [lax.slice_in_dim(whole, last, whole.shape[axis], axis=axis)] if last < whole.shape[axis] else []
        return lax.concatenate([*before, inside, *after], axis) if before or after else inside

    return lambda whole, part, *_: put(whole, part, 0)


def _starts(known: Known, shape: Sequence[int], sizes: Sequence[int]) -> list[int] | None:
    """Where a slice begins, which is moved inside as `jax.lax` moves it; None: the network says so only when it runs."""
    if any(start is None for start in known):
        return None
    return [min(max(int(at), 0), whole - n) for at, whole, n in zip(known, shape, sizes, strict=True)]  # type: ignore[arg-type]


def _put(fold: Function) -> Any:
    """Slices of an array along one axis, at places that are known, in which others are put, or added, ... by ``fold``."""

    def write(params: Params, shapes: Sequence[Any], known: Known) -> Function | None:
        (shape, of_index, of_updates), numbers, index = shapes, params["dimension_numbers"], known[1]
        if index is None or len(of_index) > 2 or of_index[-1:] != (1,) or numbers.operand_batching_dims:
            return None
        (axis,), places = numbers.scatter_dims_to_operand_dims, np.ravel(index).tolist()
        window = [of_updates[one] for one in numbers.update_window_dims]
        all_else = tuple(numbers.inserted_window_dims) == (axis,) and window == [*shape[:axis], *shape[axis + 1 :]]
        inside = all(0 <= place < shape[axis] for place in places)
        if not all_else or not inside or not 0 < len({*places}) == len(places) <= MOST_PLACES:
            return None
        along = next((one for one in range(len(of_updates)) if one not in numbers.update_window_dims), None)

        def function(array: jax.Array, _: object, updates: jax.Array) -> jax.Array:
            pieces, first = [], 0
            for turn, place in sorted(enumerate(places), key=lambda pair: pair[1]):
                update = updates if along is None else lax.index_in_dim(updates, turn, along, keepdims=False)
                old = lax.slice_in_dim(array, place, place + 1, axis=axis)
                before = [lax.slice_in_dim(array, first, place, axis=axis)] if place > first else []
                pieces += [*before, fold(old, lax.expand_dims(update, (axis,)))]
                first = place + 1
            after = [lax.slice_in_dim(array, first, shape[axis], axis=axis)] if first < shape[axis] else []
            return lax.concatenate([*pieces, *after], axis)

        return function

    return write


# ---- where the axis of an operand goes
def _axis_of_gather(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
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


_OF_PLACES = range(1, 99)
_FOLDS: dict[str, Function] = {
    "scatter": lambda old, new: new,
    "scatter-add": lax.add,
    "scatter-sub": lax.sub,
    "scatter-mul": lax.mul,
    "scatter-max": lax.max,
    "scatter-min": lax.min,
}
RECORDS = [
    Primitive("gather", read=_gather, axis=_axis_of_gather, linear="sum", but=(1,), keeps=True, chosen=True, plan="lookup"),
    Primitive("dynamic_slice", read=_sliced, axis=whole, linear="sum", but=_OF_PLACES, written=_part, keeps=True, chosen=True),
    Primitive("dynamic_update_slice", axis=whole, linear="sum", but=_OF_PLACES[1:], written=_placed),
    *[Primitive(name, written=_put(fold)) for name, fold in _FOLDS.items()],
]
