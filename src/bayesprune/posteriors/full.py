"""Gaussians of one covariance for all weights of an array."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.posteriors import correlated
from bayesprune.posteriors.correlated import Correlated
from bayesprune.posteriors.family import Named


@dataclass(frozen=True)
class FullNames(Named):
    """``"<site>_auto_loc"`` and ``"<site>_auto_factor"``, the Cholesky factor of the covariance, (weights, weights).

    >>> FAMILY.name("w", "factor")
    'w_auto_factor'
    """

    stem: str = "auto"
    hidden: str = "dense"
    fields: tuple[str, ...] = ("loc", "factor")
    joint: tuple[str, ...] = ("factor",)

    def make(self, values: dict[str, Any]) -> Correlated:
        """The node; the parameters alone know of no prior."""
        loc, rows = values["loc"], values["factor"]
        columns = jnp.ones((1, 1), jnp.result_type(rows))
        return Correlated(loc, correlated.marginal(rows, columns, jnp.shape(loc)), None, rows=rows, columns=columns)

    def values_of(self, node: Correlated) -> dict[str, Any]:
        """The parameters of a node by field."""
        return {"loc": node.loc, "factor": node.rows}

    def draw(self, rng_key: jax.Array, node: Correlated) -> jax.Array:
        """One draw of the network's weights."""
        return correlated.draw(rng_key, node)

    def moments(self, node: Correlated) -> tuple[jax.Array, jax.Array]:
        """Mean and marginal variance of the network's weights."""
        return correlated.moments(node)


FAMILY = FullNames()
