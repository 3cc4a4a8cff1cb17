"""Which way a figure is better: the highest, the lowest, or the nearest to a target."""

import math
from numbers import Real
from typing import Any

import numpy as np

from bayesprune.core.checks import unknown_name

HIGHEST, LOWEST = "max", "min"
Direction = str | int | float  # a number is the target

# Every figure that `bayesprune.evaluate` reports and every function of `bayesprune.metrics` that gives one number.
DIRECTIONS: dict[str, Direction] = {
    "accuracy": HIGHEST,
    "brier": LOWEST,
    "calibration_marginal": LOWEST,
    "coverage": 0.95,  # the level of the intervals: where more are covered, they are too wide
    "crps": LOWEST,
    "ece": LOWEST,
    "ece_quantile": LOWEST,
    "fdr": LOWEST,
    "fnr": LOWEST,
    "fpr": LOWEST,
    "gaussian_crps": LOWEST,
    "gaussian_nll": LOWEST,
    "interval_width": LOWEST,  # of two with the same coverage
    "nll": LOWEST,
    "ood_auroc": HIGHEST,
    "power": HIGHEST,
    "ranked_probability_score": LOWEST,
    "rmse": LOWEST,
    "rps": LOWEST,
}
_REMEDY = 'Of a figure of your own say which way is better: direction="max", direction="min", or the number to be near to.'


def direction_of(metric: object, given: Any = None) -> Direction:
    """Which way ``metric`` is better: "max", "min", or the number that it should be nearest to.

    ``given``: what the caller says of it, None for nothing; of a figure that is not ours it is needed.

    Raises `ValueError` for an unknown metric without ``given``, for a ``given`` that is no direction, and for one that
    contradicts a metric of ours; `TypeError` for a metric that is no name.

    >>> direction_of("accuracy"), direction_of("coverage"), direction_of("f1", "max")
    ('max', 0.95, 'max')
    """
    if not isinstance(metric, str):
        raise TypeError(f"metric must be the name of one figure, got {metric!r}: give a name such as 'nll'.")
    ours = DIRECTIONS.get(metric)
    if given is None:
        if ours is None:
            raise unknown_name("metric", metric, DIRECTIONS, _REMEDY)
        return ours
    if not _is_direction(given):
        raise ValueError(f"direction must be 'max', 'min' or a finite number, got {given!r}: a number is the target.")
    if ours is not None and given != ours:
        raise ValueError(
            f"direction={given!r} contradicts {metric!r}, which is better {_in_words(ours)}: leave direction out, or report a "
            "figure of your own by another name."
        )
    return given if isinstance(given, str) else float(given)


def merit(values: object, direction: Direction) -> np.ndarray:
    """Numbers that are the higher, the better ``values`` are; NaN stays NaN.

    >>> merit([0.5, 0.9], "max").tolist(), merit([0.5, 0.75, 1.0], 0.75).tolist()
    ([0.5, 0.9], [-0.25, -0.0, -0.25])
    """
    found = np.asarray(values, np.float64)
    if isinstance(direction, str):
        return found if direction == HIGHEST else -found
    return -np.abs(found - direction)


def _is_direction(given: object) -> bool:
    if isinstance(given, str):
        return given in (HIGHEST, LOWEST)
    return isinstance(given, Real) and not isinstance(given, bool) and math.isfinite(given)


def _in_words(direction: Direction) -> str:
    if isinstance(direction, str):
        return {HIGHEST: "the higher it is", LOWEST: "the lower it is"}[direction]
    return f"the nearer it is to {direction}"
