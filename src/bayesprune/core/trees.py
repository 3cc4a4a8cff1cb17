"""Trees of posteriors: what a node is, what it is called, and how to take a tree apart and put it together again.

A *node* is a `core.types.Node` or, outside of any, an array. Its path is made of the keys that lead to it,
joined by dots: ``"Dense_0.kernel"``.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from bayesprune.core.types import Node, PyTree

T = TypeVar("T")


def is_node(value: object) -> bool:
    """Whether a value is a whole posterior node, not a branch.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> is_node(MeanField(0.0, 1.0)), is_node({"kernel": MeanField(0.0, 1.0)})
    (True, False)
    """
    return isinstance(value, Node)


def map_nodes(function: Callable[..., Any], tree: PyTree, *rest: PyTree) -> PyTree:
    """`jax.tree.map` over nodes: ``function`` sees a whole `MeanField`, and its companions in trees of the same outline.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> map_nodes(lambda q: q.prior_scale, {"kernel": MeanField(0.0, 1.0)})
    {'kernel': 1.0}
    """
    return jax.tree.map(function, tree, *rest, is_leaf=is_node)


def map_with_path(function: Callable[..., Any], tree: PyTree, *rest: PyTree) -> PyTree:
    """`map_nodes` whose ``function`` gets the node's path first.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> map_with_path(lambda path, q: path, {"Dense_0": {"kernel": MeanField(0.0, 1.0)}})
    {'Dense_0': {'kernel': 'Dense_0.kernel'}}
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, node, *others: function(_dotted(path), node, *others), tree, *rest, is_leaf=is_node
    )


def flatten(tree: PyTree) -> dict[str, Any]:
    """The nodes by path, in tree order. A `ValueError` if two nodes would share one name.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> list(flatten({"Dense_0": {"bias": 1.0, "kernel": MeanField(0.0, 1.0)}}))
    ['Dense_0.bias', 'Dense_0.kernel']
    """
    nodes: dict[str, Any] = {}
    for path, node in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_node):
        name = _dotted(path)
        if name in nodes:
            raise ValueError(f"two nodes of tree are both called {name!r}: rename a key that contains a dot.")
        nodes[name] = node
    return nodes


def paths(tree: PyTree) -> list[str]:
    """The names of the nodes, in tree order.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> paths({"Dense_0": {"kernel": MeanField(0.0, 1.0)}})
    ['Dense_0.kernel']
    """
    return list(flatten(tree))


def of_kind(tree: PyTree, kind: type[T]) -> list[T]:
    """The parts of a tree that are of a class, such as the state of one optimiser within that of others around it.

    >>> of_kind({"a": (1.0, range(3)), "b": [2.0]}, range)
    [range(0, 3)]
    """
    is_one = lambda part: isinstance(part, kind)  # noqa: E731
    return [part for part in jax.tree.leaves(tree, is_leaf=is_one) if is_one(part)]


def shape(node: PyTree) -> tuple[int, ...]:
    """The shape of the weights that a node describes.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> shape(MeanField(jnp.zeros((2, 3)), jnp.ones((2, 3))))
    (2, 3)
    """
    return tuple(jnp.shape(node.loc if is_node(node) else node))


def size(tree: PyTree) -> int:
    """How many weights a tree describes: a node counts once, however many arrays it has.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> size({"kernel": MeanField(jnp.zeros((2, 3)), jnp.ones((2, 3))), "bias": jnp.zeros(3)})
    9
    """
    return sum(math.prod(shape(node)) for node in jax.tree.leaves(tree, is_leaf=is_node))


def broadcast(value: PyTree, like: PyTree) -> PyTree:
    """One value for every node of ``like``: a tree of the same outer structure is taken as it is, a number or array repeated.

    A `ValueError` if ``value`` is a tree of another structure.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> broadcast(1.0, {"kernel": MeanField(0.0, 1.0)})
    {'kernel': 1.0}
    """
    structure: Any = jax.tree.structure(like, is_leaf=is_node)
    if jax.tree.structure(value, is_leaf=is_node) == structure:
        return value
    leaves = jax.tree.leaves(value)
    if len(leaves) != 1 or leaves[0] is not value:
        raise ValueError(f"value must be a number or a tree with the nodes {paths(like)}, got {jax.tree.structure(value)}.")
    return jax.tree.unflatten(structure, [value] * structure.num_leaves)


def _dotted(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def filled(template: PyTree, value: PyTree, name: str) -> PyTree:
    """``value`` in the form of ``template``: a tree of the same paths, or a dict of leaves by their paths, as files hold it.

    Raises ``ValueError`` with ``name`` where leaves are missing, left over or of other shapes.

    >>> filled((jnp.zeros(2), {"w": jnp.zeros(())}), {"[0]": jnp.ones(2), "[1]['w']": jnp.ones(())}, "params")
    (Array([1., 1.], dtype=float32), {'w': Array(1., dtype=float32)})
    """
    wanted, structure = jax.tree_util.tree_flatten_with_path(template)
    shapes = {jax.tree_util.keystr(path): jnp.shape(leaf) for path, leaf in wanted}
    by_path = isinstance(value, Mapping) and value.keys() == shapes.keys()
    found = value if by_path else {jax.tree_util.keystr(p): leaf for p, leaf in jax.tree_util.tree_leaves_with_path(value)}
    given = {path: jnp.shape(leaf) for path, leaf in found.items()}
    if given != shapes:
        wrong = sorted(path for path in given.keys() | shapes.keys() if given.get(path) != shapes.get(path))
        raise ValueError(f"{name} is of another program: {', '.join(wrong[:6])} are missing, left over or of other shapes.")
    return jax.tree.unflatten(structure, [found[path] for path in shapes])
