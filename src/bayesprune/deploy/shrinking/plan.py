"""What a smaller program is made by: which entries are known, which are needed, and which slices stay."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.shrinking.depend import Indicators, KnownArrays, backward, forward
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
