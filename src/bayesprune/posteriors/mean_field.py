"""Independent Gaussians, under the names that our guides and `numpyro.infer.autoguide.AutoNormal` give them."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core.types import MeanField
from bayesprune.posteriors.family import Named


@dataclass(frozen=True)
class MeanFieldNames(Named):
    """``"<site>_auto_loc"`` and ``"<site>_auto_scale"``: q(w) = N(loc, scale²), element by element.

    >>> FAMILY.sites({"w_auto_loc": jnp.zeros(3), "w_auto_scale": jnp.ones(3), "nn$params": {}})
    ['w']
    """

    stem: str = "auto"
    hidden: str = "dense"
    fields: tuple[str, ...] = ("loc", "scale")

    def make(self, values: dict[str, Any]) -> MeanField:
        """The node; the parameters alone know of no prior."""
        return MeanField(**values, prior_scale=None)

    def draw(self, rng_key: jax.Array, node: MeanField) -> jax.Array:
        """One draw of the network's weights."""
        noise = jax.random.normal(rng_key, jnp.shape(node.loc), jnp.result_type(node.loc))
        return (node.loc + node.scale * noise) * node.unit

    def moments(self, node: MeanField) -> tuple[jax.Array, jax.Array]:
        """Mean and variance of the network's weights."""
        return node.loc * node.unit, jnp.square(node.scale * node.unit)


FAMILY = MeanFieldNames()
