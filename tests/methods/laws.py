"""The laws that every sparsifier obeys, as functions of one; tests run them over all methods that are found."""

import math
from dataclasses import dataclass, replace
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.types import Evidence, Groups, Info, Needs, SparseState
from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.posteriors.scales import GaussianScale, LogNormalScale, TruncatedLogNormalScale
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.prune.needs import needs_of

SHAPES = {"Dense_0.kernel": (7, 5), "Dense_0.bias": (5,), "Dense_1.kernel": (5, 3)}


def kind_of(method: Any) -> type:
    """What a method, or its class, reads: `MeanField`, unless it needs `SpikeSlab` or the law of the units' scales."""
    needs = needs_of(method() if isinstance(method, type) else method)
    laws = get_args(needs.law) or (needs.law,)  # one of a union
    return SpikeSlab if needs.node is SpikeSlab else laws[0] or MeanField


# Laws of scales: each element of an array is a unit of its own here, so that the laws on single weights hold for them.
LAWS = {
    LogNormalScale: lambda loc, scale: LogNormalScale(4.0 * (jnp.abs(loc) - 0.5), scale),
    GaussianScale: GaussianScale,
    TruncatedLogNormalScale: lambda loc, scale: TruncatedLogNormalScale(20.0 * (jnp.abs(loc) - 1.0), scale),
}


def _alone() -> Groups:
    """Every weight a group of its own."""
    first, members = 0, {}
    for site, shape in SHAPES.items():
        members[site] = np.arange(first, first := first + math.prod(shape)).reshape(shape)
    return Groups(members, first)


GROUPS = _alone()


def loss_at(posterior: Any) -> Any:
    """A loss of the data for methods that compare masks: each weight would be 1."""

    def loss(mask: Any, shift: Any = None) -> jax.Array:
        shift = dict.fromkeys(mask, 0.0) if shift is None else shift
        values = {site: jnp.where(mask[site], node.loc, 0.0) + shift[site] for site, node in posterior.items()}
        return sum((jnp.sum(jnp.square(value - 1.0)) for value in values.values()), start=jnp.zeros(()))

    return loss


@dataclass(frozen=True)
class Grouped:
    """A method that reads groups, shown those in which every weight is alone, so that the laws on single weights hold.

    One that compares masks by the loss of the data is shown such a one.
    """

    method: Any

    @property
    def needs(self) -> Needs:
        return self.method.needs

    def init(self, rng_key: jax.Array, posterior: Any) -> SparseState:
        return self.method.init(rng_key, posterior)

    def step(self, rng_key: jax.Array, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        loss = loss_at(evidence.posterior) if self.needs.loss else None
        return self.method.step(rng_key, evidence._replace(groups=GROUPS, loss=loss), state)


def method_of(cls: type) -> Any:
    """A method of its default knobs, shown groups where it reads such, and told the rows of the data where it asks for them."""
    method = cls()
    method = replace(method, num_rows=100) if hasattr(method, "num_rows") else method
    return Grouped(method) if needs_of(method).groups else method


def node(kind: type, loc: jax.Array, scale: jax.Array) -> Any:
    """A node; the inclusion probabilities of a `SpikeSlab` rise with |loc| and are two in five below a half."""
    if kind in LAWS:
        return Scaled(loc, scale, law=LAWS[kind](loc, scale))
    return MeanField(loc, scale) if kind is MeanField else SpikeSlab(loc, scale, 4.0 * (jnp.abs(loc) - 0.5))


def posterior(key: jax.Array, ties: bool = False, kind: type = MeanField) -> dict[str, Any]:
    """A made-up posterior; with ``ties`` every weight comes from three values."""
    nodes = {}
    for site, shape in SHAPES.items():
        key, a, b = jax.random.split(key, 3)
        loc = jax.random.normal(a, shape)
        scale = jax.random.uniform(b, shape, minval=0.05, maxval=1.0)
        nodes[site] = node(kind, jnp.round(loc) if ties else loc, jnp.full(shape, 0.3) if ties else scale)
    return nodes


def evidence(key: jax.Array, ties: bool = False, kind: type = MeanField) -> Evidence:
    first, second = jax.random.split(key)
    gradient = {site: jax.random.normal(second, shape) for site, shape in SHAPES.items()}
    return Evidence(posterior(first, ties, kind), gradient)


def act(method: Any, key: jax.Array, seen: Evidence, times: int = 1) -> tuple[SparseState, Info]:
    state = method.init(key, seen.posterior)
    for _ in range(times):
        state, info = method.step(key, seen, state)
    return state, info


def same(one: Any, other: Any) -> bool:
    """Equal structure and equal values, NaN equal to NaN."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    alike = all(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind == "f") for a, b in pairs)
    return jax.tree.structure(one) == jax.tree.structure(other) and alike
