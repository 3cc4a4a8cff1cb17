"""Padding that a plan has no form for: numbers between neighbours, and edges that are cut off."""

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from bayesprune.structure.jaxprs import Equation, program_for


def plain_edges(equation: Equation) -> Any:
    """The program of such a padding by reshapes, slices and plain edges; None: it is another operation, or plain."""
    if equation.primitive.name != "pad":
        return None
    config = [tuple(map(int, sides)) for sides in equation.params["padding_config"]]
    shape = equation.invars[0].aval.shape
    taken = [max(-low, 0) + max(-high, 0) for low, high, _ in config]
    lengths = [n + inner * max(n - 1, 0) for n, (_, _, inner) in zip(shape, config, strict=True)]
    if all(not cut and not inner for cut, (_, _, inner) in zip(taken, config, strict=True)):
        return None
    if any(cut > length for cut, length in zip(taken, lengths, strict=True)) or 0 in shape:
        return None
    return program_for(equation, lambda array, filler: _padded(array, filler, config))


def _padded(array: jax.Array, filler: jax.Array, config: Sequence[tuple[int, ...]]) -> Any:
    for axis, (low, high, inner) in enumerate(config):
        array = _apart(array, filler, axis, inner) if inner else array
        array = lax.slice_in_dim(array, max(-low, 0), array.shape[axis] - max(-high, 0), axis=axis)
    return lax.pad(array, filler, [(max(low, 0), max(high, 0), 0) for low, high, _ in config])


def _apart(array: jax.Array, filler: jax.Array, axis: int, inner: int) -> Any:
    """With ``inner`` fillers between neighbours along an axis."""
    size, sides = array.shape[axis], [(0, 0, 0)] * (array.ndim + 1)
    sides[axis + 1] = (0, inner, 0)
    each = lax.pad(lax.expand_dims(array, (axis + 1,)), filler, sides)
    shape = (*array.shape[:axis], size * (inner + 1), *array.shape[axis + 1 :])
    return lax.slice_in_dim(each.reshape(shape), 0, (size - 1) * (inner + 1) + 1, axis=axis)
