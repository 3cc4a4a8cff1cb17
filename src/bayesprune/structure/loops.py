"""Loops that are too long to be written out: only the roles of their weights are read."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesprune.structure.jaxprs import scan_parts
from bayesprune.structure.recorder import LARGEST
from bayesprune.structure.values import CONSTANT, Signals, Value, Weights

Enter = Callable[[Any, Sequence[Value]], list[Value]]  # (program, inputs) -> outputs


def too_large(params: dict[str, Any], inputs: list[Value]) -> bool:
    """Whether a scan takes slices of so many weights that they are not told apart."""
    _, _, slices = scan_parts(params, inputs)
    return sum(math.prod(value.shape) for value in slices if isinstance(value, Weights)) > LARGEST


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
    made = _first_of(value)
    if isinstance(made, Signals) or value.shape[0] == 1 or not math.prod(made.shape):
        return made
    assert isinstance(value, Weights)
    entries = value.entries
    stride = int((entries[1] - entries[0]).flat[0])
    regular = all((later == entries[0] + turn * stride).all() for turn, later in enumerate(entries))
    return replace(made, stride=stride if regular else None)


def _first_of(value: Value) -> Value:
    if isinstance(value, Weights):
        return value.showing(value.entries[0], value.axes[1:])
    return value.labelled(value.labels[0])
