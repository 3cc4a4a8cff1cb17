"""The shapes of a network's rows and outputs, checked."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from bayesprune.core.checks import check_integer


def row_shape(input_shape: Any) -> tuple[int, ...]:
    """The shape of a row; a number is the length of a vector."""
    sizes = (input_shape,) if isinstance(input_shape, int | np.integer) else input_shape
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        raise TypeError(f"input_shape must be the shape of one row of x, such as (28, 28, 1), got {input_shape!r}.")
    for size in (sizes := tuple(sizes)):
        check_integer(size, "input_shape")
    return tuple(map(int, sizes))


def output_shape(output: Any) -> tuple[int, ...]:
    """The shape of one row's outputs, from what the network gives for one row."""
    shape = getattr(output, "shape", None)
    if shape is None:
        raise TypeError("net must give one array of outputs (rows, outputs), got several: return the one that is to be fitted.")
    if len(shape) < 2 or shape[0] != 1 or 0 in shape:
        raise ValueError(
            "net must give outputs of shape (rows, outputs), or (rows, ..., outputs) with tokens or the like between, got "
            f"{shape} for one row: reshape them there."
        )
    return tuple(map(int, shape[1:]))
