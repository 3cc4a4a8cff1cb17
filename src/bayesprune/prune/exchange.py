"""One exchange of weights: the lowest scores fall, as many of the largest gradients are reactivated, and the count stays."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Int

from bayesprune.core import masks
from bayesprune.core.types import PyTree


def exchange(scores: PyTree, growth: PyTree, mask: PyTree, fraction: ArrayLike, everywhere: bool = False) -> PyTree:
    """Replace round(fraction * alive) weights: those of lowest score by those of highest ``growth``; the count stays.

    ``scores``: of the alive, higher stays; ``growth``: of the dead, the highest are reactivated, one array for each of
    ``mask``. A weight that has just fallen may be reactivated at once, and then it never was dead. ``fraction``: in [0, 1], may
    be traced. Array by array, or with ``everywhere`` over the whole tree, in which case every array keeps its best weight.
    Returns a tree of masks.

    >>> print(exchange(jnp.array([5.0, 1.0, 0.0]), jnp.array([0.0, 0.0, 2.0]), jnp.array([True, True, False]), 0.5))
    [ True False  True]

    Source: Evci et al. 2020, section 3; Li et al. 2024, algorithm 1.
    """
    number = lambda alive: jnp.round(fraction * masks.count(alive).astype(float)).astype(jnp.int32)  # noqa: E731
    if not everywhere:
        return jax.tree.map(lambda s, w, m: _swap(s, w, m, number(m), masks.top_k), scores, growth, mask)
    best = masks.top_k_leaves(scores, 1, mask)
    others = jax.tree.map(lambda b, m: m & ~b, best, mask)
    falling = jnp.minimum(number(mask), masks.count(others))
    new = _swap(scores, growth, others, falling, masks.top_k_tree, barred=best)
    return jax.tree.map(jnp.logical_or, best, new)


def _swap(
    scores: PyTree, growth: PyTree, mask: PyTree, number: Int[Array, ""], top_k: Callable[..., PyTree], barred: PyTree = None
) -> PyTree:
    """``number`` out, ``number`` in; what is ``barred`` is neither, it is counted elsewhere."""
    staying = top_k(scores, masks.count(mask) - number, mask)
    taken = staying if barred is None else jax.tree.map(jnp.logical_or, staying, barred)
    regrown = top_k(growth, number, jax.tree.map(jnp.logical_not, taken))
    return jax.tree.map(jnp.logical_or, staying, regrown)
