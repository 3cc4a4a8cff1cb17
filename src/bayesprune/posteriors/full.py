"""Gaussians of one covariance for all weights of an array."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from bayesprune.posteriors.correlated import Correlated, CorrelatedNames, marginal


@dataclass(frozen=True)
class FullNames(CorrelatedNames):
    """``"<site>_auto_loc"`` and ``"<site>_auto_factor"``, the Cholesky factor of the covariance, (weights, weights).

    >>> FAMILY.name("w", "factor")
    'w_auto_factor'
    """

    fields: tuple[str, ...] = ("loc", "factor")
    joint: tuple[str, ...] = ("factor",)

    def make(self, values: dict[str, Any]) -> Correlated:
        """The node; the parameters alone know of no prior."""
        loc, rows = values["loc"], values["factor"]
        columns = jnp.ones((1, 1), jnp.result_type(rows))
        return Correlated(loc, marginal(rows, columns, jnp.shape(loc)), None, rows=rows, columns=columns)

    def values_of(self, node: Correlated) -> dict[str, Any]:
        """The parameters of a node by field."""
        return {"loc": node.loc, "factor": node.rows}


FAMILY = FullNames()
