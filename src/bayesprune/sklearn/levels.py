"""Whole numbers that are names, as zip codes are: how they are known without a fit, and a warning of them."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64, Shaped
from numpy.typing import ArrayLike

FEWEST, MOST = 9, 1_000  # levels of a column that is looked at
ROWS = 8  # of a level, on average
# Standard errors by which its own rows must predict a level better than those beside it. Zip codes have 9 to 13, the hours of
# two peaks a day 6.5; of the numbers of 64 real tables that are no names one has more than 5.3, sizes of disks.
LEAD = 6.0
BESIDE = 3  # levels on either side
FIRST = 2  # levels that are left out: those that lead most
DEGREE, FOLDS, SHRUNK = 3, 5, 3.0  # of the polynomial; of the rows; rows of the mean of all that a level's mean is shrunk by
EXACT = 2.0**53  # from here on float64 leaves whole numbers out


def warn_of_codes(
    x: Float[np.ndarray, "rows columns"], called: Sequence[object], y: np.ndarray, labels: bool, seed: int, in_frame: bool
) -> None:
    """Warn of columns of numbers that are names; ``called``: what the columns are. ``in_frame``: X is a frame.

    They are read as amounts all the same: of days and years each has its own mean, too, and later ones go on from them.
    """
    for place in places_of_names(x, y, labels, seed):
        name = called[place]
        remedy = f"X[{name!r}].astype('category')" if in_frame else "astype('category') of a pandas frame's column"
        warnings.warn(
            f"column {name!r} of X holds whole numbers that tell y apart as names do: what y is at one says little of y at the "
            f"next. They are read as amounts. If they are codes, make categories of them, as by {remedy}, or in a file put a "
            "letter before each.",
            stacklevel=2,
        )


def places_of_names(x: Float[np.ndarray, "rows columns"], y: np.ndarray, labels: bool, seed: int) -> tuple[int, ...]:
    """Places of the columns whose whole numbers are names; NaN is a gap. ``labels``: whether y is classes; several outputs: ().

    >>> rng = np.random.default_rng(0)
    >>> level = rng.integers(0, 30, 600)
    >>> x = np.stack([1000.0 + level, level + rng.random(600), rng.integers(20, 50, 600)], axis=1)
    >>> places_of_names(x, rng.standard_normal(30)[level] + x[:, 2] / 9, labels=False, seed=0)
    (0,)
    """
    places = [place for place, column in enumerate(x.T) if _may_be_names(column)]
    targets = targets_of(y, labels) if places and np.ndim(y) == 1 else None
    if targets is None:
        return ()
    folds = np.random.default_rng(seed).permutation(len(x)) % FOLDS
    return tuple(place for place in places if lead_of_levels(np.asarray(x[:, place], np.float64), targets, folds) > LEAD)


class Targets(NamedTuple):
    """Numbers, (rows,), or the places of labels among as many ``classes``, 0 of numbers."""

    values: Shaped[np.ndarray, " rows"]
    classes: int

    def sums(self, cells: Int64[np.ndarray, " rows"], count: int) -> Float64[np.ndarray, "cells outputs"]:
        """Of numbers, or of the labels' zeros and ones, by cell."""
        if not self.classes:
            return np.bincount(cells, self.values, count)[:, None]
        both = np.bincount(cells * self.classes + self.values, minlength=count * self.classes)
        return both.reshape((count, self.classes)).astype(np.float64)

    def errors(self, means: Float64[np.ndarray, "cells outputs"], cells: Int64[np.ndarray, " rows"]) -> np.ndarray:
        """Squared errors of the cells' means, (rows,); of labels the sum over the classes."""
        if not self.classes:
            return np.square(self.values - means[cells, 0])  # type: ignore[no-any-return]
        return 1.0 - 2.0 * means[cells, self.values] + np.square(means).sum(axis=1)[cells]  # type: ignore[no-any-return]


def lead_of_levels(column: Float64[np.ndarray, " rows"], targets: Targets, folds: Int64[np.ndarray, " rows"]) -> float:
    """By how many standard errors a level's own rows predict y better than those of the levels beside it.

    A cubic of the levels' order is taken off y first: what is smooth in the number is that of a length, which the network
    reads as it is. Of what is left, (sum of r) / (n + 3) is compared: of the other rows of the level, and of those of the three
    levels on either side. Both, and the cubic, are of four fifths of the rows, squared errors of the last. The two levels that
    lead most are left out: one that is special, as the zero of what is mostly zero, does not make names of the others. -inf
    where there are too many levels, or too few. Ages, years and counts have about the means of their neighbours; names have no
    neighbours.

    Source: paired differences as of Student's t; Micci-Barreca (2001) for the shrinkage.
    """
    known = ~np.isnan(column)
    levels, at = np.unique(column[known], return_inverse=True)
    count = len(levels)
    if not FEWEST <= count <= min(MOST, len(at) / ROWS):
        return -np.inf
    found, cells = targets._replace(values=targets.values[known]), folds[known] * count + at
    sums = found.sums(cells, FOLDS * count).reshape((FOLDS, count, -1))
    rows = np.bincount(cells, minlength=FOLDS * count).reshape((FOLDS, count, 1)).astype(np.float64)
    sums, rows = sums.sum(axis=0) - sums, rows.sum(axis=0) - rows  # of the rows of all other folds
    smooth = _cubic(sums, rows)
    left = sums - rows * smooth
    own, beside = left / (rows + SHRUNK), _beside(left) / (_beside(rows) + SHRUNK)
    mine, theirs = (found.errors((smooth + means).reshape((FOLDS * count, -1)), cells) for means in (own, beside))
    lead = theirs - mine
    first = np.argsort(-np.bincount(at, lead), kind="stable")[:FIRST]
    lead = lead[~np.isin(at, first)]
    error = lead.std(ddof=1) / np.sqrt(len(lead))
    return float(lead.mean() / error) if error > 0.0 else -np.inf


def _cubic(sums: np.ndarray, rows: np.ndarray) -> Float64[np.ndarray, "folds levels outputs"]:
    """Least squares of y by the levels' order, at the levels; as good as exact where rows are few."""
    powers = np.polynomial.legendre.legvander(np.linspace(-1.0, 1.0, sums.shape[1]), DEGREE)
    squares = powers.T @ (rows * powers) + 1e-9 * rows.sum(axis=1, keepdims=True) * np.eye(DEGREE + 1)
    return powers @ np.linalg.solve(squares, powers.T @ sums)  # type: ignore[no-any-return]


def _beside(parts: np.ndarray) -> np.ndarray:
    """Sums over the levels on either side, without the level itself."""
    padded = np.pad(parts, ((0, 0), (BESIDE, BESIDE), (0, 0)))
    shifted = [padded[:, first : first + parts.shape[1]] for first in range(2 * BESIDE + 1) if first != BESIDE]
    return np.sum(shifted, axis=0)  # type: ignore[no-any-return]


def _may_be_names(column: Shaped[np.ndarray, " rows"]) -> bool:
    """Whether what is there is whole numbers that span as many levels as are asked for: quickly, of thousands of columns."""
    known = column[~np.isnan(column)]
    whole = len(known) and bool((known[:ROWS] == np.floor(known[:ROWS])).all()) and float(np.abs(known).max()) <= EXACT
    return bool(whole and np.ptp(known) >= FEWEST - 1 and (known == np.floor(known)).all())


def targets_of(y: ArrayLike, labels: bool) -> Targets | None:
    """None of targets that are all the same, or of nearly as many classes as rows."""
    if labels:
        classes, values = np.unique(np.asarray(y), return_inverse=True)
        return Targets(values, len(classes)) if 1 < len(classes) <= min(MOST, len(values) / ROWS) else None
    numbers = np.asarray(y, np.float64)
    size = np.abs(numbers).max(initial=0.0)
    scaled = numbers / size if 0.0 < size < np.inf else numbers  # squares of large numbers are infinite
    spread = scaled.std()
    return Targets((scaled - scaled.mean()) / spread, 0) if np.isfinite(spread) and spread > 0.0 else None
