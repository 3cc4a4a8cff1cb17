"""Loops: written out turn by turn where they are short; of others only the roles of their weights are read."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesprune.structure import movement
from bayesprune.structure.jaxprs import length, scan_parts
from bayesprune.structure.recorder import LARGEST
from bayesprune.structure.values import CONSTANT, Signals, Value, Weights

MOST_EQUATIONS = 4000  # written out; a longer loop takes seconds to read

Enter = Callable[[Any, Sequence[Value]], list[Value]]  # (program, inputs) -> outputs
Join = Callable[[list[Value], list[tuple[int, ...]], int], Value]  # concatenate along an axis


def read_scan(params: dict[str, Any], inputs: list[Value], enter: Enter, join: Join) -> list[Value] | None:
    """A scan, turn by turn; None if there are too many of them."""
    consts, carry, slices = scan_parts(params, inputs)
    stacked_size = sum(math.prod(value.shape) for value in slices if isinstance(value, Weights))
    equations = params["length"] * length(params["jaxpr"])
    if not 0 < equations <= MOST_EQUATIONS or stacked_size > LARGEST:
        return None
    carried, turns = len(carry), range(params["length"])
    collected: list[list[Value]] = []
    for turn in reversed(turns) if params["reverse"] else turns:
        made = enter(params["jaxpr"], [*consts, *carry, *(_slice(value, turn) for value in slices)])
        carry = made[:carried]
        collected.append(made[carried:])
    ordered = collected[::-1] if params["reverse"] else collected
    avals = params["jaxpr"].out_avals[carried:]
    stacked = []
    for parts, aval in zip(zip(*ordered, strict=True), avals, strict=True):
        shapes = [(1, *aval.shape)] * len(parts)
        stacked.append(join([_lifted(part) for part in parts], shapes, 0))
    return [*carry, *stacked]


def read_roles(name: str, params: dict[str, Any], inputs: list[Value], enter: Enter) -> None:
    """One turn of a loop that is not followed, for the roles of its weights alone: all else is taken for always there."""
    veiled = [value if isinstance(value, Weights) else value.labelled(_there(value)) for value in inputs]
    if name == "scan":
        consts, carry, slices = scan_parts(params, veiled)
        enter(params["jaxpr"], [*consts, *map(_any_turn, carry), *map(_first, slices)])
    if name == "while":
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        enter(params["body_jaxpr"], [*veiled[first:last], *map(_any_turn, veiled[last:])])


def _there(value: Signals) -> np.ndarray:
    return np.full((1,) * value.labels.ndim, CONSTANT)


def _any_turn(value: Value) -> Value:
    """What is carried, at any turn: at each it is another number, or made otherwise of the weights."""
    return replace(value, stride=None) if isinstance(value, Weights) else replace(value, literal=None)


def _first(value: Value) -> Value:
    """The slice of the first turn, which says where those of the others are, if they are equally far apart."""
    made = _slice(value, 0)
    if isinstance(made, Signals) or value.shape[0] == 1 or not math.prod(made.shape):
        return made
    assert isinstance(value, Weights)
    entries = value.entries
    stride = int((entries[1] - entries[0]).flat[0])
    regular = all((later == entries[0] + turn * stride).all() for turn, later in enumerate(entries))
    return replace(made, stride=stride if regular else None)


def _slice(value: Value, turn: int) -> Value:
    if isinstance(value, Weights):
        return value.showing(value.entries[turn if value.shape[0] > 1 else 0], value.axes[1:])
    return value.labelled(value.labels[turn if value.shape[0] > 1 else 0])


def _lifted(value: Value) -> Value:
    if isinstance(value, Weights):
        return value.showing(value.entries[None], (0, *value.axes))
    ndim = value.labels.ndim
    return value.labelled(movement.broadcast_in_dim(value.labels, ndim + 1, range(1, ndim + 1)))
