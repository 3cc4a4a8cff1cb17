"""Trees as the input of a network: what they foresee of a row together, be they a forest or boosted."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Float64, Int64, Shaped

from bayesprune.core.types import Array
from bayesprune.data.scaling import Scaling
from bayesprune.sklearn.thresholds import LEAST_WHOLE, single

RARE = 0.02  # that is added to each class's share: a class that no tree has seen is at -4 beside a sure one
ROWS, TOGETHER = 4096, 1 << 16  # that are walked together, and rows times trees


class Trees(NamedTuple):
    """The nodes of trees, one after the other, and what they say on the scale of the network's inputs.

    ``column``, ``at``: of each node the column it cuts, and where: a number above it, in single precision, goes on to
    ``above``, others to ``below``; a leaf is its own successor. ``values``: of each leaf what it adds to the target, to the
    shares of the classes, or, where they are ``logits``, to logarithms of these. ``turns``: to how many of them trees add one
    after the other, by turns; ``offset``: what all is added to. ``roots``: the trees. ``labels``: whether of classes.
    ``scaling``: of what they say. ``shares``: of the table's columns in what the cuts gain; they add up to 1.
    """

    column: Int64[np.ndarray, " nodes"]
    at: Float32[np.ndarray, " nodes"]
    below: Int64[np.ndarray, " nodes"]
    above: Int64[np.ndarray, " nodes"]
    values: Float64[np.ndarray, "nodes targets"]
    roots: Int64[np.ndarray, " trees"]
    turns: int
    offset: Float64[np.ndarray, " numbers"]
    labels: bool
    logits: bool
    scaling: Scaling
    shares: Float64[np.ndarray, " columns"]

    @property
    def num_outputs(self) -> int:
        """Numbers that they say of a row."""
        return len(self.offset) - self.labels

    def says(self, x: Shaped[Array, "rows columns"], xp: ModuleType = np) -> Any:
        """Of these rows, (rows, outputs); of classes log (p_k + .02) / (p_0 + .02) of all but the first."""
        return self.of_sums(self._walked(single(np.asarray(x))) if xp is np else self._folded(x, xp), xp)

    def of_sums(self, added: Any, xp: ModuleType = np) -> Any:
        """What they say of rows to whose numbers they add so much, (rows, numbers)."""
        total = added + xp.asarray(self.offset, added.dtype)
        if self.logits:
            grown = xp.exp(total - total.max(axis=1, keepdims=True))
            total = grown / grown.sum(axis=1, keepdims=True)
        return logs(total, xp) if self.labels else total

    def _walked(self, x: Float32[np.ndarray, "rows columns"]) -> Float64[np.ndarray, "rows numbers"]:
        """Every row from each root to its leaf, so many rows at a time."""
        return np.concatenate([self._walked_together(x[first : first + ROWS]) for first in range(0, max(1, len(x)), ROWS)])

    def _walked_together(self, x: Float32[np.ndarray, "rows columns"]) -> Float64[np.ndarray, "rows numbers"]:
        """A few trees at a time: their nodes, and where the rows are in them, stay in the processor's cache."""
        numbers, begins = x.ravel(), (np.arange(len(x), dtype=np.int32) * np.int32(x.shape[1]))[:, None]
        column, roots = self.column.astype(np.int32), self.roots.astype(np.int32)
        following = np.column_stack([self.below, self.above]).astype(np.int32).ravel()  # of node n at 2 n, or 2 n + 1
        together = max(1, TOGETHER // max(1, len(x)) // self.turns) * self.turns
        added = np.zeros((len(x), len(self.offset)))
        for first in range(0, len(roots), together):
            node = np.tile(roots[first : first + together], (len(x), 1))
            while True:
                higher = numbers.take(begins + column.take(node)) > self.at.take(node)
                reached = following.take(2 * node + higher)
                if np.array_equal(reached, node):
                    break
                node = reached
            added += self._added(self.values[node], len(x))
        return added

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
        return self._added(taken(values, place[self.roots]), len(x))

    def _added(self, of_trees: Any, rows: int) -> Any:
        """Of each row, the sum of what each tree adds to its number."""
        return of_trees.reshape((rows, of_trees.shape[1] // self.turns, len(self.offset))).sum(axis=1)

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
    """Trees, and what those of them that had not seen a row say of it, (rows, outputs).

    A network that is trained on what all trees say of its own rows would learn to trust them: there they have seen the
    target. Of new rows all trees say about what those say, boosted ones something better.
    """

    trees: Trees
    unseen: Float64[np.ndarray, "rows outputs"]


def of_whole_rows(
    grow: Callable[[np.ndarray, np.ndarray], Grown | None],
    x: Shaped[np.ndarray, "rows columns"],
    y: Shaped[np.ndarray, "rows *outputs"],
) -> Grown | None:
    """Trees of the rows of which every target is there; of the others all of them are trees that have not seen it.

    ``y``: NaN is missing. None where ``grow`` makes none, or less than 20 rows are whole.
    """
    gaps = np.isnan(y.reshape((len(y), -1))).any(axis=1)
    grown = grow(x[~gaps], y[~gaps]) if np.sum(~gaps) >= LEAST_WHOLE else None
    if grown is None or not gaps.any():
        return grown
    unseen = np.empty((len(x), grown.trees.num_outputs))
    unseen[~gaps], unseen[gaps] = grown.unseen, grown.trees.says(x[gaps])
    return grown._replace(unseen=unseen)


def nodes_of(grown: Sequence[Any], values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Of scikit-learn's trees the fields of `Trees` that say where rows go, and ``values``, of all their nodes."""
    sizes = [tree.node_count for tree in grown]
    roots = np.cumsum([0, *sizes])[:-1]
    inner = np.concatenate([tree.children_left >= 0 for tree in grown])
    own = np.arange(len(inner))
    below, above = (
        np.where(inner, np.concatenate([of + root for of, root in zip(children, roots, strict=True)]), own).astype(np.int64)
        for children in ([tree.children_left for tree in grown], [tree.children_right for tree in grown])
    )
    column = np.where(inner, np.concatenate([tree.feature for tree in grown]), 0)
    at = _float32_below(np.where(inner, np.concatenate([tree.threshold for tree in grown]), 0.0))
    return {"column": column, "at": at, "below": below, "above": above, "values": np.concatenate(values), "roots": roots}


def logs(probabilities: Any, xp: ModuleType = np) -> Any:
    """log (p_k + .02) / (p_0 + .02) of all classes but the first, the last axis."""
    found = xp.log(probabilities + RARE)
    return found[..., 1:] - found[..., :1]


def _float32_below(at: Float64[np.ndarray, " nodes"]) -> Float32[np.ndarray, " nodes"]:
    """The largest of single precision that are not above: what lies above one lies above the other."""
    near = at.astype(np.float32)
    return np.where(near > at, np.nextafter(near, np.float32(-np.inf)), near)
