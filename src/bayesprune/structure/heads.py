"""Heads of attention: which units meet in one table of scores, or are mixed by it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from bayesprune.structure.graph import Graph, Terms
from bayesprune.structure.values import NOTHING, Labels, joined

NO_HEAD = -1


class Heads(NamedTuple):
    """A number for the head of every class of signals, and of every table of scores; -1: of none."""

    of_class: Int[np.ndarray, " signals"]
    of_table: Int[np.ndarray, " tables"]


def heads(graph: Graph, classes: Int[np.ndarray, " signals"]) -> Heads:
    """The heads of a network.

    ``classes``: the class of every signal, below the number of signals. A table of scores is a sum of products of two
    signals, queries times keys; what follows from it alone (a mask, a softmax) is the same table; what it multiplies are the
    values. A head is all that meets in it. Heads that share a unit, as those of one group share keys, are one, and so are
    those whose tables are added or multiplied. Scores that multiply nothing, as of a bilinear last layer, make none, nor do
    those that a kernel mixes with others on the way. Where queries and keys have one feature, or keys meet values before
    queries, there is no table: the unit is all of the head. A table may be one number a row: attention with one query is a
    head, and so is a gate that is the inner product of two layers' outputs. Products that are summed in a step of their own,
    and those of a signal with itself, are no tables.
    """
    tables = _Tables(graph)
    for terms in graph.terms:
        tables.take(terms)
    if not tables.mixed:
        return Heads(np.full(graph.num_signals, NO_HEAD), np.full(tables.count, NO_HEAD))
    one, other = np.concatenate([np.zeros((2, 0), int), *tables.sums], axis=1)
    table = joined(one, other, tables.count)  # tables that are added, at once or by others, are the same
    values, pairs = (np.concatenate(found, axis=1) for found in (tables.mixed, [*tables.met, *tables.mixed]))
    mixes = np.isin(table, table[values[0]])
    pairs = pairs[:, mixes[pairs[0]]]
    members = classes[pairs[1]]
    component = joined(table[pairs[0]], tables.count + members, tables.count + graph.num_signals)
    of_class = np.full(graph.num_signals, NO_HEAD)
    of_class[members] = component[tables.count + members]
    return Heads(of_class, np.where(mixes, component[table], NO_HEAD))


class _Tables:
    """Tables of scores, numbered as the program makes them. ``met`` and ``mixed``: pairs (table, signal) that make one up, and
    that it mixes; ``sums``: pairs of tables that are added. The last of the arrays by signal is of what is no signal, -1."""

    def __init__(self, graph: Graph) -> None:
        self.blend = np.append(graph.blend, True)
        self.scores = np.full(graph.num_signals + 1, NO_HEAD)
        self.met: list[Labels] = []
        self.mixed: list[Labels] = []
        self.sums: list[Labels] = []
        self.count = 0

    def take(self, terms: Terms) -> None:
        """Follow some terms. Most say nothing of scores, which is seen before they are written out."""
        factors = [terms.source] if terms.other is None else [terms.source, terms.other]
        known = any((self.scores[factor] >= 0).any() for factor in factors)
        if not (known or (len(factors) == 2 and self.blend[terms.target].any())):
            return
        target, *factors = np.broadcast_arrays(terms.target, *factors)
        if len(factors) == 2:
            self._start(target, *factors)
            self._mix(target, *factors)
            self._mix(target, *reversed(factors))
        for factor in factors:
            read = self.blend[target] & (target != NOTHING) & (self.scores[factor] >= 0)
            made = read & (self.scores[target] < 0)
            self.scores[target[made]] = self.scores[factor[made]]
            if (self.scores[target[read]] != self.scores[factor[read]]).any():
                self.sums.append(np.stack([self.scores[target[read]], self.scores[factor[read]]]))

    def _start(self, target: Labels, one: Labels, other: Labels) -> None:
        """New tables, of products of two units. Squares are none: a norm may sum them so."""
        made = self.blend[target] & (target != NOTHING) & ~self.blend[one] & ~self.blend[other] & (one != other)
        fresh = np.unique(target[made])
        fresh = fresh[self.scores[fresh] < 0]
        self.scores[fresh] = self.count + np.arange(len(fresh))
        self.count += len(fresh)
        self.met += [np.stack([self.scores[target[made]], side[made]]) for side in (one, other)]

    def _mix(self, target: Labels, table: Labels, value: Labels) -> None:
        """Values that a table multiplies, and what is made of them."""
        read = (self.scores[table] >= 0) & ~self.blend[value] & (target != NOTHING)
        if read.any():
            self.mixed += [np.stack([self.scores[table[read]], side[read]]) for side in (value, target)]
