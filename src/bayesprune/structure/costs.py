"""What the products of a network cost: multiply-adds, all of them and those with alive weights."""

import functools
import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Int

from bayesprune.structure.graph import Graph, Product
from bayesprune.structure.movement import NOTHING
from bayesprune.structure.reach import Alive, carried
from bayesprune.structure.values import Signals, Value, Weights

PRIMITIVES = {"dot_general": lax.dot_general_p, "conv_general_dilated": lax.conv_general_dilated_p}


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
        bits = functools.reduce(operator.or_, (value.upstream for value in made if value is not None), 0)
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
        pairs = PRIMITIVES[product.name].bind(*operands, **{**product.params, "preferred_element_type": None})
        return int(np.asarray(pairs, np.float64).sum())
    if rhs is not None:
        same = tuple(axis for axis in range(rhs.ndim) if uses.shape[axis] == 1)
        return int((rhs.sum(axis=same, keepdims=True) * uses).sum())
    return executed if lhs is None or not lhs.size else round(executed * float(lhs.mean()))


def uses_of(product: Product) -> Int[np.ndarray, "..."]:
    """How many multiply-adds each number of the right operand takes part in, in a shape that broadcasts to it.

    A convolution meets every position of its kernel at every output, also where padding lies under it; zeros put between the
    inputs, as by a transposed convolution, are not counted.
    """
    params, (lhs, rhs, out) = product.params, product.shapes
    if product.name == "dot_general":
        (contracted, _), (batched, _) = params["dimension_numbers"]
        rows = math.prod(size for axis, size in enumerate(lhs) if axis not in (*contracted, *batched))
        return np.full((1,) * len(rhs), rows)
    _, kernel, output = params["dimension_numbers"]
    uses = np.full((1,) * len(rhs), out[output[0]])
    steps = (params["window_strides"], params["padding"], params["lhs_dilation"], params["rhs_dilation"])
    for axis, to, stride, (low, _), spread, reach in zip(kernel[2:], output[2:], *steps, strict=True):
        places = np.arange(out[to])[:, None] * stride + np.arange(rhs[axis]) * reach - low
        met = (places % spread == 0).sum(axis=0)
        uses = uses * met.reshape([-1 if a == axis else 1 for a in range(len(rhs))])
    return uses
