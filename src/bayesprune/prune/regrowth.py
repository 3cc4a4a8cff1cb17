"""Regrowth: which dead weights to reactivate, in exchange for which others, and how those begin."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from bayesprune.core import masks, trees
from bayesprune.core.checks import check_key, check_name, check_positive
from bayesprune.core.keys import Key
from bayesprune.core.types import PyTree


def largest_gradient(gradient: PyTree, mask: PyTree, counts: PyTree) -> PyTree:
    """The dead weights of largest |gradient|, addition score 1 of section 4, exactly ``counts`` in each array.

    ``gradient``: of the loss in every weight, dead ones included, one array per array of ``mask``. ``counts``: one number, or a
    tree with one per array; may be traced; where fewer are dead, all of them. Returns a tree of booleans, True =
    newly alive.

    >>> print(largest_gradient(jnp.array([9.0, -3.0, 2.0]), jnp.array([True, False, False]), 1))
    [False  True False]

    Source: Evci et al. 2020, section 3; Li et al. 2024, section 3.3.2.
    """
    dead = jax.tree.map(jnp.logical_not, mask)
    return masks.top_k_leaves(jax.tree.map(jnp.abs, gradient), counts, dead)


def random(rng_key: Key, mask: PyTree, counts: PyTree) -> PyTree:
    """Dead weights drawn uniformly without replacement, exactly ``counts`` in each array.

    Arguments and result as for `largest_gradient`. A `TypeError` if ``rng_key`` is no JAX key.

    >>> print(random(jax.random.key(0), jnp.array([True, False, False]), 2))
    [False  True  True]

    Source: Mocanu et al. 2018, Algorithm 2.
    """
    return largest_gradient(noise(rng_key, mask), mask, trees.broadcast(counts, mask))


def noise(rng_key: Key, mask: PyTree) -> PyTree:
    """A number of U(0, 1) for each weight: ranked by it, weights are drawn at random.

    >>> noise(jax.random.key(0), {"a": jnp.ones(3, bool)})["a"].shape
    (3,)
    """
    leaves, structure = jax.tree.flatten(mask)
    keys = jax.random.split(check_key(rng_key), max(len(leaves), 1))
    draws = [jax.random.uniform(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=False)]
    return jax.tree.unflatten(structure, draws)


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


SCALES = ("mean", "mean_raw")


def check_new_scale(new_scale: str | float) -> None:
    """A `ValueError` unless it is one of `SCALES` or a positive number."""
    if isinstance(new_scale, str):
        check_name("new_scale", new_scale, SCALES, "Or give a positive number.")
    else:
        check_positive(new_scale, "new_scale")


def renew(posterior: PyTree, old: PyTree, new: PyTree, new_scale: str | float = "mean") -> PyTree:
    """The posterior in which the weights of ``new`` that were not in ``old`` start afresh; all others as they were.

    loc = 0; scale = the mean over the weights of the same array that ``old`` and ``new`` have alive, with "mean"; with
    "mean_raw" the mean of softplus^-1(scale), put back through softplus; or the number given, in the posterior's coordinates.
    A posterior of points (all scales 0) stays one. The log-odds of a `SpikeSlab`: their mean over the same weights. ``old``,
    ``new``: trees of masks.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> node = MeanField(jnp.array([1.0, 2.0, 9.0]), jnp.array([0.1, 0.3, 9.0]))
    >>> fresh = renew(node, jnp.array([True, True, False]), jnp.array([True, True, True]))
    >>> print(fresh.loc, fresh.scale)
    [1. 2. 0.] [0.1 0.3 0.2]

    Source: Li et al. 2024, section 3.2.
    """

    def node(q: PyTree, before: Array, after: Array) -> PyTree:
        grown = after & ~before
        both = before & after
        beside = jnp.where(jnp.any(both), both, before)  # where everything was exchanged, those that were there before
        return q.renewed(grown, _fresh(q.scale, beside, new_scale), lambda values: _mean(values, beside))

    return trees.map_nodes(node, posterior, old, new)


def _fresh(scale: Float[Array, "*shape"], beside: Bool[Array, "*shape"], new_scale: str | float) -> Float[Array, ""]:
    known = jnp.where(beside, scale, 1.0)  # dead entries hold whatever training left there
    if isinstance(new_scale, str):
        if new_scale == "mean":
            return _mean(known, beside)
        # softplus^-1(s) = s + log(1 - exp(-s)); a scale of exactly 0 has none, and its mean is 0 again.
        return jnp.logaddexp(0.0, _mean(known + jnp.log(-jnp.expm1(-known)), beside))
    return jnp.where(jnp.any(jnp.where(beside, scale, 0.0) > 0), jnp.asarray(new_scale, scale.dtype), 0.0)


def _mean(values: Float[Array, "*shape"], where: Bool[Array, "*shape"]) -> Float[Array, ""]:
    return jnp.sum(values, where=where) / jnp.maximum(jnp.sum(where, dtype=values.dtype), 1)
