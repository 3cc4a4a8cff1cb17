"""Columns whose numbers reach far: a second input for each, in which they lie as those of a normal law do."""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64, Shaped
from scipy.special import ndtr

from bayesprune.core.types import Array

FAR = 4.0  # times the deviation that a normal law of the same quartiles has; 2.0 of exp(z), 20 of exp(2 z)
FEWEST = 20  # different numbers
NORMAL_QUARTILES = 1.349  # between the quartiles of a Gaussian, in its deviations
SCORES = np.linspace(-3.0, 3.0, 33)
LEAST = 1e-30  # numbers nearer to zero are zero: the slopes between them would be too large for single precision


class Bends(NamedTuple):
    """Increasing maps of some columns, straight between knots and level beyond them: the least and the largest score.

    ``owner``: the columns. ``at``: each one's knots, in its units. ``scores``: what it is at the first knot. ``slopes``: of the
    pieces, 0 for those of no width.
    """

    owner: Int64[np.ndarray, " bends"]
    at: Float64[np.ndarray, "bends knots"]
    scores: Float64[np.ndarray, " bends"]
    slopes: Float64[np.ndarray, "bends pieces"]

    def apply(self, x: Shaped[Array, "rows columns"], xp: ModuleType = np) -> list[Any]:
        """The maps of these rows, (rows, 1) each."""
        wide = np.float64 if xp is np else x.dtype
        found = []
        for column, at, first, slopes in zip(*self, strict=True):
            within = xp.clip(xp.asarray(x[:, [column]], wide) - xp.asarray(at[:-1], wide), 0.0, xp.asarray(np.diff(at), wide))
            found.append(within @ xp.asarray(slopes[:, None], wide) + xp.asarray(first, wide))
        return found


NONE = Bends(np.zeros(0, np.int64), np.zeros((0, len(SCORES))), np.zeros(0), np.zeros((0, len(SCORES) - 1)))


def fit_bends(x: Shaped[np.ndarray, "rows columns"]) -> Bends:
    """The maps of the columns that reach far, to the normal scores of these rows: of many ties the mean of their scores.

    Prices, concentrations and counts lie over decades: on one straight scale most of them are next to nothing, and a network
    that is smooth cannot tell them apart. The straight scale stays beside it, for what is linear in it.

    >>> x = np.exp(2.0 * np.random.default_rng(0).standard_normal((2000, 1)))
    >>> (bent,) = fit_bends(x).apply(x)
    >>> float(np.corrcoef(bent[:, 0], np.log(x[:, 0]))[0, 1]) > 0.98, abs(float(bent.std()) - 1.0) < 0.02
    (True, True)
    >>> fit_bends(np.log(x)).owner.tolist()
    []

    Source: Gorishniy, Rubachev, Khrulkov & Babenko (2021), appendix: quantiles to normal scores, as scikit-learn's
    `QuantileTransformer` maps them.
    """
    numbers = np.asarray(x, np.float64)
    owner = np.flatnonzero([reaches_far(column) for column in numbers.T])
    if not len(owner):
        return NONE
    knots = [_knots(numbers[:, column]) for column in owner]
    at, scores = (np.stack(part) for part in zip(*knots, strict=True))
    widths = np.diff(at, axis=1)
    slopes = np.divide(np.diff(scores, axis=1), widths, out=np.zeros_like(widths), where=widths > 0)
    return Bends(owner, at, scores[:, 0], slopes)


def reaches_far(column: Float64[np.ndarray, " rows"]) -> bool:
    """Whether a column's deviation is so much larger than its quartiles say, beside the number that most rows have.

    That may be a filled gap, or a zero for nothing, which draws the quartiles together; of half of the rows it is the column.

    >>> draws = np.random.default_rng(0).standard_normal(500)
    >>> reaches_far(draws), reaches_far(np.exp(2.0 * draws)), reaches_far(np.exp(2.0 * draws) * (draws > 0.5))
    (False, True, False)
    """
    values, counts = np.unique(column, return_counts=True)
    if len(values) < FEWEST or 2 * counts.max() > len(column):
        return False
    others = column[column != values[counts.argmax()]]
    low, high = np.quantile(others, (0.25, 0.75))
    return bool(np.std(others) > FAR * (high - low) / NORMAL_QUARTILES)


def _knots(column: Float64[np.ndarray, " rows"]) -> tuple[np.ndarray, np.ndarray]:
    """Places and their scores, as many for every column: the last one again where several are the same."""
    places = np.quantile(column, ndtr(SCORES))
    at, which = np.unique(np.where(np.abs(places) < LEAST, 0.0, places), return_inverse=True)
    scores = np.bincount(which, SCORES) / np.bincount(which)
    missing = len(SCORES) - len(at)
    return np.pad(at, (0, missing), mode="edge"), np.pad(scores, (0, missing), mode="edge")
