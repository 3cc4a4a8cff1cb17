"""Bookkeeping that the methods share: the state before the first step, the `Info` of each, and its readiness.

Evidence gains are read off the scales. A fit whose scales still move keeps weights that it would later give up, so that a
pruning step should be read together with that figure.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bayesprune.core import masks, trees
from bayesprune.core.send import send
from bayesprune.core.types import Info, PyTree, SparseState


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


def first_state(posterior: PyTree) -> SparseState:
    """Everything alive, and as memory the scales last seen: here those of ``posterior``, site -> node, itself."""
    return SparseState(masks.full_like(posterior), _scales(posterior), send(0, np.int32))


def take_step(
    state: SparseState,
    alive: PyTree,
    posterior: PyTree,
    evidence_gain: PyTree | None = None,
    order: PyTree | None = None,
) -> tuple[SparseState, Info]:
    """The state after a step that leaves ``alive``, which remembers the scales, and the record of it; see `make_info`.

    ``order``: of a method without evidence, what of ``alive``'s cuts goes first where the act is verified.
    """
    new = state._replace(mask=alive, memory=_scales(posterior), step=state.step + 1)
    info = make_info(state.mask, new, readiness(posterior, state.memory, state.mask), evidence_gain)
    return new, info._replace(order=order)


def _scales(posterior: PyTree) -> PyTree:
    return trees.map_nodes(lambda node: node.scale, posterior)


def make_info(old: PyTree, state: SparseState, settled: Array | None = None, evidence_gain: PyTree | None = None) -> Info:
    """What happened between the mask ``old`` and ``state.mask``.

    ``settled``: the readiness, ``evidence_gain``: dF0 of every weight in nats; None where it is not known. With it the act may
    be verified, see `prune.verified`.
    """
    gained = None if evidence_gain is None else _gained(evidence_gain, old, state.mask)
    return Info(**_counts(old, state.mask), evidence_gained=gained, readiness=settled, gains=evidence_gain)


def _counts(old: PyTree, new: PyTree) -> dict[str, Any]:
    return {
        "density": masks.density(new),
        "density_per_site": {path: jnp.mean(alive.astype(float)) for path, alive in trees.flatten(new).items()},
        "num_alive": masks.count(new),
        "num_pruned": masks.count(_minus(old, new)),
        "num_grown": masks.count(_minus(new, old)),
    }


def _gained(gains: PyTree, old: PyTree, new: PyTree) -> Array:
    """The sum of the gains of what fell."""
    nodes = trees.flatten(gains)
    fell = trees.flatten(_minus(old, new))
    return sum((jnp.sum(nodes[path], where=one) for path, one in fell.items()), start=jnp.zeros(()))


def amend(info: Info, old: PyTree, state: SparseState) -> Info:
    """The record of an act of which only a part was taken: what happened between the mask ``old`` and ``state.mask``."""
    gained = None if info.gains is None else _gained(info.gains, old, state.mask)
    return info._replace(**_counts(old, state.mask), evidence_gained=gained)


def fill_unknown(info: Info) -> Info:
    """The record with NaN for what is not known. Outside of compiled code, which makes none: `jax_debug_nans` would object."""
    unknown: dict[str, Any] = {name: np.float32(np.nan) for name, value in info._asdict().items() if value is None}
    return info._replace(**unknown | {"gains": None, "order": None})


def _minus(one: PyTree, other: PyTree) -> PyTree:
    """Alive in ``one`` and dead in ``other``."""
    return trees.map_nodes(lambda a, b: a & ~b, one, other)
