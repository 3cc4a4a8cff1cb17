"""Units: what a network computes side by side, each with the weights that make it and the weights that read it."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from bayesprune.structure.graph import Graph
from bayesprune.structure.movement import NOTHING, Labels

Numbers = Int[np.ndarray, "..."]


@dataclass(frozen=True, eq=False)
class Units:
    """``count`` units, numbered in the order of the network's layers.

    ``producers``: {site: int32 of its shape}, the unit that each entry helps to make: a neuron's column of a dense kernel, its
    bias, its norm's scale and shift; a channel's filters; a feature of an attention head. -1: the entry makes none, as those of
    the last layer do, for the network's outputs are no units. ``consumers``: the unit that each entry reads; -1: it reads the
    data, a mixture of units, or nothing. Units that are summed (residual branches), multiplied (gates, queries with keys) or
    listed under one kernel's row (a class token among other tokens) are one: they can only be taken away together.
    """

    producers: dict[str, Numbers]
    consumers: dict[str, Numbers]
    count: int


def units(graph: Graph) -> Units:
    """The units of a network, see `Units`.

    Ties that hold all outputs of one kernel together make no unit, for without it nothing would be left: what belongs to them
    has -1. So have arrays that are not followed, and those whose entries serve several units, as a kernel over positions does.
    """
    classes = _classes(graph)
    made, read = (_first_use(graph, side) for side in ("target", "source"))
    classes = np.append(np.where(np.isin(classes, _barred(graph, classes, made)), -1, classes), -1)
    shapes = {site: role.shape for site, role in graph.roles.items()}
    own = {site: _of_entries(made.get(site), classes, shape) for site, shape in shapes.items()}
    ordered = dict.fromkeys(one for labels in own.values() for one in np.unique(labels[labels >= 0]).tolist())
    numbers = np.full(graph.num_signals + 1, -1, np.int32)  # the last, which -1 shows, for none
    numbers[list(ordered)] = np.arange(len(ordered))
    producers = {site: numbers[labels] for site, labels in own.items()}
    consumers = {site: numbers[_of_entries(read.get(site), classes, shape)] for site, shape in shapes.items()}
    return Units(_in_full(producers, shapes), _in_full(consumers, shapes), len(ordered))


def _classes(graph: Graph) -> Numbers:
    """The class of every signal that ties hold together."""
    ties, size = graph.ties, graph.num_signals
    joined = coo_matrix((np.ones(len(ties), np.int8), (ties[:, 0], ties[:, 1])), shape=(size, size))
    return connected_components(joined, directed=False)[1]


def _first_use(graph: Graph, side: str) -> dict[str, Labels]:
    """For each site that is followed, the signals of its first use: (classes, *shape), as far as they differ."""
    found: dict[str, Labels] = {}
    for terms in graph.terms:
        if terms.site and terms.site not in graph.unfollowed:
            found.setdefault(terms.site, getattr(terms, side))
    return found


def _barred(graph: Graph, classes: Numbers, made: dict[str, Labels]) -> Numbers:
    """Classes that are no units: the network's outputs, mixtures, and all outputs of one kernel together."""
    of_outputs = graph.outputs[graph.outputs != NOTHING]
    barred = [classes[of_outputs], classes[graph.blend]]
    for site, labels in made.items():
        role, found = graph.roles[site], np.unique(classes[labels[labels != NOTHING]])
        if role.inputs and len(found) == 1 and math.prod(role.shape[axis] for axis in role.outputs) > 1:
            barred.append(found)
    return np.concatenate(barred)


def _of_entries(labels: Labels | None, classes: Numbers, shape: tuple[int, ...]) -> Numbers:
    """The one class of each entry, -1 where it has none or several."""
    if labels is None:
        return np.full((1,) * len(shape), -1)
    found = classes[labels]
    highest = found.max(axis=0)
    lowest = np.where(found < 0, highest, found).min(axis=0)
    return np.where(highest == lowest, highest, -1)


def _in_full(numbers: dict[str, Numbers], shapes: dict[str, tuple[int, ...]]) -> dict[str, Numbers]:
    return {site: np.broadcast_to(found, shapes[site]) for site, found in numbers.items()}
