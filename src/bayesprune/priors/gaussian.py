"""The fixed-scale Gaussian prior: Bayes by Backprop in its plainest form."""

from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.model.layout import Layout
from bayesprune.model.prior import Independent, sample_each

REFERENCE = "blundell2015weight"


@dataclass(frozen=True)
class Gaussian(Independent):
    """Independent Gaussian weights of one fixed scale: w = scale w_hat, w_hat ~ N(0, 1).

    Args:
        scale: standard deviation of every weight, in the weights' own units.
        centred: the site is the weight itself, w ~ N(0, scale²): the same posterior in other coordinates, in which steps of an
            optimiser or a sampler are the weight's own.

    Sites: one per weight array (w_hat). The posterior is written in w_hat's coordinates, where the prior is N(0, 1).

    Source: Blundell et al. (2015), section 3.3.
    """

    scale: float = 1.0
    centred: bool = False

    def __post_init__(self) -> None:
        check_positive(self.scale, "scale")

    @property
    def prior_scale(self) -> float:
        """The prior's standard deviation in the site's coordinates."""
        return self.scale if self.centred else 1.0

    @property
    def unit(self) -> float:
        """What one unit of the site is in the network."""
        return 1.0 if self.centred else self.scale

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        return sample_each(layout, dist.Normal(0.0, self.prior_scale), self.unit)
