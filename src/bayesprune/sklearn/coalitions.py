"""What trees say of all mixtures of a row with others, without a walk for each: the coalitions of exact Shapley values."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from bayesprune.sklearn.columns import Columns, JointColumns
from bayesprune.sklearn.thresholds import single
from bayesprune.sklearn.trees import Trees

# What the way to a leaf asks of a player. Nothing, 0: the row and the other go the same way at every cut of its columns.
NEEDED, EXCLUDED = 1, 2
TOGETHER = 4  # others whose ways are followed at once: they stay in the processor's cache

Row = Shaped[np.ndarray, " columns"]
Others = Shaped[np.ndarray, "others columns"]
Player = Int64[np.ndarray, " columns"]
Said = Float64[np.ndarray, "coalitions others outputs"]


def said_of_mixtures(
    columns: Columns | JointColumns, row: Row, others: Others, owned: Sequence[Int64[np.ndarray, " _"]]
) -> Said:
    """What trees say of mixtures by all 2^k coalitions, as ``columns`` take it beside the columns; nothing, where they do not.

    ``owned``: of each of k players its columns. Without trees, or where networks read different ones, there are no outputs.
    """
    maps = columns.maps if isinstance(columns, JointColumns) else (columns,)
    read = [one.trees for one in maps if one.trees]
    player = np.full(len(row), -1)
    for number, places in enumerate(owned):
        player[places] = number
    kinds = read[0] if len(read) == 1 else ()
    nothing = np.zeros((2 ** len(owned), len(others), 0))
    return np.concatenate([nothing, *(said_by(trees, row, others, player) for trees in kinds)], axis=2)


def said_by(trees: Trees, row: Row, others: Others, player: Player) -> Said:
    """As `Trees.says` of mixtures: columns of players in a coalition S are those of ``row``, all others of one of ``others``.

      sum over the leaves that a mixture can reach:  value 1{needed in S} 1{excluded not in S}

    Of each player the way to a leaf asks one of three things: that it is in S, that it is not, or nothing. Leaves are summed by
    these 3^k answers, of which those of each coalition are added up, a player at a time.

    Args:
        trees: of numbers or of classes.
        row, others: as `Trees.says` takes rows; one other at least.
        player: whose each column is, 0 to k - 1; -1 for columns that are always the other's.

    Returns:
        (2^k, others, outputs): player i is in coalition s where bit i of s is set.
    """
    groups = [others[first : first + TOGETHER] for first in range(0, len(others), TOGETHER)]
    players, numbers = int(player.max()) + 1, len(trees.offset)
    added = [_added(trees, single(row[None])[0], single(group), player, players) for group in groups]
    sums = np.concatenate(added).swapaxes(0, 1)
    return trees.of_sums(sums.reshape((-1, numbers))).reshape((2**players, len(others), -1))


def _added(
    trees: Trees, row: Row, others: Others, player: Player, players: int
) -> Float64[np.ndarray, "others coalitions numbers"]:
    """To the numbers of every mixture, of all trees."""
    numbers, targets = len(trees.offset), trees.values.shape[1]
    leaf, tree, answer = _reached(trees, row, others, player, 3**players)
    place, value = answer * numbers + tree % trees.turns * targets, trees.values[leaf]
    sums = np.zeros(len(others) * 3**players * numbers)
    for target in range(targets):
        sums += np.bincount(place + target, value[:, target], len(sums))
    for one in range(players):
        nothing, needed, excluded = np.moveaxis(sums.reshape((-1, 3, 2**one * numbers)), 1, 0)
        sums = np.stack([nothing + excluded, nothing + needed], axis=1)
    return sums.reshape((len(others), 2**players, numbers))


def _reached(
    trees: Trees, row: np.ndarray, others: np.ndarray, player: np.ndarray, answers: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The leaves that mixtures reach, the tree of each, and what it asks: digits in base 3, after the number of the other."""
    power = np.where(player < 0, 0, 3 ** np.maximum(player, 0))  # of a column's player
    node, tree = np.tile(trees.roots, len(others)), np.tile(np.arange(len(trees.roots)), len(others))
    answer = np.repeat(np.arange(len(others)) * answers, len(trees.roots))
    found = []
    while len(node):
        ends = trees.below[node] == 0
        found.append((node[ends], tree[ends], answer[ends]))
        node, tree, answer = node[~ends], tree[~ends], answer[~ends]

        column, at = trees.column[node], trees.at[node]
        of_row, of_other = row[column] > at, others[answer // answers, column] > at
        asked = np.where(power[column] > 0, answer // np.maximum(power[column], 1) % 3, EXCLUDED)
        apart = of_row != of_other
        first = np.where(apart & (asked == 0), power[column], 0)  # it is here that the way asks something of this player
        by_row, by_other = np.flatnonzero(apart & (asked != EXCLUDED)), np.flatnonzero(~apart | (asked != NEEDED))
        both, above = np.append(by_row, by_other), np.append(of_row[by_row], of_other[by_other])
        node = trees.below[node[both]] + above
        tree = tree[both]
        answer = np.append((answer + NEEDED * first)[by_row], (answer + EXCLUDED * first)[by_other])
    leaf, tree, answer = map(np.concatenate, zip(*found, strict=True))
    return leaf, tree, answer
