"""Gaussian spike and slab: cut by the inclusion probability in closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayesprune.prune.cutting import ByInclusion

REFERENCE = "saha2024bayesian"


@dataclass(frozen=True)
class SBNN(ByInclusion):
    """Keep the weights whose slab probability p* under a `priors.GaussianSlab` is highest (6.1).

    Ranking by p* is ranking by the second moment loc² + scale²: a large weight stays, and so does one that the data leave wide
    open. `SNR` drops the latter.

    Args:
        density: the fraction of the prunable weights that stays alive (one minus the paper's drop rate), in (0, 1]; or a
            schedule, a function of the number of the pruning step (1, 2, ...). None cuts at ``probability``.
        probability: the cut without a density, in (0, 1); 1/2 is the median probability model.
        scope: what competes, any scope of `Cut`.

    Counts by density are exact, ties included. The dead stay dead. `prune_to_tolerance` finds the density that a held-out loss
    allows. p* depends on the prior, so that the network has to read it: `prune_once(fit.params, SBNN(), program=bnn)`; as a
    sparsifier of `fit_svi` it is read so anyway.

    Raises:
        TypeError: the posterior holds no inclusion probabilities.

    Example:
        >>> SBNN(density=0.25)
        SBNN(density=0.25, probability=0.5, scope='global')

    Source: Saha, Liu & Liang (2024), section 4.
    """

    density: float | Callable[[Any], Any] | None = None
    probability: float = 0.5
    scope: str = "global"
