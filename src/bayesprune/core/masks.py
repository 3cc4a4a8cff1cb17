"""Masks: whole trees of booleans, True = alive, with exact counts.

Counts are traced values, so that a schedule may change them without a new compilation.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Real

from bayesprune.core import trees
from bayesprune.core.send import send
from bayesprune.core.types import Node, PyTree


def full_like(tree: PyTree) -> PyTree:
    """Everything alive: one boolean array per node, of the shape of its weights.

    >>> print(full_like({"kernel": jnp.zeros(2)}))
    {'kernel': Array([ True,  True], dtype=bool)}
    """
    return trees.map_nodes(lambda node: send(np.ones(trees.shape(node), bool)), tree)


@jax.jit
def count(mask: PyTree) -> Int[Array, ""]:
    """Number of alive weights in a mask or a tree of masks, int32, exact.

    >>> print(count({"a": jnp.array([True, False]), "b": jnp.array(True)}))
    2
    """
    return sum((jnp.sum(leaf, dtype=jnp.int32) for leaf in jax.tree.leaves(mask)), start=jnp.int32(0))


def density(mask: PyTree) -> Float[Array, ""]:
    """Alive fraction of all weights of a mask or a tree of masks, in [0, 1]; 1 for an empty tree, which has lost nothing.

    >>> print(density({"a": jnp.array([True, False]), "b": jnp.array([True, True])}))
    0.75
    """
    total = trees.size(mask)
    number = jnp.result_type(float)
    return count(mask).astype(number) / send(total, number) if total else send(1.0, number)


def apply(mask: PyTree, tree: PyTree) -> PyTree:
    """The tree with its dead weights at exactly zero: arrays, and ``loc`` and ``scale`` of posterior nodes.

    Dead values are replaced, not multiplied, so that a dead NaN is gone. A `SpikeSlab` keeps its logit: 0 means even odds.

    >>> print(apply({"kernel": jnp.array([True, False])}, {"kernel": jnp.array([2.0, jnp.nan])})["kernel"])
    [2. 0.]
    """
    return trees.map_nodes(
        lambda node, alive: node.given_zero(alive) if trees.is_node(node) else jnp.where(alive, node, 0), tree, mask
    )


def top_k(
    scores: Real[ArrayLike, "..."], count: Int[ArrayLike, ""], within: Bool[ArrayLike, "..."] = True
) -> Bool[Array, "..."]:
    """The ``count`` highest scores of one array, exactly that many, among the entries of ``within``.

    Of equal scores the earlier entry stays; NaN counts as the lowest. ``count`` may be traced; if ``within`` has fewer entries,
    all of them stay. Returns a mask of the scores' shape.

    >>> print(top_k(jnp.array([1.0, 3.0, 1.0, jnp.nan]), 2))
    [ True  True False False]
    """
    scores = jnp.asarray(scores)
    within = jnp.broadcast_to(jnp.asarray(within), scores.shape)
    # A stable ascending sort: ties by position, and what may not stay at the end.
    order = jnp.argsort(_places(scores, within).reshape(-1), stable=True)
    ranks = jnp.zeros(scores.size, jnp.int32).at[order].set(jnp.arange(scores.size, dtype=jnp.int32))
    return (ranks < count).reshape(scores.shape) & within


def _places(scores: Real[Array, "..."], within: Bool[Array, "..."]) -> Int[Array, "..."]:
    """Integers that fall as the scores rise, NaN taken for -inf; the largest integer of all where ``within`` is False.

    The bits of a positive float are an integer that grows with it; those of a negative one shrink. No float is left over
    to mark what may not stay: -inf is a score.
    """
    if scores.dtype in (jnp.int32, jnp.int64):  # float32 does not have each one beyond 2^24
        return jnp.where(within, ~scores, jnp.iinfo(scores.dtype).max)
    floats, integers = (jnp.float64, jnp.int64) if scores.dtype == jnp.float64 else (jnp.float32, jnp.int32)
    scores = scores.astype(floats)
    falling = jnp.where(scores == 0, 0.0, jnp.where(jnp.isnan(scores), jnp.inf, -scores))
    bits = jax.lax.bitcast_convert_type(falling, integers)
    most = jnp.iinfo(integers).max
    return jnp.where(within, jnp.where(bits < 0, bits ^ most, bits), most)


def top_k_tree(scores: PyTree, count: Int[ArrayLike, ""], within: PyTree = True) -> PyTree:
    """The ``count`` highest scores of a whole tree, exactly that many, all arrays ranked together; see `top_k`.

    ``within``: a tree of masks, or True for everything. Returns a tree of masks.

    >>> print(top_k_tree({"a": jnp.array([1.0, 5.0]), "b": jnp.array([4.0, 2.0])}, 2))
    {'a': Array([False,  True], dtype=bool), 'b': Array([ True, False], dtype=bool)}
    """
    leaves, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, scores))
    if not leaves:
        return scores
    stay = jax.tree.leaves(trees.broadcast(within, scores))
    alive = [jnp.broadcast_to(w, leaf.shape) for w, leaf in zip(stay, leaves, strict=True)]
    flat = top_k(_concatenate(leaves), count, _concatenate(alive))
    ends = [sum(leaf.size for leaf in leaves[: i + 1]) for i in range(len(leaves))]
    parts = jnp.split(flat, ends[:-1])
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])


def top_k_leaves(scores: PyTree, counts: PyTree, within: PyTree = True) -> PyTree:
    """The highest scores of every array on its own: ``counts`` is one number, or a tree with one per array; see `top_k`.

    >>> print(top_k_leaves({"a": jnp.array([1.0, 5.0]), "b": jnp.array([4.0, 2.0])}, 1))
    {'a': Array([False,  True], dtype=bool), 'b': Array([ True, False], dtype=bool)}
    """
    return jax.tree.map(top_k, scores, trees.broadcast(counts, scores), trees.broadcast(within, scores))


def _concatenate(leaves: list[Array]) -> Array:
    return jnp.concatenate([leaf.reshape(-1) for leaf in leaves])


def gone(node: Node) -> Any:
    """The weights that were cut before: at loc = scale = 0 nothing is left of their posterior."""
    return (node.loc == 0) & (node.scale == 0)
