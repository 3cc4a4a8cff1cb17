"""What a product reads: of the slices that it sums over, those whose part of the sum is not a constant."""

import functools
from collections.abc import Mapping, Set

import numpy as np

from bayesprune.deploy.program.ops import Op
from bayesprune.deploy.shrinking.depend import pads
from bayesprune.deploy.shrinking.plan import ShrinkPlan, slim


def summed(op: Op) -> list[tuple[int, int]]:
    """The pairs of axes that a product sums over and may read in part."""
    if op.name == "dot":
        return list(zip(*op.attributes["contract"], strict=True))
    return [(op.attributes["data"][1], op.attributes["weights"][1])] if op.attributes["groups"] == 1 else []


def reads(plan: ShrinkPlan, emitted: Set[int], op: Op, pairs: list[tuple[int, int]]) -> list[np.ndarray]:
    """For each pair of axes that is summed over: which slices the smaller product reads."""
    kinds = (plan.known.unknown.__getitem__, plan.known.nonzero)
    unknown, nonzero = ([_facing(plan, op, pairs, side, of(op.inputs[side])) for side in (0, 1)] for of in kinds)
    depends = (unknown[0] & nonzero[1]) | (nonzero[0] & unknown[1])
    if pads(op):
        depends = nonzero[0] & nonzero[1]
    found = []
    for position, pair in enumerate(pairs):
        read = depends.any(axis=tuple(axis for axis in range(len(pairs)) if axis != position))
        for side, number in enumerate(op.inputs):
            if number in emitted:
                read = read & plan.keep[number][pair[side]]
        found.append(read)
    return found


def _facing(plan: ShrinkPlan, op: Op, pairs: list[tuple[int, int]], side: int, pattern: np.ndarray) -> np.ndarray:
    """Whether some entry of a pattern holds, at each place of the axes that are summed over."""
    axes = [pair[side] for pair in pairs]
    pattern = slim(pattern, plan.keep[op.inputs[side]], axes)
    rest = tuple(axis for axis in range(pattern.ndim) if axis not in axes)
    return np.asarray(pattern.any(axis=rest)).transpose(np.argsort(np.argsort(axes)).tolist())


def constant_part(
    plan: ShrinkPlan, values: Mapping[int, np.ndarray], op: Op, pairs: list[tuple[int, int]], reads: list[np.ndarray]
) -> list[np.ndarray]:
    """The factors of the part of a product that is constant: of the slices that it no longer reads; none where it is zero."""
    left, right = (np.where(plan.known.unknown[number], 0, values[number]) for number in op.inputs)
    inside = [np.ones(size, bool) for size in left.shape]
    for (axis, _), read in zip(pairs, reads, strict=True):
        inside[axis] = read
    left = np.where(grid(inside), 0, left)
    return [left, right] if left.any() and right.any() else []


def grid(kept: list[np.ndarray]) -> np.ndarray:
    """Entries whose slices are all kept."""
    return np.asarray(functools.reduce(np.logical_and.outer, kept, np.ones((), bool)))
