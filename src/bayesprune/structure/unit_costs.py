"""What goes with a unit: the FLOPs of all products whose weights make it or read it."""

import itertools
import math

import numpy as np
from jaxtyping import Float

from bayesprune.structure.costs import check_settled, multiply_adds, uses_of
from bayesprune.structure.graph import Graph, Product
from bayesprune.structure.movement import NOTHING
from bayesprune.structure.units import Units
from bayesprune.structure.values import Value, Weights


def flops_of_units(graph: Graph, units: Units) -> Float[np.ndarray, " units"]:
    """FLOPs a row that go with each unit of the whole network: of the products of all weights that make it or read it.

    A weight between two units goes with either, and counts for both. Where a factor is made of weights by more than moving
    them, as a normalised kernel is, its products are shared evenly among the entries of the largest array it is made of.

    Raises `ValueError` where it is not known before the network runs how often its products are done.
    """
    check_settled(graph)
    flops, total = _of_entries(graph), np.zeros(units.count + 1)  # the last is of no unit
    for site, makes in units.producers.items():
        reads = np.where(units.consumers[site] == makes, NOTHING, units.consumers[site])
        for ends in (makes, reads):
            total += np.bincount(np.where(ends < 0, units.count, ends).ravel(), flops[site].ravel(), units.count + 1)
    return total[:-1]


def _of_entries(graph: Graph) -> dict[str, Float[np.ndarray, "..."]]:
    """FLOPs of all products that each entry of each array takes part in."""
    ends = np.cumsum([0, *(math.prod(graph.roles[site].shape) for site in graph.sites)])
    line = np.zeros(ends[-1] + 1)  # all weights as views number them; the last, which -1 shows, is none
    of_site = dict(zip(graph.sites, itertools.pairwise(ends), strict=True))
    for product, (site, executed, _) in zip(graph.products, multiply_adds(graph, {}), strict=True):
        views = [(side, value) for side, value in enumerate(product.factors) if isinstance(value, Weights) and not value.solid]
        for side, value in views:
            _add(line, product, side, value, executed)
        if site and not views:
            line[slice(*of_site[site])] += 2 * executed / max(np.diff(of_site[site])[0], 1)
    found = {site: line[slice(*of_site[site])].reshape(graph.roles[site].shape) for site in graph.sites}
    return found | {site: np.zeros(role.shape) for site, role in graph.roles.items() if site not in found}


def _add(line: np.ndarray, product: Product, side: int, value: Value, executed: int) -> None:
    """Charge one product to the entries of one of its factors."""
    assert isinstance(value, Weights)
    turns = range(product.turns) if value.stride else range(1)
    each = uses_of(product) if side == 1 else executed / product.turns / max(math.prod(value.shape), 1)
    each = 2.0 * np.broadcast_to(each, value.shape) * (product.turns / len(turns))
    entries = value.entries
    for turn in turns:
        shown = np.where(entries == NOTHING, NOTHING, entries + turn * (value.stride or 0))
        np.add.at(line, shown.ravel(), each.ravel())
