"""Trees as the input of a network: what they foresee of a row together, be they a forest or boosted."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64, Shaped

from bayesprune.core.types import Array
from bayesprune.data.scaling import Scaling
from bayesprune.deploy import reader
from bayesprune.sklearn.thresholds import LEAST_WHOLE, Table, Targets, single
from bayesprune.structure.ops.trees import walked

RARE = 0.02  # that is added to each class's share: a class that no tree has seen is at -4 beside a sure one

Nodes = Int64[np.ndarray, " nodes"]


class Trees(NamedTuple):
    """The nodes of trees, one after the other, and what they say on the scale of the network's inputs.

    ``column``, ``at``: of each node the column it cuts, and where. A number above it, in single precision, goes on to the node
    after ``below``, others to ``below``, which is 0 of a leaf. ``values``: of each leaf what it adds to the target, to the
    shares of the classes, or, where they are ``logits``, to logarithms of these. ``roots``: the trees; ``depth``: of the
    deepest. ``turns``: to how many of them trees add one after the other, by turns; ``offset``: what all is added to.
    ``labels``: whether of classes. ``scaling``: of what they say. ``shares``: of the table's columns in what the cuts gain;
    they add up to 1.
    """

    column: Nodes
    at: Float32[np.ndarray, " nodes"]
    below: Nodes
    values: Float64[np.ndarray, "nodes targets"]
    roots: Int64[np.ndarray, " trees"]
    depth: int
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
        how = {"turns": self.turns, "depth": self.depth}
        if xp is np:
            nodes: tuple[Any, ...] = self.column, self.at, self.below, self.values, self.roots
            return self.of_sums(reader.trees(single(np.asarray(x)), *nodes, **how))
        column = self.column.astype(np.uint8 if self.column.max() < 256 else np.int32)
        at, values = (xp.asarray(part, x.dtype) for part in (self.at, self.values))
        nodes = column, at, self.below.astype(np.int32), values, self.roots.astype(np.int32)
        return self.of_sums(walked(x, *nodes, **how), xp)

    def of_sums(self, added: Any, xp: ModuleType = np) -> Any:
        """What they say of rows to whose numbers they add so much, (rows, numbers)."""
        total = added + xp.asarray(self.offset, added.dtype)
        if self.logits:
            grown = xp.exp(total - total.max(axis=1, keepdims=True))
            total = grown / grown.sum(axis=1, keepdims=True)
        return logs(total, xp) if self.labels else total


class Grown(NamedTuple):
    """Trees, and what those of them that had not seen a row say of it, (rows, outputs).

    A network that is trained on what all trees say of its own rows would learn to trust them: there they have seen the
    target. Of new rows all trees say about what those say, boosted ones something better.
    """

    trees: Trees
    unseen: Float64[np.ndarray, "rows outputs"]


def of_whole_rows(grow: Callable[[np.ndarray, np.ndarray], Grown | None], x: Table, y: Targets) -> Grown | None:
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


def nodes_of(grown: Sequence[Any], values: Sequence[np.ndarray]) -> dict[str, Any]:
    """Of scikit-learn's trees the fields of `Trees` that say where rows go, and ``values``, of all their nodes."""
    firsts = np.cumsum([0, *(tree.node_count for tree in grown)])[:-1]
    inner = np.concatenate([tree.children_left >= 0 for tree in grown])
    left, right = (
        np.concatenate([children + first for children, first in zip(of, firsts, strict=True)]).astype(np.int64)
        for of in ([tree.children_left for tree in grown], [tree.children_right for tree in grown])
    )
    order, depth = _siblings_together(firsts, inner, left, right)
    place = np.argsort(order)
    column = np.where(inner, np.concatenate([tree.feature for tree in grown]), 0)
    at = np.where(inner, _float32_below(np.concatenate([tree.threshold for tree in grown])), 0).astype(np.float32)
    below = np.where(inner, place[np.where(inner, left, 0)], 0)
    said = np.where(inner[:, None], 0.0, np.concatenate([of.reshape((len(of), -1)) for of in values]))
    return {
        "column": column[order].astype(np.int64),
        "at": at[order],
        "below": below[order],
        "values": said[order],
        "roots": place[firsts],
        "depth": depth,
    }


def _siblings_together(
    roots: Int64[np.ndarray, " trees"], inner: Bool[np.ndarray, " nodes"], left: Nodes, right: Nodes
) -> tuple[Nodes, int]:
    """The nodes in an order in which both that follow one are neighbours, tree after tree; cuts on the longest way."""
    nodes, tree, levels = roots, np.arange(len(roots)), list[tuple[np.ndarray, np.ndarray]]()
    while len(nodes):
        levels.append((nodes, tree))
        cuts = inner[nodes]
        nodes, tree = np.stack([left[nodes[cuts]], right[nodes[cuts]]], axis=1).ravel(), np.repeat(tree[cuts], 2)
    order, of_tree = map(np.concatenate, zip(*levels, strict=True))
    return np.asarray(order[np.argsort(of_tree, kind="stable")]), len(levels) - 1


def logs(probabilities: Any, xp: ModuleType = np) -> Any:
    """log (p_k + .02) / (p_0 + .02) of all classes but the first, the last axis."""
    found = xp.log(probabilities + RARE)
    return found[..., 1:] - found[..., :1]


def _float32_below(at: Float64[np.ndarray, " nodes"]) -> Float32[np.ndarray, " nodes"]:
    """The largest of single precision that are not above: what lies above one lies above the other."""
    near = at.astype(np.float32)
    return np.where(near > at, np.nextafter(near, np.float32(-np.inf)), near)
