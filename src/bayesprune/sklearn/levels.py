"""Columns of categories as numbers: which of them have a column of their own, and what y is at each level of the others; of
texts, and of whole numbers that are names, as zip codes are, known without a fit."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64, Shaped
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder

from bayesprune.core.given import GivenColumn
from bayesprune.sklearn.frames import MOST as MOST_APART

LEAST_ROWS = 5  # of a category that is told apart by a column of its own
LEAST_OF_NAMES = 3  # of a text that is more than one row's name
FEWEST, MOST = 9, 1_000  # levels of a column that is looked at
ROWS, OF_A_CLASS = 2, 8  # of a level, and of a class, on average
# Standard errors by which its own rows must predict a level better than those beside it. Zip codes have 9 to 13, the hours of
# two peaks a day 6.5; of the numbers of 64 real tables that are no names one has more than 5.3, sizes of disks.
LEAD = 6.0
BESIDE = 3  # levels on either side
FIRST = 2  # levels that are left out: those that lead most
DEGREE, FOLDS, SHRUNK = 3, 5, 3.0  # of the polynomial; of the rows; rows of the mean of all that a level's mean is shrunk by
EXACT = 2.0**53  # from here on float64 leaves whole numbers out
GAP = "\0gap"


def places_of_names(x: Float[np.ndarray, "rows columns"], y: np.ndarray, labels: bool, seed: int) -> tuple[int, ...]:
    """Places of the columns whose whole numbers are names; NaN is a gap. ``labels``: whether y is classes; several outputs: ().

    >>> rng = np.random.default_rng(0)
    >>> level = rng.integers(0, 30, 600)
    >>> x = np.stack([1000.0 + level, level + rng.random(600), rng.integers(20, 50, 600)], axis=1)
    >>> places_of_names(x, rng.standard_normal(30)[level] + x[:, 2] / 9, labels=False, seed=0)
    (0,)
    """
    places = [place for place, column in enumerate(x.T) if _may_be_names(column)]
    targets = targets_of(np.ravel(y), labels) if places and np.shape(y)[1:] in ((), (1,)) else None
    if targets is None:
        return ()
    # A row that stands there several times foretells itself, by whatever column.
    once = np.array(list({row.tobytes(): place for place, row in enumerate(np.column_stack([x, targets.values]))}.values()))
    x, targets, folds = x[once], targets.of(once), folds_of(len(once), seed)
    return tuple(place for place in places if lead_of_levels(np.asarray(x[:, place], np.float64), targets, folds) > LEAD)


class Targets(NamedTuple):
    """Numbers, (rows,), or the places of labels among as many ``classes``, 0 of numbers."""

    values: Shaped[np.ndarray, " rows"]
    classes: int

    def squares(self) -> Float64[np.ndarray, " rows"]:
        """Of numbers, or of a label's zeros and one, summed over these."""
        return np.ones(len(self.values)) if self.classes else np.square(self.values)

    def sums(self, cells: Int64[np.ndarray, " rows"], count: int) -> Float64[np.ndarray, "cells outputs"]:
        """Of numbers, or of the labels' zeros and ones, by cell."""
        if not self.classes:
            return np.bincount(cells, self.values, count)[:, None]
        both = np.bincount(cells * self.classes + self.values, minlength=count * self.classes)
        return both.reshape((count, self.classes)).astype(np.float64)

    def of(self, rows: Shaped[np.ndarray, " _"]) -> "Targets":
        """Of some rows alone."""
        return self._replace(values=self.values[rows])

    def by_fold(self, cells: Int64[np.ndarray, " rows"], count: int) -> tuple[np.ndarray, np.ndarray]:
        """Sums, (folds, levels, outputs), and numbers of rows, (folds, levels, 1), of cells fold * count + level."""
        rows = np.bincount(cells, minlength=FOLDS * count).astype(np.float64)
        return self.sums(cells, FOLDS * count).reshape((FOLDS, count, -1)), rows.reshape((FOLDS, count, 1))

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
    found, cells = targets.of(known), folds[known] * count + at
    sums, rows = found.by_fold(cells, count)
    sums, rows = sums.sum(axis=0) - sums, rows.sum(axis=0) - rows  # of the rows of all other folds
    smooth = _smooth(sums, rows)
    left = sums - rows * smooth
    own, beside = left / (rows + SHRUNK), _beside(left) / (_beside(rows) + SHRUNK)
    mine, theirs = (found.errors((smooth + means).reshape((FOLDS * count, -1)), cells) for means in (own, beside))
    lead = theirs - mine
    first = np.argsort(-np.bincount(at, lead), kind="stable")[:FIRST]
    lead = lead[~np.isin(at, first)]
    error = lead.std(ddof=1) / np.sqrt(len(lead))
    return float(lead.mean() / error) if error > 0.0 else -np.inf


class LevelMeans(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What y, standardised, is at each level of one column, (rows, 1), beyond what it is without it; 0 of later levels.

      m = sum over the level's rows of r / (n + s²/t²),    r = y - smooth,                                   (21.37)

    smooth: a cubic of the levels' order, or where they are ``texts`` the mean; s² and t²: the variances of r within levels and
    of their means, by the analysis of variance. In the fit m is of the rows of the other four fifths: of its own, a network
    would learn each row's target from it. Later m is of all rows, drawn in to the range that it had in the fit: where no level
    has two rows, it is 0. One column of numbers, and of ``labels`` one for each, of two for the second. A gap is 0, and a
    level of texts. It stands beside the number itself, by which later ones go on.

    >>> towns, y = np.repeat(np.array(["a", "b", "c", "d"], object), 30)[:, None], np.repeat([1.0, -1.0, -1.0, 1.0], 30)
    >>> LevelMeans(texts=True).fit(towns, y).transform(np.array([["a"], ["b"], ["e"]], object)).ravel().tolist()
    [1.0, -1.0, 0.0]

    Source: Micci-Barreca (2001), cross-fitted as scikit-learn's `TargetEncoder`; the method of moments of Searle, Casella &
    McCulloch (1992), section 3.6.
    """

    def __init__(self, labels: bool = False, seed: int = 0, texts: bool = False) -> None:
        self.labels, self.seed, self.texts = labels, seed, texts

    def fit(self, X: Any, y: ArrayLike) -> "LevelMeans":
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: ArrayLike, **_: Any) -> Float64[np.ndarray, "rows outputs"]:
        """Of each row by the rows of other folds."""
        return self._learn(X, y)

    def _learn(self, X: Any, y: ArrayLike) -> Float64[np.ndarray, "rows outputs"]:
        column, targets = self._column(X), targets_of(y, self.labels)
        if targets is None:
            raise ValueError("y is the same in all rows, or of nearly as many classes as rows: no level has a mean of its own.")
        known, folds = column == column, folds_of(len(column), self.seed)
        self.levels_, at = np.unique(column[known], return_inverse=True)
        self.classes_, self.n_features_in_ = (np.unique(np.asarray(y)) if self.labels else np.zeros(0)), 1
        found, cells = targets.of(known), folds[known] * len(self.levels_) + at
        sums, rows = found.by_fold(cells, len(self.levels_))
        whole = np.stack([sums.sum(axis=0)]), np.stack([rows.sum(axis=0)])
        degree = 0 if self.texts else DEGREE
        pull = _pull(*whole, degree, float(found.squares().sum()))
        others = _beyond(whole[0] - sums, whole[1] - rows, degree, pull)[:, :, self._places()]
        learned = np.zeros((len(column), others.shape[2]))
        learned[known] = others[folds[known], at]
        means = _beyond(*whole, degree, pull)[0][:, self._places()]
        self.means_, self.shared_ = np.clip(means, learned.min(axis=0), learned.max(axis=0)), int((whole[1] > 1.0).sum())
        return learned

    def transform(self, X: Any) -> Float64[np.ndarray, "rows outputs"]:
        column = self._column(X)
        at = np.minimum(np.searchsorted(self.levels_, column), len(self.levels_) - 1)
        return np.where((self.levels_[at] == column)[:, None], self.means_[at], 0.0)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        of = [f"y = {self.classes_[place]}" for place in np.arange(len(self.classes_))[self._places()]] or ["mean y"]
        return np.array([f"{np.ravel(input_features)[0]} ({name})" for name in of], object)

    def _column(self, X: Any) -> Shaped[np.ndarray, " rows"]:
        """Numbers with NaN for gaps, or texts with `GAP`."""
        if not self.texts:
            return np.asarray(X, np.float64)[:, 0]  # type: ignore[no-any-return]
        return np.array([value if isinstance(value, str) else GAP for value in np.asarray(X, object)[:, 0]], object)

    def _places(self) -> slice:
        """Of the outputs; of two classes what is said of one is said of the other."""
        return slice(1, 2) if len(self.classes_) == 2 else slice(None)


def folds_of(rows: int, seed: int) -> Int64[np.ndarray, " rows"]:
    """The fold of each row."""
    return np.random.default_rng(seed).permutation(rows) % FOLDS


def _beyond(sums: np.ndarray, rows: np.ndarray, degree: int, pull: float) -> Float64[np.ndarray, "folds levels outputs"]:
    """(21.37) of each fold; 0 of a level without rows."""
    return np.divide(sums - rows * _smooth(sums, rows, degree), rows + pull, out=np.zeros_like(sums), where=rows > 0.0)


def _pull(sums: np.ndarray, rows: np.ndarray, degree: int, squares: float) -> float:
    """s²/t²; ``squares``: the sum of all y². Where levels differ by no more than chance, as many rows as there are."""
    smooth = _smooth(sums, rows, degree)
    left, total, count = sums - rows * smooth, float(rows.sum()), rows.shape[1]
    within = squares - float(np.sum(np.square(sums) / rows))
    between = float(np.sum(np.square(left) / rows)) - float(np.square(left.sum(axis=(0, 1))).sum()) / total
    noise = max(within, 0.0) / max(total - count, 1.0)
    spread = (between - (count - 1) * noise) / (total - float(np.square(rows).sum()) / total)
    return noise / spread if spread * total > noise else total


def _smooth(sums: np.ndarray, rows: np.ndarray, degree: int = DEGREE) -> Float64[np.ndarray, "folds levels outputs"]:
    """Least squares of y by a polynomial of the levels' order, at the levels; as good as exact where rows are few."""
    powers = np.polynomial.legendre.legvander(np.linspace(-1.0, 1.0, sums.shape[1]), degree)
    squares = powers.T @ (rows * powers) + 1e-9 * rows.sum(axis=1, keepdims=True) * np.eye(degree + 1)
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
        return Targets(values, len(classes)) if 1 < len(classes) <= min(MOST, len(values) / OF_A_CLASS) else None
    numbers = np.asarray(y, np.float64)
    size = np.abs(numbers).max(initial=0.0)
    scaled = numbers / size if 0.0 < size < np.inf else numbers  # squares of large numbers are infinite
    spread = scaled.std()
    return Targets((scaled - scaled.mean()) / spread, 0) if np.isfinite(spread) and spread > 0.0 else None


def zeros_and_ones() -> OneHotEncoder:
    """A column for each common category, one for the rare ones together and for those that come later."""
    return OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=LEAST_ROWS, drop="if_binary", sparse_output=False)


def warn_of_names(name: object, column: GivenColumn) -> None:
    """Warn of texts that hardly any rows share: nothing is learnt from them, nor from dates among them."""
    counts = column.value_counts()
    names = counts[counts < LEAST_OF_NAMES]
    if len(names) > MOST_APART and names.sum() > len(column) / 2:
        warnings.warn(
            f"column {name!r} of X has texts in {names.sum()} of its {len(column)} rows that fewer than {LEAST_OF_NAMES} rows "
            "share, and next to nothing can be learnt from such: leave it out, or give what it says as columns of their own; "
            "dates by pd.to_datetime.",
            stacklevel=2,
        )


def are_read_by_means(column: GivenColumn) -> bool:
    """Whether what y is at each category is read: there are more than 20 that five rows have, or most rows have rarer ones."""
    counts = column.value_counts(dropna=False)
    rare = counts[counts < LEAST_ROWS]
    return bool(len(counts) - len(rare) > MOST_APART or (len(rare) > MOST_APART and rare.sum() > len(column) / 2))


def warn_of_strangers(name: object, column: GivenColumn, fitted: OneHotEncoder | LevelMeans) -> None:
    """Warn of a column none of whose texts was in the fit: more likely than new, they are written in another way."""
    if isinstance(fitted, LevelMeans):
        known, told_apart = fitted.levels_[fitted.levels_ != GAP], fitted.shared_
    else:
        known, rare = fitted.categories_[0], fitted.infrequent_categories_[0]
        told_apart = len(known) - (0 if rare is None else len(rare))
    if told_apart < 2 or len(column) < LEAST_ROWS or not column.notna().any() or column.isin(known).any():
        return
    then, now = (
        ", ".join(repr(value) for value in sorted(map(str, values))[:3]) for values in (known, column.dropna().unique())
    )
    warnings.warn(
        f"no value of column {name!r} of X was there when it was fitted ({then} then, {now} now), so that they say nothing: "
        f"give the column as it was written, as by dtype={{{name!r}: str}} of pd.read_csv.",
        stacklevel=5,
    )
