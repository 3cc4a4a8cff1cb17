"""The knockoff filter: which inputs beat their copies so often that few of them can be false?"""

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Real

from bayesprune.core import checks
from bayesprune.report import inputs


def knockoff_select(statistics: Real[ArrayLike, " features"], level: float, offset: int = 1) -> Bool[np.ndarray, " features"]:
    """The inputs whose statistic W_j reaches the knockoff threshold T, with the false discovery rate held at ``level``.

        T = min { t in {|W_j| > 0} : (offset + #{W_j <= -t}) / max(1, #{W_j >= t}) <= level }

    W_j = importance of input j - importance of its copy, from one fit to both. An irrelevant input is as likely to lose to its
    copy as to beat it, so the losers below -t estimate the false winners above t. The guarantee asks for exact copies; it
    asks nothing of the importance, nor of the network.

    Args:
        statistics: W, (features,), real and finite.
        level: the false discovery rate, in (0, 1). With offset 1 nothing can be selected unless 1/level inputs are.
        offset: 1 (knockoff+) holds E[false/selected] at the level; 0 holds E[false/(selected + 1/level)], which is weaker.

    Returns:
        (features,) booleans; none is True where no threshold will do.

    Raises:
        ValueError: statistics that are not finite or not one-dimensional, a level outside (0, 1), an offset other than 0 or 1.

    Example:
        >>> print(knockoff_select(np.array([5.0, 4.0, 3.0, -1.0, 0.5]), level=0.34))
        [ True  True  True False False]

    Source: Barber & Candès (2015), eq. 1.9; Candès, Fan, Janson & Lv (2018), eq. 3.11.
    """
    checks.check_integer(offset, "offset", minimum=0)
    if offset > 1:
        raise ValueError(f"offset must be 1 (knockoff+) or 0 (knockoff), got {offset}.")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie in (0, 1), got {level}: 0.1 allows one wrong input in ten.")
    w = inputs.finite(np.asarray(statistics), "statistics")
    if w.ndim != 1:
        raise ValueError(f"statistics must have shape (features,), got {w.shape}.")
    thresholds = np.unique(np.abs(w[w != 0]))
    ordered = np.sort(w)
    losers = np.searchsorted(ordered, -thresholds, side="right")
    winners = len(w) - np.searchsorted(ordered, thresholds, side="left")
    passing = thresholds[(offset + losers) / np.maximum(1, winners) <= level]
    return w >= passing[0] if passing.size else np.zeros(len(w), bool)
