"""Branches and loops. Loops that are too long to be written out: only the roles of their weights are read."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesprune.structure.elementwise import read_elementwise
from bayesprune.structure.graph import CONSTANT, Signals, Value, Weights
from bayesprune.structure.jaxprs import Equation, JaxprLike, scan_parts
from bayesprune.structure.ops import elementwise
from bayesprune.structure.primitive import Primitive, Walk
from bayesprune.structure.recorder import LARGEST

(_SELECT,) = (record for record in elementwise.RECORDS if record.name == "select_n")


def too_large(params: dict[str, Any], inputs: Sequence[Value]) -> bool:
    """Whether a scan takes slices of so many weights that they count as one."""
    _, _, slices = scan_parts(params, inputs)
    return sum(math.prod(value.shape) for value in slices if isinstance(value, Weights)) > LARGEST


def _branches(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value]:
    """A choice between programs: its results are those of any of them."""
    (chooser, *rest), branches = inputs, equation.params["branches"]
    if isinstance(chooser, Signals) and chooser.literal is not None:
        return walk.closed(branches[min(max(int(chooser.literal), 0), len(branches) - 1)], rest)
    made = [walk.closed(branch, rest) for branch in branches]
    chooser = walk.recorder.as_signals(chooser, "chooses a branch")
    if all(len({id(value) for value in column}) == 1 for column in zip(*made, strict=True)) or len(branches) == 1:
        return made[0]
    given = [[walk.recorder.as_signals(value, "given by a branch") for value in column] for column in zip(*made, strict=True)]
    return [read_elementwise(walk.recorder, _SELECT, {}, [chooser, *column]) for column in given]


def _roles_in_scan(walk: Walk, equation: Equation, inputs: list[Value]) -> None:
    consts, carry, slices = scan_parts(equation.params, _veiled(inputs))
    inner = [*consts, *map(_any_turn, carry), *map(_first, slices)]
    _one_turn(walk, equation.params["jaxpr"], inner, equation.params["length"])


def _roles_in_while(walk: Walk, equation: Equation, inputs: list[Value]) -> None:
    params, veiled = equation.params, _veiled(inputs)
    first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    _one_turn(walk, params["body_jaxpr"], [*veiled[first:last], *map(_any_turn, veiled[last:])], 1)


def _one_turn(walk: Walk, body: JaxprLike, inputs: list[Value], turns: int) -> None:
    """One turn of a loop that is not followed, for the roles of its weights alone."""
    before, walk.recorder.turns = walk.recorder.turns, (*walk.recorder.turns, turns)
    walk.closed(body, inputs)
    walk.recorder.turns = before


def _veiled(inputs: list[Value]) -> list[Value]:
    """All but weights is taken for always there."""
    return [
        value if isinstance(value, Weights) else value.labelled(np.full((1,) * value.labels.ndim, CONSTANT)) for value in inputs
    ]


def _any_turn(value: Value) -> Value:
    """What is carried, at any turn: at each it is another number, or made otherwise of the weights."""
    return replace(value, stride=None) if isinstance(value, Weights) else replace(value, literal=None)


def _first(value: Value) -> Value:
    """The slice of the first turn, which says where those of the others are, if they are equally far apart."""
    if isinstance(value, Signals):
        return value.labelled(value.labels[0])
    entries = value.entries
    made = value.showing(entries[0], value.axes[1:])
    if len(entries) == 1 or not math.prod(made.shape):
        return made
    stride = int((entries[1] - entries[0]).flat[0])
    regular = all((later == entries[0] + turn * stride).all() for turn, later in enumerate(entries))
    return replace(made, stride=stride if regular else None)


RECORDS = [
    Primitive("cond", read=_branches),
    Primitive("scan", read=_roles_in_scan),
    Primitive("while", read=_roles_in_while),
]
