"""The rows that a compact network takes, checked, as its program takes them."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from bayesprune.core.numbers import real_numbers, without_mask
from bayesprune.core.types import Array, ArrayTree, PyTree
from bayesprune.deploy.program.packing import Leaf, Packing
from bayesprune.deploy.reader import WHOLE
from bayesprune.infer.predict import check_rows
from bayesprune.model.inputs import check_places
from bayesprune.structure.lookups import Bounds


def taken(inputs: Packing, x: PyTree) -> Any:
    """Rows of the types that the network takes: one array as it came, of several the one that they are side by side.

    Refused are no bytes, where it scales bytes: whether they were scaled already, nothing says; real numbers, where it takes
    whole ones or booleans; whole numbers beyond `WHOLE`; of several arrays, others than the network's, and NaN.
    """
    if inputs.is_one:
        _check_type(inputs.leaves[0], x)
        return x
    return _side_by_side(inputs, x)


def how_many(inputs: Packing, x: Any) -> int:
    """Rows as they are given, to choose an engine by: whether they are rows of the network is for the engine to say."""
    shapes = [np.shape(leaf) for leaf in ([x] if inputs.is_one else jax.tree.leaves(x)[:1])]  # nothing leaves its device
    return shapes[0][0] if shapes and shapes[0] else 1


def check_bounds(bounds: Sequence[Bounds | None], inputs: Packing, x: ArrayTree) -> None:
    """Refuse whole numbers that the network's tables do not have; other faults of rows are found by what runs."""
    if not any(bounds) or not (inputs.is_one or jax.tree.structure(x) == inputs.structure):
        return
    for limits, leaf, value in zip(bounds, inputs.leaves, [x] if inputs.is_one else jax.tree.leaves(x), strict=True):
        rows = np.asarray(value)  # of one array also nested lists
        if limits is not None and rows.shape[1:] == leaf.shape and len(rows):
            check_places(rows, leaf.name, limits)


def checked(inputs: Packing, x: ArrayTree, bounds: Sequence[Bounds | None] = ()) -> np.ndarray:
    """`taken`, in float32. Raises ``ValueError`` for another shape, no rows, NaN and infinities, and as `check_bounds`."""
    check_bounds(bounds, inputs, x)
    return checked_rows(taken(inputs, x), inputs.row_shape)


def checked_rows(x: Array, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of one array in float32. Raises ``ValueError`` for another shape, no rows, NaN and infinities."""
    if not (type(x) is np.ndarray and x.dtype == np.float32 and np.isfinite(x).all()):  # for one row, the rest takes longer
        x = np.asarray(real_numbers(x, "x"), np.float32)
    check_rows(x, shape)
    return x


def random_rows(rng: np.random.Generator, inputs: Packing, vocabulary: int | None, num_rows: int) -> Any:
    """Rows of the types that a network takes; whole numbers are below ``vocabulary``, the length of its smallest table.

    >>> inputs = Packing.of_data([{"path": ["tokens"], "shape": [5], "takes": "int32"}])
    >>> random_rows(np.random.default_rng(0), inputs, 3, 1)["tokens"].max()
    np.int32(2)
    """
    ends = {"uint8": 256, "int32": 2 if vocabulary is None else vocabulary, "bool": 2}

    def rows(leaf: Leaf) -> np.ndarray:
        shape = (num_rows, *leaf.shape)
        if leaf.dtype in ends:
            return rng.integers(0, ends[leaf.dtype], shape).astype(leaf.dtype)
        return rng.standard_normal(shape).astype(np.float32)

    return inputs.tree([rows(leaf) for leaf in inputs.leaves])


def _side_by_side(inputs: Packing, x: ArrayTree) -> np.ndarray:
    wanted = ", ".join(f"{leaf.name} of shape {('rows', *leaf.shape)}" for leaf in inputs.leaves).replace("'", "")
    if jax.tree.structure(x) != inputs.structure:
        tree = inputs.tree([leaf.name for leaf in inputs.leaves])
        raise TypeError(f"x must be as the network's example= was, {tree}: {wanted}; got {jax.tree.structure(x)}.")
    parts = []
    for leaf, value in zip(inputs.leaves, jax.tree.leaves(x), strict=True):
        _check_type(leaf, value)
        parts.append(np.asarray(real_numbers(value, leaf.name), np.float32))
        if parts[-1].ndim == 0 or parts[-1].shape[1:] != leaf.shape or len(parts[-1]) != len(parts[0]):
            raise ValueError(f"x must hold {wanted}, as many rows each, got {leaf.name} of shape {parts[-1].shape}.")
    return np.concatenate([part.reshape(len(part), leaf.size) for part, leaf in zip(parts, inputs.leaves, strict=True)], 1)


def _check_type(leaf: Leaf, x: Array) -> None:
    kind, name = leaf.dtype, leaf.name
    if kind == "float32":
        return
    x = np.asarray(without_mask(x, name))
    if kind == "uint8" and x.dtype != np.uint8:
        raise TypeError(
            f"{name} must be bytes, dtype uint8, for the network scales them itself, got {x.dtype}: give the rows before they "
            "were scaled."
        )
    if kind in ("int32", "bool") and x.dtype.kind not in {"int32": "iu", "bool": "b"}[kind]:
        what = "integers" if kind == "int32" else "booleans"
        raise TypeError(f"{name} must hold {what}, as the network takes, got {x.dtype}.")
    if kind == "int32" and max(int(x.max(initial=0)), -int(x.min(initial=0))) > WHOLE:
        raise ValueError(
            f"{name} holds integers beyond {WHOLE:,}, which a smaller network cannot tell apart: number them anew."
        )
