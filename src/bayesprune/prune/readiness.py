"""Readiness: have the posterior's scales stopped moving?

Evidence gains are read off the scales. A fit that is still on its way keeps weights that it would later give up, so a
pruning step should be read together with this figure.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bayesprune.core import trees
from bayesprune.core.types import PyTree


def readiness(posterior: PyTree, previous: PyTree, mask: PyTree = True) -> Float[Array, ""]:
    """exp(-mean |log scale - log previous scale|) over the alive weights of two posteriors, usually one pruning step apart.

    ``previous``: a posterior, or its scales alone.

    1 = no scale moved; 0.5 = they halved or doubled; near 0 = they moved by orders of magnitude. The mean, because a median
    needs a sort, which for ten million weights takes longer than the pruning itself. The figure is
    free of units and of the prior. ``mask``: tree of booleans, or True for all. Weights whose scale is 0 at both times (MAP) do
    not count; if none count, nothing can move: 1. Returns a scalar in [0, 1].

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> before, now = MeanField(jnp.zeros(3), jnp.ones(3)), MeanField(jnp.zeros(3), jnp.array([0.5, 0.5, 2.0]))
    >>> print(readiness(now, before))
    0.5
    """
    alive = trees.broadcast(mask, posterior)
    sums = jax.tree.leaves(trees.map_nodes(_change, posterior, previous, alive))
    total, counted = (sum(some, start=jnp.zeros(())) for some in (sums[::2], sums[1::2]))
    return jnp.exp(-total / jnp.maximum(counted, 1.0))


def _change(now: PyTree, before: PyTree, alive: ArrayLike) -> tuple[Array, Array]:
    """The sum of |log ratio of scales|, and of how many weights that count."""
    earlier = before.scale if trees.is_node(before) else before
    counts = jnp.asarray(alive) & ((now.scale > 0) | (earlier > 0))
    logs = (jnp.log(jnp.where(counts, scale, 1.0)) for scale in (now.scale, earlier))
    return jnp.sum(jnp.abs(next(logs) - next(logs))), jnp.sum(counts, dtype=float)
