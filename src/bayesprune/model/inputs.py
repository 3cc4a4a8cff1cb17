"""What a network is called on: shape and type of a row of x, which is one array or a tree of them."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from bayesprune.core.given import GivenInputs
from bayesprune.core.numbers import is_tree, numbers_of
from bayesprune.core.send import send
from bayesprune.core.types import Array, ArrayTree, PyTree
from bayesprune.model.byte_scaling import ByteScaling
from bayesprune.model.shapes import row_shape
from bayesprune.structure.lookups import Bounds

Leaf = tuple[tuple[int, ...], str]  # shape of one row, dtype
_WORDS = {"int32": "integers", "bool": "booleans"}


@dataclass(frozen=True)
class Inputs:
    """One row of x: the shape and the dtype of each of its arrays, and the tree that they are the leaves of.

    Dtypes are "float32", "int32" and "bool", for real numbers, whole numbers and booleans of any width. ``scaling``: where rows
    are bytes, how they become the real numbers that the network takes. ``bounds``: of each array, the numbers that are places
    in the tables that the network reads at them; see `structure.lookups`.

    >>> tokens = Inputs.of_example(np.zeros((1, 6), np.int64))
    >>> tokens.shape, tokens.zeros(2).dtype
    ((6,), dtype('int32'))
    >>> Inputs.of_example({"tokens": np.zeros((1, 6), int), "age": np.zeros(1)}).shape
    {'age': (), 'tokens': (6,)}
    """

    leaves: tuple[Leaf, ...]
    structure: Any
    scaling: ByteScaling | None = None
    bounds: tuple[Bounds | None, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of_shape(cls, input_shape: object) -> "Inputs":
        """One array of real numbers."""
        return cls(((row_shape(input_shape), "float32"),), jax.tree.structure(0))

    @classmethod
    def of_example(cls, example: GivenInputs | None) -> "Inputs":
        """What some rows are, such as ``x[:1]``: an array, or a tree of arrays, with the rows along their first axes."""
        leaves, structure = jax.tree.flatten(example)
        if not leaves:
            raise ValueError("example is empty: give some rows of the data, example=x[:1].")
        return cls(tuple(map(_leaf, leaves)), structure)

    @property
    def is_array(self) -> bool:
        """Whether x is one array, not a tree of them."""
        return jax.tree_util.treedef_is_leaf(self.structure)

    @property
    def is_real(self) -> bool:
        """Whether x is one array of real numbers."""
        return self.is_array and self.leaves[0][1] == "float32"

    @property
    def shape(self) -> Any:
        """The shape of a row: of one array a tuple, of several the tree of theirs."""
        return jax.tree.unflatten(self.structure, [shape for shape, _ in self.leaves])

    def described(self) -> str:
        """In words, for errors."""
        return ", ".join(f"{dtype} of shape {(1, *shape)}" for shape, dtype in self.leaves)

    def abstract(self, num_rows: int) -> Any:
        """Shapes and types of so many rows."""
        rows = [jax.ShapeDtypeStruct((num_rows, *shape), dtype) for shape, dtype in self.leaves]
        return jax.tree.unflatten(self.structure, rows)

    def zeros(self, num_rows: int) -> Any:
        """So many rows of zeros."""
        return jax.tree.map(lambda leaf: send(np.zeros(leaf.shape, leaf.dtype)), self.abstract(num_rows))

    def as_rows(self, x: PyTree) -> Any:
        """Rows as arrays of the network's types; real numbers keep their width, and are refused where it takes others."""
        if self.scaling is not None:
            return self.scaling.taken(x)
        if self.is_array:
            return _typed(x, self.leaves[0][1])
        return jax.tree.map(_typed, x, jax.tree.unflatten(self.structure, [dtype for _, dtype in self.leaves]))

    def check_array(self) -> None:
        """Refuse several inputs, where replications are the first axis of one array."""
        if not self.is_array:
            raise TypeError(
                f"the network takes several inputs, {self.shape} each row, and replicates go over one array: stack them, as "
                "np.stack((tokens, mask), 2), and let the net take them apart, x[:, 0] and x[:, 1]; or fit one after another."
            )

    def check_given(self, x: GivenInputs, name: str) -> None:
        """Refuse booleans, of rows as they were given, where the network takes whole numbers: they are no entries of a table.

        To be asked before `core.numbers.numbers_of`, which makes them 0 and 1.
        """
        as_array = lambda node: not is_tree(node)  # noqa: E731
        if jax.tree.structure(x, is_leaf=as_array) != self.structure:  # which `check` refuses
            return
        for (_, dtype), (path, leaf) in zip(self.leaves, jax.tree_util.tree_leaves_with_path(x, as_array), strict=True):
            if dtype == "int32" and (leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)).dtype == bool:
                raise TypeError(
                    f"{name}{jax.tree_util.keystr(path)} must hold integers, as the example= that the network was built with, "
                    "got booleans: if 0 and 1 are meant, .astype(np.int32)."
                )

    def numbers(self, x: GivenInputs, name: str) -> Any:
        """Rows as they are given as NumPy's arrays of numbers, checked."""
        self.check_given(x, name)
        x = jax.tree.map(np.asarray, numbers_of(x, name, bytes_stay=True))
        self.check(x, name)
        return x

    def check(self, x: PyTree, name: str) -> None:
        """Refuse rows of another tree, of other shapes, of real numbers where the network takes whole ones or booleans, or with
        whole numbers beyond the tables that it looks them up in.

        ``x``: arrays of finite numbers, NumPy or JAX. Raises `ValueError` and `TypeError`.
        """
        if jax.tree.structure(x) != self.structure:
            raise TypeError(
                f"{name} must be as the example= that the network was built with, {self.structure}, got "
                f"{jax.tree.structure(x)}."
            )
        for (shape, dtype), (path, leaf) in zip(self.leaves, jax.tree_util.tree_leaves_with_path(x), strict=True):
            _check_leaf(leaf, f"{name}{jax.tree_util.keystr(path)}", shape, dtype)
        for limits, (path, leaf) in zip(self.bounds, jax.tree_util.tree_leaves_with_path(x), strict=False):
            if limits is not None and len(leaf):
                check_places(leaf, f"{name}{jax.tree_util.keystr(path)}", limits)
        if self.scaling is not None:
            self.scaling.check(x, name)


def inputs_of(input_shape: object, example: GivenInputs | None, scaling: object = None) -> Inputs:
    """What the network is called on, from what the user gave of the two; ``scaling``: of bytes, None to scale nothing."""
    if example is None and input_shape is None:
        raise TypeError("give example=x[:1], some rows of the data, or input_shape=, the shape of a row of real numbers.")
    inputs = Inputs.of_shape(input_shape) if example is None else Inputs.of_example(example)
    if input_shape is not None and inputs.shape != row_shape(input_shape):
        raise ValueError(f"example has rows of shape {inputs.shape}, and input_shape is {input_shape}: give one of them.")
    if scaling is None:
        return inputs
    real = tuple((shape, "float32") for shape, _ in inputs.leaves)
    return Inputs(real, inputs.structure, ByteScaling.of(scaling, real))


def rows_taken(program: object, x: ArrayTree) -> Any:
    """Rows as the network of a program takes them; of a program that has none, as they are."""
    inputs = getattr(program, "inputs", None)
    return inputs.as_rows(x) if isinstance(inputs, Inputs) else x


def _leaf(rows: object) -> Leaf:
    dtype = getattr(rows, "dtype", np.asarray(rows).dtype if np.isscalar(rows) else None)
    shape = tuple(getattr(rows, "shape", ()))
    if dtype is None or not (jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, bool)):
        raise TypeError(f"example must be arrays of numbers, such as x[:1], got {type(rows).__name__} of dtype {dtype}.")
    if not shape:
        raise ValueError(f"example must have rows, got one number, {rows!r}: give x[:1], not x[0].")
    return tuple(map(int, shape[1:])), _kind(dtype)


def _kind(dtype: DTypeLike) -> str:
    if jnp.issubdtype(dtype, bool):
        return "bool"
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError(f"rows must be real numbers, got dtype {dtype}: stack real and imaginary parts as features.")
    return "int32" if jnp.issubdtype(dtype, jnp.integer) else "float32"


def _typed(x: Array, dtype: str) -> jax.Array:
    array = send(x)
    if _kind(array.dtype) != "float32":
        return array.astype(dtype)
    if dtype != "float32":
        raise TypeError(
            f"x must hold {_WORDS[dtype]}, as the example= that the network was built with, got dtype {array.dtype}: a cast "
            "would leave fractions out."
        )
    return array


def check_places(x: Array, name: str, limits: Bounds) -> None:
    """Refuse rows with numbers beyond the tables that a network looks them up in: JAX reads another entry, or NaN."""
    low, high = (np.trunc(np.asarray(ends, np.float64)) for ends in (x.min(axis=0), x.max(axis=0)))
    wrong = (low < limits.low) | (high > limits.high)
    if not wrong.any():
        return
    place = tuple(map(int, np.argwhere(wrong)[0]))
    value = low[place] if low[place] < limits.low[place] else high[place]
    where = f"[:, {', '.join(map(str, place))}]" if place else ""
    raise ValueError(
        f"{name}{where} holds {int(value)}, and the network looks it up in {limits.tables[place]}, which takes "
        f"{int(limits.low[place])} to {int(limits.high[place])}: number the entries anew, give the net a larger table, or let "
        "it clip them by jnp.clip."
    )


def _check_leaf(x: Array | np.generic, name: str, shape: tuple[int, ...], dtype: str) -> None:
    if tuple(x.shape[1:]) != shape or not x.shape:
        sizes = ", ".join(map(str, ("rows", *shape)))
        raise ValueError(
            f"{name} must have shape ({sizes}), got {tuple(x.shape)}: reshape it, or build the network for it, "
            f"BNN(..., example={name}[:1])."
        )
    if dtype == "float32" or _kind(x.dtype) == "bool":
        return
    if _kind(x.dtype) == "float32":
        raise TypeError(
            f"{name} must hold {_WORDS[dtype]}, as the example= that the network was built with, got dtype {x.dtype}: keep it, "
            f"or build BNN(..., example={name}[:1])."
        )
    if dtype == "bool" and x.size and not bool(((x == 0) | (x == 1)).all()):
        raise ValueError(f"{name} must hold booleans, as the example= that the network was built with: got other integers.")
