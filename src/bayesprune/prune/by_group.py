"""Cuts of whole groups: units or heads of the network, or the same number of weights for every output of an array."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from bayesprune.core import masks
from bayesprune.core.types import Evidence, Groups, PyTree
from bayesprune.prune.choose import kept


class GroupSums:
    """Sums over the alive members of ``groups``; ``mask``: site -> booleans. All results are by group, (groups,).

    >>> sums = GroupSums(Groups({"w": np.array([[0], [1]])}, 2), {"w": jnp.array([[True, True], [True, False]])})
    >>> values = {"w": jnp.array([[1.0, 4.0], [5.0, 7.0]])}
    >>> print(sums.size, sums.mean(values), sums.range(values))
    [2. 1.] [2.5 5. ] [3. 0.]
    """

    def __init__(self, groups: Groups, mask: PyTree) -> None:
        self.groups, self.mask = groups, mask
        self.size = self.total({site: jnp.ones(alive.shape) for site, alive in mask.items()})

    def mean(self, values: PyTree) -> jax.Array:
        return self.total(values) / jnp.maximum(self.size, 1.0)

    def range(self, values: PyTree) -> jax.Array:
        """Largest minus smallest of each group; 0 of an empty one."""
        high, low = jnp.full(self.groups.count, -jnp.inf), jnp.full(self.groups.count, jnp.inf)
        for site, value in values.items():
            ids, counts = self._ids(site)
            high = high.at[ids].max(jnp.where(counts, value, -jnp.inf))
            low = low.at[ids].min(jnp.where(counts, value, jnp.inf))
        return jnp.where(self.size > 0, high - low, 0.0)

    def at(self, of_groups: jax.Array, site: str, otherwise: ArrayLike) -> jax.Array:
        """The number of each weight's group; ``otherwise`` for a weight of none."""
        members = np.broadcast_to(self.groups.members[site], self.mask[site].shape)
        return jnp.where(members < 0, otherwise, of_groups[np.maximum(members, 0)])

    def total(self, values: PyTree) -> jax.Array:
        total = jnp.zeros(self.groups.count)
        for site, value in values.items():
            ids, counts = self._ids(site)
            total = total.at[ids].add(jnp.where(counts, value, 0.0))
        return total

    def _ids(self, site: str) -> tuple[np.ndarray, jax.Array]:
        members = np.broadcast_to(self.groups.members[site], self.mask[site].shape)
        return np.maximum(members, 0), self.mask[site] & (members >= 0)


def check_groups(groups: Groups | None, scope: str) -> None:
    """Refuse to go on without groups where the method's ``scope`` needs them."""
    if groups is None:
        raise ValueError(
            f"scope={scope!r} asks the network which weights belong together, and nothing here knows the network: train with "
            "fit_svi(..., sparsifier=...), or give program=bnn to prune_once."
        )


def groups_of(groups: Groups, site: str) -> np.ndarray:
    """Whether each group has a weight in an array, dead or alive.

    >>> print(groups_of(Groups({"w": np.array([2, -1])}, 3), "w"))
    [False False  True]
    """
    return np.isin(np.arange(groups.count), groups.members[site])


# A unit's score is the root of its members' squares; of these, which are logarithms, or squares, and add up, it is their sum.
SUMMED = ("evidence", "inclusion", "log_expected_exp", "log_expected_exp_over_std", "second_moment", "opd", "obd")


def cut(
    score: str,
    worth: PyTree,
    density: ArrayLike | None,
    least: Any,
    scope: str,
    evidence: Evidence,
    mask: PyTree,
    price: ArrayLike | None = None,
) -> dict[str, Bool[Array, "..."]]:
    """Masks by site: of ``scope`` "unit" or "head" wholes stay or fall; of "per_output" every output has as many weights.

    ``worth``: site -> score of every weight. ``density``: share of the units or heads, or of each output's weights, that stays;
    ``least``: in its place, the lowest score that stays. ``price``: what the score of a unit or head loses for every FLOP; the
    best of every array stays then in any case, for the first layer costs most. Units of equal value, and all of them at a price
    that is no number, rank by their scores.
    """
    groups: Groups = evidence.groups
    check_groups(groups, scope)
    if scope == "per_output":
        return {site: _per_output(worth[site], groups.members[site], density, least, mask[site]) for site in worth}
    worths = total = unit_scores(worth, groups, mask, summed=score in SUMMED)
    if price is not None:
        if groups.flops is None:
            raise ValueError("price needs the FLOPs of groups, and these have none: give Groups(..., count_flops=function).")
        total = total - price * jnp.asarray(groups.flops, total.dtype)
    sums = GroupSums(groups, mask)
    order = jnp.argsort(-worths, stable=True)

    def highest(count: ArrayLike, within: np.ndarray | jax.Array) -> Bool[Array, " units"]:
        """The ``count`` living units of the highest total among those ``within``; equal ones by score, then by their order."""
        there = (sums.size > 0) & within
        return jnp.zeros(there.shape, bool).at[order].set(masks.top_k(total[order], count, there[order]))

    if density is None and price is None:
        staying = total >= least
    else:
        best = jnp.zeros(groups.count, bool)  # the highest unit that each array has a part in
        for site in mask:
            best |= highest(1, groups_of(groups, site))
        others = total >= least if density is None else highest(kept(density, groups.count) - masks.count(best), ~best)
        staying = best | others
    return {site: mask[site] & sums.at(staying, site, True) for site in worth}


def unit_scores(worth: PyTree, groups: Groups, mask: PyTree, summed: bool) -> Float[Array, " units"]:
    """The score of every unit, from its alive members: their sum, or the root of the sum of their squares; -inf if all dead.

    >>> worth, alive = {"w": jnp.array([[3.0, 1.0], [4.0, 1.0]])}, {"w": jnp.ones((2, 2), bool)}
    >>> columns = Groups({"w": np.array([[0, 1]])}, 2)
    >>> print(unit_scores(worth, columns, alive, summed=False)[0])
    5.0
    """
    sums = GroupSums(groups, mask)
    total = sums.total(worth if summed else {site: jnp.square(value) for site, value in worth.items()})
    return jnp.where(sums.size > 0, total if summed else jnp.sqrt(total), -jnp.inf)


def shared(gain: PyTree, groups: Groups, mask: PyTree) -> dict[str, Float[Array, "..."]]:
    """Each weight's gain as its unit's, in equal parts of its alive members; of weights without a unit, its own.

    >>> rows = Groups({"w": np.array([[0], [1]])}, 2)
    >>> print(shared({"w": jnp.array([[1.0, 3.0], [4.0, 9.0]])}, rows, {"w": jnp.array([[True, True], [True, False]])})["w"])
    [[2. 2.]
     [4. 4.]]
    """
    sums = GroupSums(groups, mask)
    mean = sums.mean(gain)
    return {site: sums.at(mean, site, value) for site, value in gain.items()}


def _per_output(
    worth: Float[Array, "..."], ids: np.ndarray, density: ArrayLike | None, least: Any, alive: Bool[Array, "..."]
) -> Bool[Array, "..."]:
    """The highest weights of every output of one array, at least one each."""
    if density is None:
        return alive & (worth >= least)
    ids = np.broadcast_to(ids, worth.shape)
    order = np.argsort(ids.reshape(-1), kind="stable")  # the weights of an output side by side: every output has as many
    outputs = int(ids.max()) + 1
    rows = lambda array: array.reshape(-1)[order].reshape(outputs, -1)  # noqa: E731
    row_alive = jax.vmap(lambda w, a: masks.top_k(w, kept(density, worth.size // outputs), a))(rows(worth), rows(alive))
    return jnp.zeros(worth.size, bool).at[order].set(row_alive.reshape(-1)).reshape(worth.shape)
