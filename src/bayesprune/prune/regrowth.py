"""Regrowth: which dead weights to reactivate. Each returns the newly alive ones; the new mask is the old one or these."""

import jax
import jax.numpy as jnp

from bayesprune.core import masks, trees
from bayesprune.core.checks import check_key
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
