"""Where trees cut the columns of a table: thresholds at which the target is seen to change, alone or with other columns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64, Shaped
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

TREES, LEAVES, LEAST_ROWS, SHARE = 40, 48, 5, 0.5  # leaves of a table of 2,000 rows, `growth` times as many of a larger one
MOST_ROWS = 10_000  # that a forest is grown on
LEAST_WHOLE = 20  # rows in which every target is there, for a forest of them
SMALL, LARGE = 2_000, 8_000  # rows between which there are the more thresholds the more rows there are
BINS, EACH, MOST = 32, 8, 96  # ranks within which cuts are one; thresholds of a column, and of the table, as leaves
NOTHING = np.zeros((0, 1))

Table = Shaped[np.ndarray, "rows columns"]
Targets = Shaped[np.ndarray, "rows *outputs"]


def growth(rows: int) -> float:
    """How many times the thresholds, and the steps, of a table of 2,000 rows: in proportion to the rows, 4 at most.

    >>> growth(150), growth(3_000), growth(1_000_000)
    (1.0, 1.5, 4.0)
    """
    return min(max(rows, SMALL), LARGE) / SMALL


class Thresholds(NamedTuple):
    """``column``, ``at``: of each threshold its column, and its place in the column's units; the best ones first.

    ``residuals``: what the trees that had not seen a row miss of its target, (rows, outputs), of the rows that the forest was
    grown on; ``targets``: of the same rows; of labels nothing.
    """

    column: Int64[np.ndarray, " thresholds"]
    at: Float64[np.ndarray, " thresholds"]
    residuals: Float64[np.ndarray, "rows outputs"] = NOTHING
    targets: Float64[np.ndarray, "rows outputs"] = NOTHING

    def of_size(self, number: int) -> "Thresholds":
        """The best so many; where there are fewer, others that no number is beyond, which `Columns` keeps silent.

        >>> Thresholds(np.array([2]), np.array([0.5])).of_size(3).at.tolist()
        [0.5, inf, inf]
        """
        missing = max(0, number - len(self.at))
        at, column = np.pad(self.at[:number], (0, missing), constant_values=np.inf), np.pad(self.column[:number], (0, missing))
        return self._replace(at=at, column=column)


@dataclass(frozen=True)
class FoundByRows:
    """``whole``: thresholds by all rows. ``find``: by some, which are to say nothing of others."""

    whole: Thresholds
    find: Callable[[np.ndarray], Thresholds]

    def by(self, rows: np.ndarray) -> Thresholds:
        """As many by some rows, so that what reads them shares what is compiled."""
        return self.find(rows).of_size(len(self.whole.at))


def found_by_whole_rows(seed: int, x: np.ndarray, columns: np.ndarray) -> FoundByRows:
    """Thresholds by the rows of which every target is there; ``columns``: of targets, NaN for those that are missing."""
    whole = np.asarray(~np.isnan(columns.astype(np.float64)).any(axis=1))

    def find(rows: np.ndarray) -> Thresholds:
        seen = rows[whole[rows]]
        if len(seen) < LEAST_WHOLE:  # no forest says where to cut, or what tails the noise has
            return Thresholds(np.zeros(0, np.int64), np.zeros(0))
        y = columns[seen]
        return fit_thresholds(np.random.RandomState(seed), x[seen], y[:, 0] if y.shape[1] == 1 else y, labels=False)

    return FoundByRows(find(np.arange(len(x))), find)


def fit_thresholds(rng: np.random.RandomState, x: Table, y: Targets, labels: bool) -> Thresholds:
    """The cuts of a small random forest by what they gain, cuts of nearly the same rank as one.

    The gain of a cut is the fall of the impurity times the rows it parts, summed over the forest. Columns of two values have
    none: they are their own step.
    """
    more = growth(len(x))
    rows = np.arange(len(x)) if len(x) <= MOST_ROWS else rng.choice(len(x), MOST_ROWS, replace=False)
    x, y = x[rows], y[rows]
    kind = RandomForestClassifier if labels else RandomForestRegressor
    forest = kind(
        TREES,
        max_leaf_nodes=int(LEAVES * more),
        min_samples_leaf=LEAST_ROWS,
        max_features=SHARE,
        oob_score=not labels,
        random_state=rng,
    ).fit(single(x), y)
    column, at, gain = (
        np.concatenate(parts) for parts in zip(*(_cuts(tree.tree_) for tree in forest.estimators_), strict=True)
    )
    found = []
    for place in np.unique(column):
        if len(np.unique(x[:, place])) > 2:
            here = column == place
            best = _merged(x[:, place], at[here], gain[here], int(EACH * more))
            found += [(total, int(place), _beyond_rounding(value, x[:, place])) for total, value in best]
    found = sorted(found, key=lambda one: (-one[0], *one[1:]))[: int(MOST * more)]
    column, at = np.array([c for _, c, _ in found], np.int64), np.array([v for *_, v in found], np.float64)
    if labels:
        return Thresholds(column, at)
    y = y.reshape((len(y), -1)).astype(np.float64)
    return Thresholds(column, at, y - forest.oob_prediction_.reshape(y.shape), y)


def single(x: Table) -> Table:
    """Numbers as trees see them, in single precision; those beyond it are the largest that it has."""
    most = np.finfo(np.float32).max
    return np.clip(x, -most, most).astype(np.float32)


def _cuts(tree: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Column, place and gain of every cut of a tree."""
    inner = np.flatnonzero(tree.children_left >= 0)
    weighted = tree.weighted_n_node_samples * tree.impurity
    gain = weighted[inner] - weighted[tree.children_left[inner]] - weighted[tree.children_right[inner]]
    return tree.feature[inner], tree.threshold[inner], gain


def _beyond_rounding(at: float, values: np.ndarray) -> float:
    """The same a little higher, and below the next value: between 81.6 and 81.8 a tree cuts at 81.69999695, float32's 81.7.

    Rows at 81.7 lie below it for the tree, and in float64 above it: where they lie would depend on the precision.
    """
    seen = values.astype(np.float32).astype(np.float64)  # as the trees see them
    room = np.min(seen[seen > at]) - at
    return float(at + min(4.0 * float(np.spacing(np.float32(abs(at)))), room / 2.0))


def _merged(values: np.ndarray, at: np.ndarray, gain: np.ndarray, most: int) -> list[tuple[float, float]]:
    """(gain, place) of the best cuts of one column: of each bin of ranks the median of its cuts, weighted by their gains."""
    rank = np.searchsorted(np.sort(values), at) / len(values)
    bins = np.minimum((rank * BINS).astype(int), BINS - 1)
    found = []
    for one in np.unique(bins):
        order = np.argsort(at[bins == one], kind="stable")
        places, gains = at[bins == one][order], np.cumsum(gain[bins == one][order])
        found.append((float(gains[-1]), float(places[min(np.searchsorted(gains, gains[-1] / 2), len(places) - 1)])))
    return sorted(found, reverse=True)[:most]
