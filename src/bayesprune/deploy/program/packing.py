"""The rows that a compact network takes, checked; several arrays as one, for a program that goes from one array to one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef

from bayesprune.core.numbers import real_numbers, without_mask
from bayesprune.core.types import Array, ArrayTree, PyTree
from bayesprune.deploy.reader import WHOLE
from bayesprune.infer.predict import check_rows
from bayesprune.model.inputs import Inputs, check_places
from bayesprune.model.shapes import is_shape
from bayesprune.structure.lookups import Bounds

DTYPES = ("float32", "uint8", "int32", "bool")
DEEPEST = 8  # levels of a tree that a file may claim


class Leaf(NamedTuple):
    """One array of a tree: the keys and positions that lead to it, the shape of a row and its type."""

    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def name(self) -> str:
        """As text: ``x`` of the only array, ``x[0]`` and ``x[1]`` of a pair, ``tokens`` of a dictionary."""
        named = bool(self.path) and isinstance(self.path[0], str)
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path)
        return text[1:] if named else f"x{text}"


@dataclass(frozen=True)
class Packing:
    """A tree of arrays, the rows along the first axis of each, as one array of float32.

    Of several arrays each is flattened, side by side in the order of the tree: (rows, numbers of all). One
    array by itself stays as it is. ``structure``: of the tree.

    >>> pair = Packing.of_shapes({"logits": (3,), "code": (2, 2)})
    >>> pair.row_shape, [leaf.name for leaf in pair.leaves]
    ((7,), ['code', 'logits'])
    >>> {name: part.shape for name, part in pair.apart(jnp.zeros((5, 7))).items()}
    {'code': (5, 2, 2), 'logits': (5, 3)}
    """

    leaves: tuple[Leaf, ...]
    structure: Any

    @classmethod
    def of_inputs(cls, inputs: Inputs) -> "Packing":
        """Of the rows that a network takes; bytes, where it scales them itself."""
        types = ["uint8"] if inputs.scaling is not None else [dtype for _, dtype in inputs.leaves]
        return cls._of([shape for shape, _ in inputs.leaves], types, inputs.structure)

    @classmethod
    def of_shapes(cls, shapes: PyTree) -> "Packing":
        """Of arrays of real numbers; ``shapes``: of a row, one or a tree of them."""
        leaves, structure = jax.tree.flatten(shapes, is_leaf=is_shape)
        return cls._of(leaves, ["float32"] * len(leaves), structure)

    @classmethod
    def _of(cls, shapes: Sequence[tuple[int, ...]], types: Sequence[str], structure: PyTreeDef) -> "Packing":
        places, _ = jax.tree_util.tree_flatten_with_path(jax.tree.unflatten(structure, list(range(len(shapes)))))
        paths = [tuple(map(_key, path)) for path, _ in places]
        return cls(tuple(map(Leaf, paths, shapes, types)), structure)

    @property
    def is_one(self) -> bool:
        """Whether it is one array by itself."""
        return jax.tree_util.treedef_is_leaf(self.structure)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of a row of the one array."""
        return self.leaves[0].shape if self.is_one else (sum(leaf.size for leaf in self.leaves),)

    @property
    def shape(self) -> Any:
        """The shape of a row: of one array a tuple, of several the tree of theirs."""
        return self.tree([leaf.shape for leaf in self.leaves])

    def tree(self, values: Sequence[Any]) -> Any:
        """Something for each of the arrays, in the place of it."""
        return jax.tree.unflatten(self.structure, list(values))

    def together(self, tree: ArrayTree) -> Any:
        """The one array, by JAX; of several, whole numbers and booleans as real ones."""
        if self.is_one:
            return tree
        arrays = [jnp.asarray(array) for array in jax.tree.leaves(tree)]
        arrays = [a if jnp.issubdtype(a.dtype, jnp.floating) else a.astype(jnp.float32) for a in arrays]
        # Not -1: an array of no rows has no size to divide by.
        flat = [a.reshape(a.shape[0], leaf.size) for a, leaf in zip(arrays, self.leaves, strict=True)]
        return jnp.concatenate(flat, axis=1)

    def apart(self, array: jax.Array) -> Any:
        """The tree again, of the one array's type, by JAX."""
        if self.is_one:
            return array
        parts, first = [], 0
        for leaf in self.leaves:
            part = jax.lax.slice_in_dim(array, first, first + leaf.size, axis=1)
            parts.append(part.reshape((array.shape[0], *leaf.shape)))
            first += leaf.size
        return self.tree(parts)

    def as_data(self) -> list[dict[str, Any]]:
        """As JSON has it."""
        return [{"path": list(leaf.path), "shape": list(leaf.shape), "takes": leaf.dtype} for leaf in self.leaves]

    @classmethod
    def of_data(cls, stated: Any) -> "Packing":
        """From JSON: texts are keys of dictionaries, numbers positions in tuples. Raises ``ValueError`` for no such tree."""
        leaves = [Leaf(tuple(one["path"]), tuple(map(int, one["shape"])), str(one["takes"])) for one in stated]
        if not leaves or any(leaf.dtype not in DTYPES or min(leaf.shape, default=1) < 1 for leaf in leaves):
            raise ValueError("arrays of rows of no known type, or without numbers")
        if any(len(leaf.path) > DEEPEST or not all(isinstance(key, str | int) for key in leaf.path) for leaf in leaves):
            raise ValueError("a tree of rows with other keys than texts and numbers, or too deep")
        structure = jax.tree.structure(_rebuilt({leaf.path: place for place, leaf in enumerate(leaves)}))
        again = cls._of([leaf.shape for leaf in leaves], [leaf.dtype for leaf in leaves], structure)
        if [leaf.path for leaf in again.leaves] != [leaf.path for leaf in leaves]:
            raise ValueError("the paths of the rows' arrays are those of no tree")
        return again


def _key(entry: object) -> str | int:
    """A dictionary's key, or a tuple's position: what a file can name, and a reader of it can find."""
    if isinstance(entry, jax.tree_util.SequenceKey):
        return entry.idx
    if isinstance(entry, jax.tree_util.DictKey) and isinstance(entry.key, str):
        return entry.key
    raise ValueError(
        f"the network's inputs or outputs have the part {entry}, and a compact network takes and gives dictionaries with keys "
        "of text, and tuples: wrap the net, so that it does."
    )


def _rebuilt(places: Mapping[tuple[str | int, ...], int]) -> Any:
    """Nested dictionaries and tuples with a number at the end of each path."""
    if () in places:
        if len(places) > 1:
            raise ValueError("an array of rows is inside of another")
        return places[()]
    parts: dict[Any, dict[tuple[str | int, ...], int]] = {}
    for (key, *rest), place in places.items():
        parts.setdefault(key, {})[tuple(rest)] = place
    if list(parts) == list(range(len(parts))):
        return tuple(map(_rebuilt, parts.values()))
    return {key: _rebuilt(inside) for key, inside in parts.items()}


# ---- rows, as they are given
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
