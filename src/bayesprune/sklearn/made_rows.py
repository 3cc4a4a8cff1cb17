"""Rows made between given ones, so that they lie where rows lie: of arrays, and of frames with texts, dates and gaps."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_array

from bayesprune.core.given import GivenColumn, GivenFrame
from bayesprune.data.scaling import fit_scaling
from bayesprune.sklearn.frames import MOST, is_frame, kinds_of, of_kinds, with_clocks

SWAPPED = 0.5  # probability that a column of a made row comes from its neighbour
NARROW = 4.0  # a made number's standard deviation is the distance between the two over this
FEW = 12  # a column of so few values is taken as categories: its values are swapped, never moved
APART = np.sqrt(0.5)  # of zeros and ones: rows of other categories are as far apart as those a deviation from each other


class Pairs(NamedTuple):
    """Of each made row a given one, its neighbour, and which columns are the neighbour's."""

    row: Int64[np.ndarray, " made"]
    other: Int64[np.ndarray, " made"]
    swapped: Bool[np.ndarray, "made columns"]

    def of(self, columns: list[int]) -> "Pairs":
        """Some of the columns."""
        return self._replace(swapped=self.swapped[:, columns])


def between(rng: np.random.Generator, X: Any, number: int) -> Any:
    """So many rows between those of an array of floats, or of a frame, and their nearest neighbours; of the same columns.

    A column is the neighbour's with probability 1/2. A number e of its own is then drawn from N(e', (|e - e'| / 4)²), whole and
    within the range of the given ones where a frame's column is of whole numbers; texts, dates, gaps, and numbers of twelve
    values or fewer, are taken as they are.

    >>> between(np.random.default_rng(0), np.array([[0.0, 5.0], [1.0, 5.0]]), 3).round(2).tolist()
    [[0.0, 5.0], [1.0, 5.0], [1.0, 5.0]]
    """
    if not number:
        return X[:0]
    if is_frame(X):
        return _between_rows_of_a_frame(rng, X, number)
    return _numbers(rng, X, _pairs(rng, _near(X), X.shape[1], number))


def _between_rows_of_a_frame(rng: np.random.Generator, X: GivenFrame, number: int) -> Any:
    import pandas as pd

    kinds = with_clocks(X, kinds_of(X))
    read = of_kinds(X, kinds)
    places = [place for place in range(X.shape[1]) if place not in (*kinds.texts, *kinds.dates)]
    numbers = check_array(
        read.iloc[:, places].to_numpy(np.float64), ensure_all_finite="allow-nan", ensure_min_features=0, input_name="X"
    )
    days = read.iloc[:, list(kinds.dates)].to_numpy(np.float64)
    near = np.hstack([_near(np.hstack([numbers, days])), _apart(read.iloc[:, list(kinds.texts)])])
    pairs = _pairs(rng, near, X.shape[1], number)
    moved = {
        place: made
        for place, made, given in zip(places, _numbers(rng, numbers, pairs.of(places)).T, numbers.T, strict=True)
        if not _are_few(given)
    }
    columns = []
    for place in range(X.shape[1]):
        column = X.iloc[:, place]
        if place in moved:
            columns.append(_like(column, moved[place]))
        else:
            columns.append(column.take(np.where(pairs.swapped[:, place], pairs.other, pairs.row)).reset_index(drop=True))
    return pd.concat(columns, axis=1)


def _pairs(rng: np.random.Generator, near: Float[np.ndarray, "rows _"], columns: int, number: int) -> Pairs:
    """``near``: rows as they are compared."""
    neighbours = NearestNeighbors(n_neighbors=2).fit(near).kneighbors(near, return_distance=False)
    chosen = rng.integers(len(near), size=number)
    # A copy of a row is its own nearest neighbour under another number: then nothing is moved, which is no harm.
    other = np.where(neighbours[chosen, 0] == chosen, neighbours[chosen, 1], neighbours[chosen, 0])
    return Pairs(chosen, other, rng.random((number, columns)) < SWAPPED)


def _numbers(
    rng: np.random.Generator, x: Float64[np.ndarray, "rows numbers"], pairs: Pairs
) -> Float64[np.ndarray, "made numbers"]:
    row, other, filled = x[pairs.row], x[pairs.other], _filled(x)
    moved = rng.normal(filled[pairs.other], np.abs(filled[pairs.row] - filled[pairs.other]) / NARROW)
    still = np.isnan(other) | np.array([_are_few(column) for column in x.T], bool)
    return np.where(pairs.swapped, np.where(still, other, moved), row)


def _are_few(column: Float64[np.ndarray, " rows"]) -> bool:
    return len(np.unique(column[~np.isnan(column)])) <= FEW


def _filled(x: Float64[np.ndarray, "rows numbers"]) -> Float64[np.ndarray, "rows numbers"]:
    """Gaps are the column's median, and 0 where there is nothing else."""
    known = np.where(np.isnan(x).all(axis=0), 0.0, x)
    return np.where(np.isnan(known), np.nanmedian(known, axis=0), known)


def _near(x: Float64[np.ndarray, "rows numbers"]) -> Float[np.ndarray, "rows numbers"]:
    """Numbers in units of their deviations."""
    filled = _filled(x)
    return fit_scaling(filled).apply(filled) if x.shape[1] else filled  # type: ignore[no-any-return]


def _apart(texts: GivenFrame) -> Float64[np.ndarray, "rows categories"]:
    """The twenty categories of each column that most rows have, all others as one."""
    known = texts.astype(object).where(texts.notna(), "").astype(str)
    return APART * OneHotEncoder(max_categories=MOST + 1, sparse_output=False).fit_transform(known)  # type: ignore[no-any-return]


def _like(column: GivenColumn, values: Float64[np.ndarray, " made"]) -> Any:
    """Numbers as a column of that name, whole where its dtype is, and then within its range: a byte goes to 255."""
    import pandas as pd
    from pandas.api import types

    made = pd.Series(values, name=column.name)
    if not types.is_integer_dtype(column.dtype):
        return made
    high = float(largest := int(column.max()))  # of 2**63 - 1 it is 2**63, which no int64 is
    return made.round().clip(column.min(), high if high <= largest else np.nextafter(high, 0.0)).astype(column.dtype)
