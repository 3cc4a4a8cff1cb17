"""Pruning by inclusion probabilities: the step that the spike-and-slab methods share."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core import trees
from bayesprune.core.types import Evidence, Info, PyTree, SparseState
from bayesprune.prune import scores, to_density
from bayesprune.prune.book import first_state, take_step
from bayesprune.prune.choose import threshold


def cut(
    probability: float, density: float | Callable[[Any], Any] | None, scope: str, evidence: Evidence, state: SparseState
) -> tuple[SparseState, Info]:
    """Keep what is included with at least ``probability``; with a ``density``, exactly so many of the likeliest instead."""
    if density is not None:
        return to_density.cut(scores.inclusion, density, scope, evidence, state)
    odds = math.log(probability) - math.log1p(-probability)  # of the double: next to 1 a float32 has no log-odds
    alive = threshold(scores.inclusion(evidence.posterior), odds, within=state.mask)
    return take_step(state, alive, evidence.posterior)


def expected_density(posterior: PyTree, mask: PyTree = True) -> jax.Array:
    """Mean inclusion probability of all weights, the dead ones counted as 0: the papers' sum phi / T, in [0, 1].

    ``posterior``: a tree of `SpikeSlab`; ``mask``: tree of booleans, or True.

    >>> from bayesprune.core.types import SpikeSlab
    >>> print(expected_density({"w": SpikeSlab(jnp.zeros(2), jnp.ones(2), jnp.array([0.0, -100.0]))}))
    0.25
    """
    alive = trees.broadcast(mask, posterior)
    kept = jax.tree.map(lambda odds, a: jnp.sum(jnp.where(a, jax.nn.sigmoid(odds), 0.0)), scores.inclusion(posterior), alive)
    return sum(jax.tree.leaves(kept), start=jnp.zeros(())) / trees.size(posterior)


def check(probability: float, density: float | Callable[[Any], Any] | None, scope: str) -> None:
    """Refuse a cut outside (0, 1), a density outside (0, 1], and an unknown scope."""
    if not 0 < probability < 1:
        raise ValueError(f"probability must lie in (0, 1), got {probability}: weights less likely included than this are cut.")
    to_density.check(1.0 if density is None else density, scope)


def start(posterior: PyTree) -> SparseState:
    """Everything alive; refuses a posterior without inclusion probabilities now, not when the first cut is due."""
    scores.inclusion(posterior)
    return first_state(posterior)
