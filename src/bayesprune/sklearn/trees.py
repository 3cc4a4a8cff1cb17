"""A random forest as the input of a network: what its trees foresee of a row, on average."""

import time
from functools import partial
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Float64, Int64, Shaped
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from bayesprune.core.types import Array
from bayesprune.data.scaling import Scaling, silencing
from bayesprune.sklearn.thresholds import LEAST_WHOLE, single

NUMBER, SHARE, MOST_COLUMNS = 64, 0.5, 100  # trees, and columns among which each cut is found
DEPTH, LEAVES, LEAST_ROWS = 14, 512, 2  # of a tree, its leaves, and the rows of each
MOST_ROWS = 20_000  # that a tree is grown on
RARE = 0.02  # that is added to each class's share: a class that no tree has seen is at -4 beside a sure one
MOST_OUTPUTS = 20  # classes, or numbers: each leaf holds as many
BLOCK = 1 << 21  # rows times trees that are walked together


class Trees(NamedTuple):
    """A forest's nodes, tree after tree, and what it says on the scale of the network's inputs.

    ``column``, ``at``: of each node the column it cuts, and where: a number above it, in single precision, goes on to
    ``above``, others to ``below``; a leaf is its own successor. ``values``: of each leaf the mean target, or the shares of the
    classes. ``roots``: the trees. ``labels``: whether of classes. ``scaling``: of what the forest says. ``shares``: of the
    table's columns in what its cuts gain; they add up to 1.
    """

    column: Int64[np.ndarray, " nodes"]
    at: Float32[np.ndarray, " nodes"]
    below: Int64[np.ndarray, " nodes"]
    above: Int64[np.ndarray, " nodes"]
    values: Float64[np.ndarray, "nodes targets"]
    roots: Int64[np.ndarray, " trees"]
    labels: bool
    scaling: Scaling
    shares: Float64[np.ndarray, " columns"]

    @property
    def num_outputs(self) -> int:
        """Numbers that the forest says of a row."""
        return self.values.shape[1] - self.labels

    def says(self, x: Shaped[Array, "rows columns"], xp: ModuleType = np) -> Any:
        """The mean over trees of these rows, (rows, outputs); of classes log (p_k + .02) / (p_0 + .02) of all but the first."""
        mean = self._walked(single(np.asarray(x))) if xp is np else self._folded(x, xp)
        return _logs(mean, xp) if self.labels else mean

    def _walked(self, x: Float32[np.ndarray, "rows columns"]) -> Float64[np.ndarray, "rows targets"]:
        """Every row from each root to its leaf, so many rows at a time."""
        rows = max(1, BLOCK // len(self.roots))
        return np.concatenate([self._walked_together(x[first : first + rows]) for first in range(0, max(1, len(x)), rows)])

    def _walked_together(self, x: Float32[np.ndarray, "rows columns"]) -> Float64[np.ndarray, "rows targets"]:
        node = np.tile(self.roots, len(x))
        going = np.flatnonzero(self.below[node] != node)
        while len(going):
            here = node[going]
            higher = x[going // len(self.roots), self.column[here]] > self.at[here]
            next_one = np.where(higher, self.above[here], self.below[here])
            node[going] = next_one
            going = going[self.below[next_one] != next_one]
        return self.values[node].reshape((len(x), len(self.roots), self.values.shape[1])).mean(axis=1)

    def _folded(self, x: Any, xp: ModuleType) -> Any:
        """The same without a choice of places by row, which small runtimes have not: each node's value of those below it.

        All cuts are asked of each row; nodes of one depth at once, from the deepest up, and only they are kept.
        """
        taken = partial(xp.take, axis=1, mode="clip")  # an index as `x[:, i]` is first looked at for numbers below zero
        levels = self._levels()
        place = np.empty(len(self.below), np.int64)  # of a node among those of its depth
        for nodes in map(np.concatenate, levels):
            place[nodes] = np.arange(len(nodes))
        inner = [cuts for _, cuts in levels]
        every = np.concatenate(inner)
        bits = taken(x, self.column[every]) > xp.asarray(self.at[every], x.dtype)
        ends = pairwise(np.cumsum([0, *map(len, inner)]))
        values: Any = None
        for (leaves, cuts), (first, last) in reversed(list(zip(levels, ends, strict=True))):
            known = xp.asarray(self.values[leaves], x.dtype)
            found = [xp.broadcast_to(known, (len(x), *known.shape))]
            if len(cuts):
                both = taken(values, place[np.concatenate([self.above[cuts], self.below[cuts]])])
                found.append(xp.where(bits[:, first:last, None], both[:, : len(cuts)], both[:, len(cuts) :]))
            values = xp.concatenate(found, axis=1)
        return taken(values, place[self.roots]).mean(axis=1)

    def _levels(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each depth, the roots' first: its leaves, and its nodes that cut."""
        levels, nodes = list[tuple[np.ndarray, np.ndarray]](), self.roots
        while len(nodes):
            is_leaf = self.below[nodes] == nodes
            cuts = nodes[~is_leaf]
            levels.append((nodes[is_leaf], cuts))
            nodes = np.concatenate([self.below[cuts], self.above[cuts]])
        return levels


class Grown(NamedTuple):
    """A forest, and what those of its trees that had not seen a row say of it, (rows, outputs)."""

    trees: Trees
    unseen: Float64[np.ndarray, "rows outputs"]


def grow(seed: int, x: Shaped[np.ndarray, "rows columns"], y: Shaped[np.ndarray, "rows *outputs"], labels: bool) -> Grown:
    """A forest of these rows, numbers of any number of outputs, or labels.

    A network that is trained on what the whole forest says of its own rows would learn to trust it: there it has seen the
    target. Of new rows the whole forest says nearly what those trees say.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(0, 12, (300, 2)).astype(float)
    >>> y = (7 * x[:, 0] + 5 * x[:, 1]) % 12
    >>> trees, unseen = grow(0, x, y, labels=False)
    >>> trees.says(x[:4]).shape, unseen.shape, bool(np.corrcoef(unseen[:, 0], y)[0, 1] > 0.5)
    ((4, 1), (300, 1), True)

    Source: Breiman (2001), section 3.1, for rows out of the bag; Wolpert (1992) for a model that reads what others foresee.
    """
    forest = _forest(NUMBER, seed, x, labels, oob_score=True).fit(single(x), y)
    trees = [tree.tree_ for tree in forest.estimators_]
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    inner = np.concatenate([tree.children_left >= 0 for tree in trees])
    own = np.arange(len(inner))
    below, above = (
        np.where(inner, np.concatenate([of + root for of, root in zip(children, roots, strict=True)]), own).astype(np.int64)
        for children in ([tree.children_left for tree in trees], [tree.children_right for tree in trees])
    )
    values = np.concatenate([tree.value.reshape((tree.node_count, -1)) for tree in trees])
    column = np.where(inner, np.concatenate([tree.feature for tree in trees]), 0)
    at = _float32_below(np.where(inner, np.concatenate([tree.threshold for tree in trees]), 0.0))
    said = _logs(forest.oob_decision_function_, np) if labels else forest.oob_prediction_.reshape((len(x), -1))
    found = Trees(column, at, below, above, values, roots, labels, silencing(said), forest.feature_importances_)
    return Grown(found, said)


def seconds_to_grow(seed: int, x: Shaped[np.ndarray, "rows columns"], y: Shaped[np.ndarray, "rows *outputs"]) -> float:
    """What a forest of these rows will take, by one of its trees; gaps as zeros."""
    begun = time.perf_counter()
    _forest(1, seed, x, labels=np.issubdtype(y.dtype, np.integer)).fit(single(x), np.nan_to_num(y))
    return NUMBER * (time.perf_counter() - begun)


def _forest(number: int, seed: int, x: np.ndarray, labels: bool, **how: Any) -> Any:
    return (RandomForestClassifier if labels else RandomForestRegressor)(
        number,
        max_depth=DEPTH,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=LEAST_ROWS,
        max_features=max(1, min(int(SHARE * x.shape[1]), MOST_COLUMNS)),
        max_samples=min(len(x), MOST_ROWS),
        random_state=np.random.RandomState(seed),
        **how,
    )


def grow_whole(seed: int, x: Shaped[np.ndarray, "rows columns"], y: Shaped[np.ndarray, "rows *outputs"]) -> Grown | None:
    """A forest of the rows of which every target is there; of the others the whole of it is one that has not seen them.

    ``y``: integers are labels; NaN is missing. None where too few rows are whole, or there are more than 20 classes or outputs.
    """
    if np.issubdtype(y.dtype, np.integer):
        return grow(seed, x, y, labels=True) if len(np.unique(y)) <= MOST_OUTPUTS else None
    columns = y.reshape((len(y), -1))
    whole = ~np.isnan(columns).any(axis=1)
    if whole.sum() < LEAST_WHOLE or columns.shape[1] > MOST_OUTPUTS:
        return None
    trees, seen = grow(seed, x[whole], y[whole], labels=False)
    unseen = np.empty((len(x), seen.shape[1]))
    unseen[whole], unseen[~whole] = seen, trees.says(x[~whole])
    return Grown(trees, unseen)


def _logs(probabilities: Any, xp: ModuleType) -> Any:
    """log (p_k + .02) / (p_0 + .02) of all classes but the first, the last axis."""
    logs = xp.log(probabilities + RARE)
    return logs[..., 1:] - logs[..., :1]


def _float32_below(at: Float64[np.ndarray, " nodes"]) -> Float32[np.ndarray, " nodes"]:
    """The largest of single precision that are not above: what lies above one lies above the other."""
    near = at.astype(np.float32)
    return np.where(near > at, np.nextafter(near, np.float32(-np.inf)), near)
