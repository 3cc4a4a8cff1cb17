"""Operations that only move the entries of an array, done on labels of these entries.

A label array has the rank of the array that it describes, and size 1 along every axis along which its labels are the same.
So an image of 32 x 32 pixels and 64 channels is described by 64 labels, and most steps cost next to nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

Labels = Int[np.ndarray, "..."]
Shape = tuple[int, ...]
NOTHING = -1  # the label of an entry that is exactly zero


def integers(values: Sequence[Any]) -> tuple[int, ...]:
    """Plain integers: mapped programs hold NumPy's."""
    return tuple(int(value) for value in values)


def compress(labels: Labels) -> Labels:
    """The same labels with size 1 along every axis along which they do not change.

    >>> compress(np.array([[3, 4], [3, 4]])).tolist()
    [[3, 4]]
    """
    for axis in range(labels.ndim):
        first = labels.take([0], axis)
        if labels.shape[axis] > 1 and (labels == first).all():
            labels = first
    return labels


def expand(labels: Labels, axis: int, size: int) -> Labels:
    """The labels written out along one axis."""
    return np.broadcast_to(labels, (*labels.shape[:axis], size, *labels.shape[axis + 1 :]))


def transpose(labels: Labels, permutation: Sequence[int]) -> Labels:
    """As ``lax.transpose``."""
    return labels.transpose(permutation)


def broadcast_in_dim(labels: Labels, rank: int, dimensions: Sequence[int]) -> Labels:
    """As ``lax.broadcast_in_dim``: the new axes have size 1."""
    sizes = [1] * rank
    for axis, to in enumerate(dimensions):
        sizes[to] = labels.shape[axis]
    return labels.reshape(sizes)


def squeeze(labels: Labels, dimensions: Sequence[int]) -> Labels:
    """As ``lax.squeeze``."""
    return labels.squeeze(tuple(dimensions))


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


def cut(labels: Labels, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]) -> Labels:
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


def split(labels: Labels, sizes: Sequence[int], axis: int) -> list[Labels]:
    """As ``lax.split``."""
    if labels.shape[axis] == 1:
        return [labels] * len(sizes)
    return np.split(labels, np.cumsum(sizes)[:-1], axis)


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


def of_one(name: str, params: dict[str, Any], shape: Shape, new: Shape) -> Callable[[Labels], Labels] | None:
    """What an operation on one array of ``shape`` does to its labels, if it moves entries and does nothing else."""
    match name:
        case "transpose":
            return lambda labels: transpose(labels, integers(params["permutation"]))
        case "broadcast_in_dim":
            return lambda labels: broadcast_in_dim(labels, len(new), integers(params["broadcast_dimensions"]))
        case "squeeze":
            return lambda labels: squeeze(labels, integers(params["dimensions"]))
        case "reshape" if params.get("dimensions") is None:
            return lambda labels: reshape(labels, shape, new)
        case "slice":
            strides = params["strides"] or (1,) * len(shape)
            starts, limits = integers(params["start_indices"]), integers(params["limit_indices"])
            return lambda labels: cut(labels, starts, limits, strides)
        case "rev":
            return lambda labels: np.flip(labels, params["dimensions"])
    return None


def sources(name: str, params: dict[str, Any], shape: Shape, new: Shape) -> list[tuple[int, ...]]:
    """For each axis of the result of such an operation, the axes of the array that run along it.

    >>> sources("reshape", {}, (2, 3, 4), (6, 1, 4))
    [(0, 1), (), (2,)]
    """
    match name:
        case "transpose":
            return [(axis,) for axis in integers(params["permutation"])]
        case "broadcast_in_dim":
            back = {to: axis for axis, to in enumerate(integers(params["broadcast_dimensions"]))}
            return [(back[to],) if to in back else () for to in range(len(new))]
        case "squeeze":
            return [(axis,) for axis in range(len(shape)) if axis not in params["dimensions"]]
        case "reshape":
            found: list[tuple[int, ...]] = [()] * len(new)
            for ins, outs in regrouped(shape, new):
                for to in outs:
                    found[to] = tuple(ins)
            return found
    return [(axis,) for axis in range(len(shape))]
