"""Gaussians of a Kronecker covariance: one for the rows of a weight matrix, one for its columns."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from bayesprune.posteriors.correlated import Correlated, CorrelatedNames, marginal


@dataclass(frozen=True)
class MatrixNormalNames(CorrelatedNames):
    """``"<site>_auto_loc"``, and the factors ``"<site>_auto_rows"`` and ``"<site>_auto_columns"`` of the two covariances.

    >>> FAMILY.name("w", "rows")
    'w_auto_rows'
    """

    fields: tuple[str, ...] = ("loc", "rows", "columns")
    joint: tuple[str, ...] = ("rows", "columns")

    def make(self, values: dict[str, Any]) -> Correlated:
        """The node; the parameters alone know of no prior."""
        scale = marginal(values["rows"], values["columns"], jnp.shape(values["loc"]))
        return Correlated(values["loc"], scale, None, rows=values["rows"], columns=values["columns"])

    def values_of(self, node: Correlated) -> dict[str, Any]:
        """The parameters of a node by field."""
        return {"loc": node.loc, "rows": node.rows, "columns": node.columns}


FAMILY = MatrixNormalNames()
