"""What the products of a network cost: multiply-adds, all of them and those with alive weights, and what goes with a unit."""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesprune.structure.graph import NOTHING, Graph, Product, Signals, Value, Weights, bits_of
from bayesprune.structure.ops import PRIMITIVES
from bayesprune.structure.reach import Alive, carried
from bayesprune.structure.units import Units


def multiply_adds(graph: Graph, mask: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    """(site, executed, alive) of every product of the network: its multiply-adds, and those with alive weights.

    ``mask``: {site: booleans, True = alive}; sites that it does not name are whole. The site is that of the largest array of
    weights that a factor is made of, "" where no weight enters but through data.
    """
    counter = _Counter(graph, mask)
    for product in graph.products:
        yield counter.count(product)


def check_settled(graph: Graph) -> None:
    """Refuse a network of which it is not known before it runs how often its products are done."""
    if graph.unsettled:
        raise ValueError(
            f"net has products inside {graph.unsettled!r}, and how many of them are executed, or of which weights, is not known"
            " before it runs: count the net with a loop of fixed length (jax.lax.scan) over its weights, or without the branch."
        )


class _Counter:
    def __init__(self, graph: Graph, mask: Mapping[str, Any]) -> None:
        self.graph = graph
        self.alive = {site: np.asarray(mask.get(site, np.ones(role.shape, bool))) for site, role in graph.roles.items()}

    @functools.cached_property
    def flat(self) -> Alive:
        """All weights in one line, as views number them."""
        return np.concatenate([self.alive[site].ravel() for site in self.graph.sites])

    @functools.cached_property
    def carried(self) -> np.ndarray:
        return carried(self.graph, self.alive)

    def count(self, product: Product) -> tuple[str, int, int]:
        made = [value if value.of_weights else None for value in product.factors]
        bits = bits_of(value.upstream for value in made if value is not None)
        sites = (site for number, site in enumerate(self.graph.sites) if bits >> number & 1)
        uses = uses_of(product)
        executed = int(uses.sum()) * math.prod(n for n, m in zip(product.shapes[1], uses.shape, strict=True) if m == 1)
        turns = range(product.turns) if any(isinstance(value, Weights) and value.stride for value in made) else range(1)
        alive = sum(_alive(product, uses, executed, [self.pattern(value, turn) for value in made]) for turn in turns)
        site = max(sites, key=lambda site: self.alive[site].size, default="")
        return site, executed * product.turns, alive * product.turns // max(len(turns), 1)

    def pattern(self, value: Value | None, turn: int) -> Alive | None:
        """Which numbers of a factor that is made of weights may be other than zero."""
        if value is None:
            return None
        if isinstance(value, Signals):
            return self.carried[value.labels]
        if value.solid:
            return np.ones((1,) * len(value.shape), bool)
        if value.whole is not None:
            return self.alive[self.graph.sites[value.sites[0]]].transpose(value.whole.order)
        entries = value.entries
        return (entries != NOTHING) & self.flat[entries + turn * (value.stride or 0)]


def _alive(product: Product, uses: np.ndarray, executed: int, patterns: list[Alive | None]) -> int:
    """``patterns``: of both factors, None where data enter; where neither is of data, pairs of which both are alive count."""
    lhs, rhs = (None if p is None else np.broadcast_to(p, shape) for p, shape in zip(patterns, product.shapes, strict=False))
    if lhs is not None and rhs is not None:
        operands = [jnp.asarray(side, jnp.float32) for side in (lhs, rhs)]
        pairs = product.primitive.bind(*operands, **{**product.params, "preferred_element_type": None})
        return int(np.asarray(pairs, np.float64).sum())
    if rhs is not None:
        same = tuple(axis for axis in range(rhs.ndim) if uses.shape[axis] == 1)
        return int((rhs.sum(axis=same, keepdims=True) * uses).sum())
    return executed if lhs is None or not lhs.size else round(executed * float(lhs.mean()))


def uses_of(product: Product) -> np.ndarray:
    """How many multiply-adds each number of the right operand takes part in, in a shape that broadcasts to it."""
    uses = PRIMITIVES[product.primitive.name].uses
    assert uses is not None
    return uses(product.params, product.shapes)


def flops_of_units(graph: Graph, units: Units) -> Float[np.ndarray, " units"]:
    """FLOPs a row that go with each unit of the whole network: of the products of all weights that make it or read it.

    A weight between two units goes with either, and counts for both. Where a factor is made of weights by more than moving
    them, as a normalised kernel is, its products are shared evenly among the entries of the largest array it is made of.

    Raises `ValueError` where it is not known before the network runs how often its products are done.
    """
    check_settled(graph)
    flops, total = flops_of_entries(graph), np.zeros(units.count + 1)  # the last is of no unit
    for site, makes in units.producers.items():
        reads = np.where(units.consumers[site] == makes, NOTHING, units.consumers[site])
        for ends in (makes, reads):
            total += np.bincount(np.where(ends < 0, units.count, ends).ravel(), flops[site].ravel(), units.count + 1)
    return total[:-1]


def flops_of_entries(graph: Graph) -> dict[str, Float[np.ndarray, "..."]]:
    """FLOPs a row of all products that each entry of each array takes part in, by site."""
    ends = np.cumsum([0, *(math.prod(graph.roles[site].shape) for site in graph.sites)])
    line = np.zeros(ends[-1] + 1)  # all weights as views number them; the last, which -1 shows, is none
    of_site = dict(zip(graph.sites, itertools.pairwise(ends), strict=True))
    for product, (site, executed, _) in zip(graph.products, multiply_adds(graph, {}), strict=True):
        views = [(side, value) for side, value in enumerate(product.factors) if isinstance(value, Weights) and not value.solid]
        for side, value in views:
            _charge(line, product, side, value, executed)
        if site and not views:
            line[slice(*of_site[site])] += 2 * executed / max(np.diff(of_site[site])[0], 1)
    found = {site: line[slice(*of_site[site])].reshape(graph.roles[site].shape) for site in graph.sites}
    return found | {site: np.zeros(role.shape) for site, role in graph.roles.items() if site not in found}


def _charge(line: np.ndarray, product: Product, side: int, value: Value, executed: int) -> None:
    """Charge one product to the entries of one of its factors."""
    assert isinstance(value, Weights)
    turns = range(product.turns) if value.stride else range(1)
    each = uses_of(product) if side == 1 else executed / product.turns / max(math.prod(value.shape), 1)
    each = 2.0 * np.broadcast_to(each, value.shape) * (product.turns / len(turns))
    entries = value.entries
    for turn in turns:
        shown = np.where(entries == NOTHING, NOTHING, entries + turn * (value.stride or 0))
        np.add.at(line, shown.ravel(), each.ravel())
