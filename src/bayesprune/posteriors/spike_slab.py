"""Spike and slab: a mean field with the log-odds of every weight's inclusion beside it."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core.types import SpikeSlab
from bayesprune.posteriors.family import Named


@dataclass(frozen=True)
class SpikeSlabNames(Named):
    """``"<site>_auto_loc"``, ``"<site>_auto_scale"``, ``"<site>_auto_logit"``: w = g v, g ~ Bernoulli, v ~ N(loc, scale²).

    >>> mean, variance = FAMILY.moments(SpikeSlab(jnp.array([2.0]), jnp.array([1.0]), jnp.array([0.0])))
    >>> print(mean, variance)  # one half of the time N(2, 1), else zero
    [1.] [1.5]
    """

    stem: str = "auto"
    hidden: str = "dense"
    fields: tuple[str, ...] = ("loc", "scale", "logit")

    def make(self, values: dict[str, Any]) -> SpikeSlab:
        """The node."""
        return SpikeSlab(**values)

    def draw(self, rng_key: jax.Array, node: SpikeSlab) -> jax.Array:
        """One draw of the network's weights, the spike at zero."""
        gate_key, slab_key = jax.random.split(rng_key)
        gate = jax.random.bernoulli(gate_key, jax.nn.sigmoid(node.logit), jnp.shape(node.loc))
        slab = node.loc + node.scale * jax.random.normal(slab_key, jnp.shape(node.loc), jnp.result_type(node.loc))
        return jnp.where(gate, slab * node.unit, 0)

    def moments(self, node: SpikeSlab) -> tuple[jax.Array, jax.Array]:
        """Mean p loc and variance p (scale² + (1 - p) loc²) of the network's weights, the spike at zero."""
        p = jax.nn.sigmoid(node.logit)
        variance = p * (jnp.square(node.scale) + jax.nn.sigmoid(-node.logit) * jnp.square(node.loc))
        return p * node.loc * node.unit, variance * jnp.square(node.unit)


FAMILY = SpikeSlabNames()
