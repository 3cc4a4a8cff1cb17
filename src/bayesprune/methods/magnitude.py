"""Magnitude pruning: the largest weights stay."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayesprune.prune.cutting import ByScore

REFERENCE = "zhu2018prune"


@dataclass(frozen=True)
class Magnitude(ByScore):
    """Keep the weights of largest |loc| unit, in the network's own units. Works on MAP fits and on mean-field ones.

    Args:
        density: fraction of the prunable weights that stays alive, in (0, 1]; or a schedule: a function of the number of the
            pruning step (1, 2, ...): `schedules.Cubic` is gradual pruning, `schedules.Geometric` cuts a share of the rest.
        scope: what competes: "global", all weights; "layer", those of each array; "per_output", those of each output of an
            array; "unit" or "head", whole units or heads of attention, of which the density is then a share. See `Cut`.

    Counts are exact, ties included; every array keeps at least one weight; the dead stay dead.

    Example:
        >>> from bayesprune.core.schedules import Cubic
        >>> Magnitude(density=Cubic(final_density=0.05, begin=0, end=20)).scope
        'global'

    Source: Han et al. (2015); Zhu & Gupta (2018), equation 1, for the cubic schedule.
    """

    score = "magnitude"
    density: float | Callable[[Any], Any] = 0.1
    scope: str = "global"
