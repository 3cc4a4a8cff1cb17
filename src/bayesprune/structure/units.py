"""Units: what a network computes side by side, each with the weights that make and that read it; and heads of attention."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from bayesprune.structure.graph import NOTHING, Graph, Labels, Role, Terms, compress, joined

Numbers = Int[np.ndarray, "..."]
NONE, UNSEEN = -1, -2


@dataclass(frozen=True, eq=False)
class Units:
    """``count`` units, numbered in the order of the network's layers.

    ``producers``: {site: int32 of its shape}, the unit that each entry helps to make: a neuron's column of a dense kernel, its
    bias, its norm's scale and shift; a channel's filters; a feature of an attention head. -1: the entry makes none, as those of
    the last layer do, for the network's outputs are no units. ``consumers``: the unit that each entry reads; -1: it reads the
    data, a mixture of units, or nothing. Units that are summed (residual branches), multiplied (gates, queries with keys) or
    listed under one kernel's row (a class token among other tokens) are one: they can only be taken away together.

    ``heads``: the head of attention that each unit belongs to, numbered in the order of the network's layers; -1: to none.
    Its units are its features: products of a query's with a key's, and values. What has no projection of its own, as keys
    that are the block's inputs, makes no head: these would go with it. ``headless``: tables of scores in which units meet
    without a head.
    """

    producers: dict[str, Numbers]
    consumers: dict[str, Numbers]
    count: int
    heads: Int[np.ndarray, " units"]
    headless: int = 0


def units(graph: Graph) -> Units:
    """The units of a network, see `Units`.

    Ties that hold all outputs of one kernel together make no unit, for without it nothing would be left: what belongs to them
    has -1. So have arrays that are not followed, and those whose entries serve several units, as a kernel over positions does.
    """
    classes = np.append(_classes(graph), NONE)
    made, read = (_of_entries(graph, side, classes, graph.roles) for side in ("target", "source"))
    barred = _barred(graph, classes, made)
    own = {site: np.where(np.isin(found, barred), NONE, found) for site, found in made.items()}
    ordered = dict.fromkeys(one for found in own.values() for one in np.unique(found[found >= 0]).tolist())
    numbers = np.full(graph.num_signals + 1, NONE, np.int32)  # the last, which -1 shows, for none
    numbers[list(ordered)] = np.arange(len(ordered))
    shapes = {site: role.shape for site, role in graph.roles.items()}
    producers, consumers = (
        {site: np.broadcast_to(numbers[found[site]], shape) for site, shape in shapes.items()} for found in (own, read)
    )
    of_class, of_table = heads(graph, classes[:-1])
    of_units = _with_projections(of_class[list(ordered)], producers, consumers)
    headless = int((~np.isin(of_table, of_units[of_units >= 0])).sum())
    return Units(producers, consumers, len(ordered), _in_order(of_units), headless)


def _with_projections(heads: Numbers, producers: dict[str, Numbers], consumers: dict[str, Numbers]) -> Numbers:
    """The head of every unit, but for those that an array makes from units of the same head: they have none."""
    heads, barred = np.append(heads, NONE), [np.array([NONE])]
    for site, makes in producers.items():
        made, read = heads[makes], heads[consumers[site]]
        own = makes == consumers[site]  # a scale, which makes the very unit that it reads
        barred.append(np.unique(made[(made == read) & (made >= 0) & ~own]))
    return np.where(np.isin(heads, np.concatenate(barred)), NONE, heads)[:-1]


def _in_order(heads: Numbers) -> Numbers:
    """The heads of units, numbered as they come."""
    again = {head: number for number, head in enumerate(dict.fromkeys(heads[heads >= 0].tolist()))} | {NONE: NONE}
    return np.array([again[head] for head in heads.tolist()], np.int32)


def heads(graph: Graph, classes: Int[np.ndarray, " signals"]) -> tuple[Numbers, Numbers]:
    """The head of every class of signals, and of every table of scores; -1: of none.

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
        return np.full(graph.num_signals, NONE), np.full(tables.count, NONE)
    one, other = np.concatenate([np.zeros((2, 0), int), *tables.sums], axis=1)
    table = joined(one, other, tables.count)  # tables that are added, at once or by others, are the same
    values, pairs = (np.concatenate(found, axis=1) for found in (tables.mixed, [*tables.met, *tables.mixed]))
    mixes = np.isin(table, table[values[0]])
    pairs = pairs[:, mixes[pairs[0]]]
    members = classes[pairs[1]]
    component = joined(table[pairs[0]], tables.count + members, tables.count + graph.num_signals)
    of_class = np.full(graph.num_signals, NONE)
    of_class[members] = component[tables.count + members]
    return of_class, np.where(mixes, component[table], NONE)


class _Tables:
    """Tables of scores, numbered as the program makes them. ``met`` and ``mixed``: pairs (table, signal) that make one up, and
    that it mixes; ``sums``: pairs of tables that are added. The last of the arrays by signal is of what is no signal, -1."""

    def __init__(self, graph: Graph) -> None:
        self.blend = np.append(graph.blend, True)
        self.scores = np.full(graph.num_signals + 1, NONE)
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


def _classes(graph: Graph) -> Numbers:
    """The class of every signal that ties hold together; a loose one counts if all signals that it enters are of one class."""
    ties = graph.ties
    while True:
        size = graph.num_signals
        classes = joined(ties[:, 0], ties[:, 1], size)
        made, of = classes[graph.loose[:, 0]], graph.loose[:, 1]
        least, most = np.full(size, size), np.full(size, -1)
        np.minimum.at(least, of, made)
        np.maximum.at(most, of, made)
        more = (least == most)[of] & (made != classes[of])
        if not more.any():
            return classes
        ties = np.concatenate([ties, graph.loose[more]])


def _of_entries(graph: Graph, side: str, classes: Numbers, sites: Collection[str]) -> dict[str, Numbers]:
    """The class that each entry of some sites makes or reads at its first use; -1: none, several, or not followed.

    A use that reads nothing but zeros, as of the state that a loop starts from, is none. Arrays broadcast to the site's shape.
    """
    found = {site: np.full((1,) * len(graph.roles[site].shape), UNSEEN) for site in sites}
    for terms in graph.terms:
        if terms.site in found and terms.site not in graph.unfollowed and (terms.source != NOTHING).any():
            before = found[terms.site]
            if (before == UNSEEN).any():
                here = (terms.target != NOTHING).any(axis=0)
                now = np.where(here, _common(classes[getattr(terms, side)]), UNSEEN)
                found[terms.site] = np.where(before == UNSEEN, now, before)
    return {site: np.where(numbers == UNSEEN, NONE, numbers) for site, numbers in found.items()}


def _common(found: Numbers) -> Numbers:
    """What all rows agree on, rows of nothing left out, else -1."""
    highest = found.max(axis=0)
    lowest = np.where(found < 0, highest, found).min(axis=0)
    return np.where(highest == lowest, highest, NONE)


def _barred(graph: Graph, classes: Numbers, made: dict[str, Numbers]) -> Numbers:
    """Classes that are no units: the network's outputs, mixtures, and all outputs of one kernel together."""
    barred = [classes[graph.outputs], classes[:-1][graph.blend]]
    for site, numbers in made.items():
        role, found = graph.roles[site], np.unique(numbers)
        if role.inputs and len(found) == 1 and math.prod(role.shape[axis] for axis in role.outputs) > 1:
            barred.append(found)
    return np.concatenate(barred)


def with_places(graph: Graph) -> Graph:
    """The graph, the roles of arrays that are applied entry by entry split into axes of outputs and of positions.

    An axis whose entries all belong to the same unit is one of positions: (tokens, channels) of a position embedding has as
    many outputs as channels. A bias of heads, (heads, features), has outputs along both axes.
    """
    asked = {site for site, role in graph.roles.items() if _may_have_places(role) and site not in graph.unfollowed}
    if not asked:
        return graph
    found = _of_entries(graph, "target", np.append(_classes(graph), NONE), asked)
    roles = {site: _split(role, found[site]) if site in asked else role for site, role in graph.roles.items()}
    return replace(graph, roles=roles)


def _may_have_places(role: Role) -> bool:
    several = sum(size > 1 for size in role.shape)
    return role.used and not (role.inputs or role.positions) and several > 1


def _split(role: Role, units: Labels) -> Role:
    """``units``: the unit of every entry, of the array's shape or broadcasting to it."""
    sizes = compress(units).shape
    places = tuple(axis for axis, size in enumerate(sizes) if size == 1 < role.shape[axis])
    if math.prod(sizes) == 1 or (np.asarray(units) == NOTHING).all():  # all are of one unit
        return role
    return replace(role, outputs=tuple(axis for axis in role.outputs if axis not in places), positions=places)
