"""The Cauchy prior: most weights small, some as large as they like."""

from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.model.layout import Layout
from bayesprune.model.prior import Independent, sample_each

REFERENCE = "kong2023masked"


@dataclass(frozen=True)
class Cauchy(Independent):
    """Independent Cauchy weights of one scale: w = scale w_hat, p(w_hat) = 1/(pi (1 + w_hat²)).

    Args:
        scale: half of the weights are within it, in the weights' own units. The authors of mBNN have .1.
        centred: the site is the weight itself, w ~ Cauchy(0, scale): the same posterior in other coordinates, in which steps of
            an optimiser or a sampler are the weight's own.

    Sites: one per weight array (w_hat). The divergence from a mean field has no closed form; it is estimated at the drawn
    weights. This prior is for samplers and points. The Gaussian evidence of `bmr_prune` does not hold for it.

    Raises:
        ValueError: ``scale`` is not positive.

    Source: Kong et al. (2023) for its use under masks of units.
    """

    scale: float = 0.1
    centred: bool = False

    def __post_init__(self) -> None:
        check_positive(self.scale, "scale")

    @property
    def unit(self) -> float:
        """What one unit of the site is in the network."""
        return 1.0 if self.centred else self.scale

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        return sample_each(layout, dist.Cauchy(0.0, self.scale / self.unit), self.unit)
