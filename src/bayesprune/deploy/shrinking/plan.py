"""What a smaller program is made by: which entries are known, which are needed, which slices stay, and what a product reads."""

import functools
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from bayesprune.deploy.program.ops import Op, OpProgram
from bayesprune.deploy.shrinking.depend import Indicators, KnownArrays, backward, forward, pads
from bayesprune.deploy.shrinking.ties import keeps


@dataclass(frozen=True, eq=False)
class ShrinkPlan:
    """What is to stay: by array and axis the slices, ``keep``; ``needed``, entries that the outputs depend on."""

    program: OpProgram
    known: KnownArrays
    needed: Indicators
    keep: Mapping[int, list[np.ndarray]]


def make_plan(program: OpProgram, random: Mapping[str, np.ndarray], fixed: Mapping[str, np.ndarray]) -> ShrinkPlan:
    """``random``: {site: which of its weights are alive}; ``fixed``: {site: values}. Every weight is in one of them."""
    unknown = {program.weights[site]: np.asarray(alive, bool) for site, alive in random.items()}
    values = {number: np.asarray(pattern, np.float64) for number, pattern in unknown.items()}
    for site, value in fixed.items():
        values[program.weights[site]] = np.asarray(value, np.float64)
        unknown[program.weights[site]] = np.zeros(np.shape(value), bool)
    unknown[program.rows] = np.ones(program.shapes[program.rows], bool)
    values[program.rows] = np.ones(program.shapes[program.rows])
    known = forward(program, unknown, values)
    needed = backward(program, known)
    return ShrinkPlan(program, known, needed, keeps(program, known, needed))


def slim(array: np.ndarray, keep: Sequence[np.ndarray], whole: Collection[int] = ()) -> np.ndarray:
    """The slices of an array that stay, by axis; all of them along the axes ``whole``.

    >>> slim(np.arange(6).reshape(2, 3), [np.array([True, False]), np.array([True, False, True])]).tolist()
    [[0, 2]]
    """
    for axis, kept in enumerate(keep):
        if axis not in whole and not kept.all():
            array = np.compress(kept, array, axis)
    return array


# ---- of the slices that a product sums over, those whose part of the sum is not a constant
def summed(op: Op) -> list[tuple[int, int]]:
    """The pairs of axes that a product sums over and may read in part."""
    if op.name == "dot":
        return list(zip(*op.attributes["contract"], strict=True))
    return [(op.attributes["data"][1], op.attributes["weights"][1])] if op.attributes["groups"] == 1 else []


def reads_of(plan: ShrinkPlan, emitted: Set[int], op: Op, pairs: list[tuple[int, int]]) -> list[np.ndarray]:
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
