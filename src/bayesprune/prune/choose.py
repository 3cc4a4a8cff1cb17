"""Choices: scores -> mask. Any choice goes with any score; neither brings a dead weight back."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Int, Real

from bayesprune.core import masks, trees
from bayesprune.core.checks import check_density, check_name
from bayesprune.core.types import PyTree

SCOPES = ("global", "layer", "per_layer")


def threshold(scores: PyTree, cut: PyTree, within: PyTree = True) -> PyTree:
    """Alive where the score reaches ``cut``, and was alive ``within``.

    ``cut``: one number, or a tree with one (scalar or array) per array of ``scores``; with `scores.evidence` and the zeta of
    (2.6) it is -zeta. ``within``: tree of masks, or True for everything. NaN scores fall. Returns a tree of masks.

    >>> print(threshold(jnp.array([1.0, 2.0, jnp.nan]), 2.0))
    [False  True False]
    """
    cuts, alive = trees.broadcast(cut, scores), trees.broadcast(within, scores)
    return jax.tree.map(lambda s, c, w: (s >= c) & w, scores, cuts, alive)


def keep_density(scores: PyTree, density: PyTree, scope: str = "global", within: PyTree = True) -> PyTree:
    """The highest scores, exactly round(density * size) of them and at least one per array, among the weights of ``within``.

    ``density``: fraction of all weights, dead ones included, in (0, 1]; may be traced; with ``scope="layer"`` also a tree
    with one per array. ``scope``: "global" ranks all arrays together and keeps the best weight of each, so that no layer is cut
    off; "layer" (or "per_layer") gives every array its own count. ``within``: tree of masks, or True. If fewer are alive, all
    stay. Returns a tree of masks. A `ValueError` for a density outside (0, 1] or an unknown scope.

    >>> print(keep_density({"a": jnp.array([1.0, 2.0]), "b": jnp.array([3.0, 4.0])}, 0.5))
    {'a': Array([False,  True], dtype=bool), 'b': Array([False,  True], dtype=bool)}

    Source: Zhu & Gupta 2018, section 3.
    """
    check_name("scope", scope, SCOPES)
    jax.tree.map(check_density, density)
    if scope != "global":
        counts = jax.tree.map(lambda s, d: kept(d, s.size), scores, trees.broadcast(density, scores))
        return masks.top_k_leaves(scores, counts, within)
    best = masks.top_k_leaves(scores, 1, within)
    others = jax.tree.map(lambda b, w: w & ~b, best, trees.broadcast(within, scores))
    rest = masks.top_k_tree(scores, kept(density, trees.size(scores)) - masks.count(best), others)
    return jax.tree.map(jnp.logical_or, best, rest)


def kept(density: Real[ArrayLike, ""], size: int) -> Int[Array, ""] | int:
    """How many of ``size`` weights a density keeps: rounded, at least one. Exact for a number, float32 for a traced value.

    >>> kept(0.05, 266_200), kept(1e-9, 10)
    (13310, 1)
    """
    if isinstance(density, int | float):
        return max(1, round(density * size))
    return jnp.maximum(1, jnp.round(density * size).astype(jnp.int32))
