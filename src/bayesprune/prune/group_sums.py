"""Sums, means and ranges over the alive members of groups."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.types import Groups, PyTree


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
