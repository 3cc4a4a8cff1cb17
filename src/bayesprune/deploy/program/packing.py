"""Several arrays as one: the inputs of a row, or its outputs, for a program that goes from one array to one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import PyTreeDef

from bayesprune.core.types import ArrayTree, PyTree
from bayesprune.model.inputs import Inputs
from bayesprune.model.shapes import is_shape

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
