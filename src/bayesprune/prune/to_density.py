"""Pruning to a density by a score: the step that every rank-and-cut method shares."""

from collections.abc import Callable
from typing import Any

from bayesprune.core.checks import check_density, unknown_name
from bayesprune.core.types import Evidence, Info, PyTree, SparseState
from bayesprune.prune.book import take_step
from bayesprune.prune.choose import SCOPES, keep_density


def cut(
    score: Callable[[PyTree], PyTree], density: float | Callable[[Any], Any], scope: str, evidence: Evidence, state: SparseState
) -> tuple[SparseState, Info]:
    """Keep the highest scores at the density of this step, exactly so many, among those alive."""
    target = density(state.step + 1) if callable(density) else density
    alive = keep_density(score(evidence.posterior), target, scope, within=state.mask)
    return take_step(state, alive, evidence.posterior)


def check(density: float | Callable[[Any], Any], scope: str) -> None:
    """Refuse a density outside (0, 1], unless a schedule makes it, and an unknown scope."""
    if not callable(density):
        check_density(density)
    if scope not in SCOPES:
        raise unknown_name("scope", scope, SCOPES)
