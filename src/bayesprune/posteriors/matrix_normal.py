"""Gaussians of a Kronecker covariance: one for the rows of a weight matrix, one for its columns."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.posteriors import correlated
from bayesprune.posteriors.correlated import Correlated
from bayesprune.posteriors.family import Named


@dataclass(frozen=True)
class MatrixNormalNames(Named):
    """``"<site>_auto_loc"``, and the factors ``"<site>_auto_rows"`` and ``"<site>_auto_columns"`` of the two covariances.

    >>> FAMILY.name("w", "rows")
    'w_auto_rows'
    """

    stem: str = "auto"
    hidden: str = "dense"
    fields: tuple[str, ...] = ("loc", "rows", "columns")
    joint: tuple[str, ...] = ("rows", "columns")

    def make(self, values: dict[str, Any]) -> Correlated:
        """The node; the parameters alone know of no prior."""
        scale = correlated.marginal(values["rows"], values["columns"], jnp.shape(values["loc"]))
        return Correlated(values["loc"], scale, None, rows=values["rows"], columns=values["columns"])

    def values_of(self, node: Correlated) -> dict[str, Any]:
        """The parameters of a node by field."""
        return {"loc": node.loc, "rows": node.rows, "columns": node.columns}

    def draw(self, rng_key: jax.Array, node: Correlated) -> jax.Array:
        """One draw of the network's weights."""
        return correlated.draw(rng_key, node)

    def moments(self, node: Correlated) -> tuple[jax.Array, jax.Array]:
        """Mean and marginal variance of the network's weights."""
        return correlated.moments(node)


FAMILY = MatrixNormalNames()
