"""Signal-to-noise pruning: the surest weights stay."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayesprune.prune.cutting import ByScore

REFERENCE = "blundell2015weight"


@dataclass(frozen=True)
class SNR(ByScore):
    """Keep the weights of largest |loc|/scale.

    Args:
        density: fraction of the prunable weights that stays alive, in (0, 1]; or a schedule: a function of the number of the
            pruning step (1, 2, ...), such as `schedules.Cubic` or `schedules.Geometric`.
        scope: what competes: "global", all weights; "layer", those of each array; "per_output", those of each output of an
            array; "unit" or "head", whole units or heads of attention, of which the density is then a share. See `Cut`.

    Counts are exact, ties included; every array keeps at least one weight; the dead stay dead.

    Example:
        >>> SNR(density=0.25)
        SNR(density=0.25, scope='global')

    Source: Graves (2011); Blundell et al. (2015), section 5.1.
    """

    score = "snr"
    density: float | Callable[[Any], Any] = 0.1
    scope: str = "global"
