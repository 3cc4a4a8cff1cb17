"""Points: a maximum of the posterior density, a mean field without spread."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core.types import MeanField
from bayesprune.posteriors.family import Named


@dataclass(frozen=True)
class PointNames(Named):
    """``"<site>_map_loc"``: w = loc.

    >>> print(FAMILY.make({"loc": jnp.ones(2)}).scale)
    [0. 0.]
    """

    stem: str = "map"
    hidden: str = "dense_map"
    fields: tuple[str, ...] = ("loc",)

    def make(self, values: dict[str, Any]) -> MeanField:
        """The node, of scale 0; the parameters alone know of no prior."""
        return MeanField(**values, scale=jnp.zeros_like(values["loc"]), prior_scale=None)

    def draw(self, rng_key: jax.Array, node: MeanField) -> jax.Array:
        """The network's weights: there is nothing to draw."""
        return node.loc * node.unit

    def moments(self, node: MeanField) -> tuple[jax.Array, jax.Array]:
        """The network's weights, and no variance."""
        return node.loc * node.unit, jnp.zeros_like(node.loc)


FAMILY = PointNames()
