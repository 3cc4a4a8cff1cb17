"""Pruning to a density by a score: the step that every rank-and-cut method shares."""

from collections.abc import Callable
from typing import Any

from bayesprune.core.types import Evidence, Info, PyTree, SparseState
from bayesprune.prune.book import make_info
from bayesprune.prune.choose import keep_density
from bayesprune.prune.readiness import readiness


def cut(
    score: Callable[[PyTree], PyTree], density: float | Callable[[Any], Any], scope: str, evidence: Evidence, state: SparseState
) -> tuple[SparseState, Info]:
    """Keep the highest scores at the density of this step, exactly so many, among those alive."""
    step = state.step + 1
    target = density(step) if callable(density) else density
    alive = keep_density(score(evidence.posterior), target, scope, within=state.mask)
    new = state._replace(mask=alive, memory=evidence.posterior, step=step)
    return new, make_info(state.mask, new, readiness(evidence.posterior, state.memory, state.mask))
