"""What depends on what, entry by entry: forward from the rows and the random weights, backward from the outputs.

Each operation has a linear stand-in with factors of zero and one that are one where an entry of a result depends on an entry
of an operand. Run forward on indicators it says which results are unknown, transposed it says which operands are needed. Of
operations that move entries, or take them one by one, it is by NumPy: JAX would compile every shape.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import ELEMENTWISE, KEPT_WHOLE, PRODUCTS, Op, OpProgram, reached
from bayesprune.deploy.program.run import evaluate, floating, step

Indicators = dict[int, np.ndarray]
SUM = {"reduce_max": "reduce_sum", "reduce_min": "reduce_sum", "reduce_prod": "reduce_sum"}
SUM |= {"window_max": "window_sum", "window_min": "window_sum"}
MOVING = frozenset(["reshape", "transpose", "broadcast", "slice", "take", "reverse", "concatenate", "pad"])
NOWHERE = -1


class Standin(NamedTuple):
    """The stand-in of one operand: ``forward``, of the operand's entries to the result's, and ``back``; booleans."""

    operand: int
    forward: Callable[[np.ndarray], np.ndarray]
    back: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class KnownArrays:
    """By array: ``unknown``, which entries depend on the rows or on random weights; ``values`` of those that do not (1 in the
    place of the others); ``of_rows``: the arrays in which some entry depends on the rows."""

    unknown: Indicators
    values: dict[int, np.ndarray]
    of_rows: frozenset[int]

    def nonzero(self, number: int) -> np.ndarray:
        """Which entries may be other than zero."""
        return np.asarray(self.unknown[number] | (self.values[number] != 0))


def forward(program: OpProgram, unknown: Mapping[int, np.ndarray], values: Mapping[int, np.ndarray]) -> KnownArrays:
    """``unknown`` and ``values`` of the inputs: the weights and the rows."""
    constants = {number: np.zeros(np.shape(value), bool) for number, value in program.constants.items()}
    # In float64, so that what is folded is as exact as the network is.
    exact = {number: floating(value, np.float64) for number, value in program.constants.items()}
    of_rows = frozenset(reached(program.ops, [program.rows]))
    known = KnownArrays({**constants, **unknown}, {**exact, **values}, of_rows)
    for op in program.ops:
        for number, (pattern, made) in zip(op.outputs, _results(op, program, known), strict=True):
            known.unknown[number] = pattern
            known.values[number] = np.asarray(np.where(pattern, np.ones((), made.dtype), made))
    return known


def _results(op: Op, program: OpProgram, known: KnownArrays) -> list[tuple[np.ndarray, np.ndarray]]:
    """The unknown entries of each result, and its values."""
    shapes = [program.shapes[number] for number in op.outputs]
    if not any(known.unknown[i].any() for i in op.inputs):
        return [(np.zeros(np.shape(made), bool), made) for made in evaluate(op, [known.values[i] for i in op.inputs])]
    if op.name in KEPT_WHOLE:
        return [(np.ones(shape, bool), np.ones(shape, np.float32)) for shape in shapes]
    pattern = np.zeros(shapes[0], bool)
    for one in _standins(op, program, known):
        pattern |= one.forward(known.unknown[one.operand])
    if pattern.all():
        return [(pattern, np.ones(shapes[0], np.float32))]
    values = [known.values[i] for i in op.inputs]
    if op.name == "lookup":  # a number that is in every table, in the place of unknown ones
        values[1] = np.where(known.unknown[op.inputs[1]], 0, values[1])
    with np.errstate(all="ignore"):
        return [(pattern, evaluate(op, values)[0])]


def backward(program: OpProgram, known: KnownArrays) -> Indicators:
    """Which entries the unknown outputs depend on.

    Needed are unknown entries, and known ones that are not zero where an unknown one, such as a random weight, multiplies them;
    or where they are constants of a padded convolution, whose result would be another constant for every pixel.
    """
    needed = {number: np.zeros(np.shape(pattern), bool) for number, pattern in known.unknown.items()}
    needed[program.output] = known.unknown[program.output].copy()
    for op in reversed(program.ops):
        if not any(needed[number].any() for number in op.outputs):
            continue
        if op.name in KEPT_WHOLE:
            for number in op.inputs:
                needed[number][...] = True
            continue
        after = needed[op.outputs[0]]
        for number, back in _transposed(op, program, known, after):
            needed[number] |= back
    return needed


def pads(op: Op) -> bool:
    """Whether it is a convolution with padding."""
    return op.name == "conv" and any(map(any, op.attributes["sides"]))


def _transposed(op: Op, program: OpProgram, known: KnownArrays, after: np.ndarray) -> list[tuple[int, np.ndarray]]:
    found = []
    for one in _standins(op, program, known):
        if known.unknown[one.operand].any():
            found.append((one.operand, one.back(after) & known.unknown[one.operand]))
    if op.name in PRODUCTS:
        for position, (number, other) in enumerate((op.inputs, op.inputs[::-1])):
            constant = ~known.unknown[number] & (known.values[number] != 0)
            factor = known.nonzero(other) if pads(op) else known.unknown[other]
            if constant.any() and factor.any():
                function = _factor(op, program, position, factor)
                found.append((number, _linear(program, number, function).back(after) & constant))
    return [(number, np.asarray(back)) for number, back in found]  # `&` of arrays without axes is a number


def _standins(op: Op, program: OpProgram, known: KnownArrays) -> list[Standin]:
    """One for each operand."""
    if op.name in PRODUCTS:
        sides = enumerate((op.inputs, op.inputs[::-1]))
        functions = [(_factor(op, program, position, known.nonzero(other)), number) for position, (number, other) in sides]
    elif op.name == "lookup":
        functions = _lookup(op, program, known)
    elif op.name in ELEMENTWISE:
        return [_spread(program, number, op.outputs[0]) for number in op.inputs]
    elif op.name in MOVING:
        return [_moved(op, program, position) for position in range(len(op.inputs))]
    else:
        summed = op._replace(name=SUM.get(op.name, op.name))
        functions = [(lambda u: step(summed, 1, [u])[0], number) for number in op.inputs]
    return [_linear(program, number, function) for function, number in functions]


def _linear(program: OpProgram, number: int, function: Callable[[Any], Any]) -> Standin:
    """By a linear function of an operand's indicators, in JAX."""
    shape = jax.ShapeDtypeStruct(program.shapes[number], jnp.float32)

    def back(after: np.ndarray) -> np.ndarray:
        (found,) = jax.linear_transpose(function, shape)(_indicator(after))
        return np.asarray(np.asarray(found) > 0)

    return Standin(number, lambda u: np.asarray(np.asarray(function(_indicator(u))) > 0), back)


def _spread(program: OpProgram, number: int, result: int) -> Standin:
    """Of an operand that is broadcast: back, what any of the results is made of."""
    own, shape = program.shapes[number], program.shapes[result]
    new = len(shape) - len(own)
    axes = (*range(new), *(new + axis for axis, size in enumerate(own) if size == 1))
    return Standin(number, lambda u: np.broadcast_to(u, shape), lambda after: np.asarray(after.any(axis=axes)).reshape(own))


def _moved(op: Op, program: OpProgram, position: int) -> Standin:
    """By the places of the operand's entries, which are moved in their stead; those of others are nowhere."""
    number = op.inputs[position]
    if op.name == "pad" and position == 1:  # a number that is put around
        return _spread(program, number, op.outputs[0])
    size = math.prod(program.shapes[number])
    own = np.arange(size).reshape(program.shapes[number])
    arrays = [np.full(program.shapes[i], NOWHERE) for i in op.inputs]
    source = reader.step(op.name, op.attributes, 1, *arrays[:position], own, *arrays[position + 1 :])

    def back(after: np.ndarray) -> np.ndarray:
        found = np.zeros(size, bool)
        places = source[after]
        found[places[places != NOWHERE]] = True
        return found.reshape(own.shape)

    return Standin(number, lambda u: np.append(np.ravel(u), False)[source], back)


def _factor(op: Op, program: OpProgram, position: int, pattern: np.ndarray) -> Callable[[Any], Any]:
    """A product as a function of the factor at ``position``, the other being an indicator; both may be one array."""
    fixed, shape = _indicator(pattern), program.shapes[op.outputs[0]]
    if op.name == "mul":
        return lambda u: jnp.broadcast_to(u * fixed, shape)
    if position == 0:
        return lambda u: step(op, 1, [u, fixed])[0]
    return lambda u: step(op, 1, [fixed, u])[0]


def _lookup(op: Op, program: OpProgram, known: KnownArrays) -> list[tuple[Callable[[Any], Any], int]]:
    """Of an index that is known the rows that it names; of another one any row, and what a row may be other than zero in."""
    (table, index), shape = op.inputs, program.shapes[op.outputs[0]]
    if not known.unknown[index].any():
        return [(lambda u: step(op._replace(attributes={"fill": False}), 1, [u, known.values[index]])[0], table)]
    filled = _indicator(np.asarray(known.nonzero(table).any(axis=0)))
    number = lambda u: jnp.broadcast_to(u.reshape(u.shape[:-1] + (1,) * filled.ndim) * filled, shape)  # noqa: E731
    return [(lambda u: jnp.broadcast_to(u.sum(0), shape), table), (number, index)]


def _indicator(pattern: np.ndarray) -> jax.Array:
    return jnp.asarray(pattern, jnp.float32)
