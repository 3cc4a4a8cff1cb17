"""Gaussians that vary with their unit's scale: a mean field with a correlation beside every weight."""

from dataclasses import dataclass
from typing import Any

import jax

from bayesprune.core.types import MeanField
from bayesprune.posteriors import mean_field
from bayesprune.posteriors.family import Named


@dataclass(frozen=True)
class StructuredNames(Named):
    """``"<site>_auto_loc"``, ``"<site>_auto_scale"``, ``"<site>_auto_correlation"``; the node holds the marginals (3.7).

    >>> FAMILY.name("w", "correlation")
    'w_auto_correlation'
    """

    stem: str = "auto"
    hidden: str = "dense"
    fields: tuple[str, ...] = ("loc", "scale", "correlation")

    def make(self, values: dict[str, Any]) -> MeanField:
        """The marginals; the parameters alone know of no prior."""
        return MeanField(values["loc"], values["scale"], prior_scale=None)

    def draw(self, rng_key: jax.Array, node: MeanField) -> jax.Array:
        """One draw of the network's weights from their marginals."""
        return mean_field.FAMILY.draw(rng_key, node)

    def moments(self, node: MeanField) -> tuple[jax.Array, jax.Array]:
        """Mean and variance of the network's weights at the mean of their scales."""
        return mean_field.FAMILY.moments(node)


FAMILY = StructuredNames()
