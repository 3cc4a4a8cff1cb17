"""One operation by NumPy, in float64 by default."""

import numpy as np
from jax.typing import DTypeLike

from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import OPAQUE, Op
from bayesprune.deploy.program.run import step


def evaluate(op: Op, arrays: list[np.ndarray], dtype: DTypeLike = np.float64) -> list[np.ndarray]:
    """The results for one row, floats in ``dtype``; of an opaque operation by JAX, which may round them first.

    >>> evaluate(Op("convert", (0,), (1,), {"dtype": "float32"}), [np.asarray([1, 2])])[0].dtype
    dtype('float64')
    """
    if op.name == OPAQUE:
        made = step(op, 1, list(arrays))
    else:
        floats = op.name == "convert" and op.attributes["dtype"].startswith("float")
        made = [reader.step(op.name, {"dtype": dtype} if floats else op.attributes, 1, *arrays)]
    return [floating(np.asarray(each), dtype) for each in made]


def floating(array: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """The array with its floats in ``dtype``; whole numbers and booleans stay as they are."""
    return array.astype(dtype, copy=False) if array.dtype.kind == "f" else array
