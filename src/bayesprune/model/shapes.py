"""The shapes of a network's rows and outputs, checked."""

from collections.abc import Iterable, Set
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.checks import check_integer
from bayesprune.core.types import PyTree


def row_shape(input_shape: object) -> tuple[int, ...]:
    """The shape of a row; a number is the length of a vector."""
    sizes = (input_shape,) if isinstance(input_shape, int | np.integer) else input_shape
    if isinstance(sizes, str | Set) or not isinstance(sizes, Iterable):  # a set has no order
        raise TypeError(f"input_shape must be the shape of one row of x, such as (28, 28, 1), got {input_shape!r}.")
    for size in (sizes := tuple(sizes)):
        check_integer(size, "input_shape")
    return tuple(map(int, sizes))


def output_shape(output: PyTree) -> Any:
    """The shape of one row's outputs, from what the network gives for one row; of several outputs the tree of their shapes."""
    if jax.tree_util.all_leaves([output]):
        return _of_one(output)
    for path, leaf in jax.tree_util.tree_leaves_with_path(output):
        if not leaf.shape or leaf.shape[0] != 1:
            raise ValueError(
                f"net gives several outputs, and output{jax.tree_util.keystr(path)} has shape {tuple(leaf.shape)} for one row, "
                "not (rows, ...): choose others by output=, an index, a name or a function of all of them."
            )
    return jax.tree.map(lambda leaf: tuple(map(int, leaf.shape[1:])), output)


def arrays(output: PyTree) -> Any:
    """What a network gives, if it is an array or a tree of them."""
    leaves = jax.tree.leaves(output)
    if not leaves or not all(hasattr(leaf, "shape") for leaf in leaves):
        raise TypeError("net must give arrays of outputs: return the one that is to be fitted, or choose it by output=.")
    return output


def _of_one(output: jax.Array | jax.ShapeDtypeStruct) -> tuple[int, ...]:
    shape = output.shape
    if len(shape) < 2 or shape[0] != 1 or 0 in shape:
        raise ValueError(
            "net must give outputs of shape (rows, outputs), or (rows, ..., outputs) with tokens or the like between, got "
            f"{shape} for one row: reshape them there."
        )
    return tuple(map(int, shape[1:]))


def is_shape(tree: object) -> bool:
    """Whether it is the shape of one array, not a tree of such.

    >>> is_shape((3, 2)), is_shape(((3,), (2,))), is_shape({"mean": (3,)})
    (True, False, False)
    """
    return isinstance(tree, tuple) and all(isinstance(size, int) for size in tree)


def check_heads(likelihood: object, shape: PyTree) -> None:
    """Refuse several outputs for a likelihood that does not say that it takes such."""
    if is_shape(shape) or getattr(likelihood, "heads", False):
        return
    raise TypeError(
        f"net gives several outputs, of shapes {shape} for a row, and {type(likelihood).__name__} takes one array: choose one "
        "by output=, an index, a name or a function of all of them; or give likelihoods.Custom(fn), whose fn takes them all."
    )


def filled(shape: PyTree, num_rows: int, value: float) -> Any:
    """So many rows of outputs that are all the same; ``shape``: of one row, or a tree of such."""
    return jax.tree.map(lambda one: jnp.full((num_rows, *one), value), shape, is_leaf=is_shape)
