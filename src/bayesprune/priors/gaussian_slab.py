"""Spike and slab with a narrow Gaussian for the spike: inclusion probabilities in closed form."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayesprune.core.checks import check_positive, is_number
from bayesprune.formulas.mixture import inclusion_log_odds
from bayesprune.model import select
from bayesprune.model.families import MeanFieldFamily
from bayesprune.model.layout import Layout, ParamSpec, Predicate
from bayesprune.model.prior import Independent, Moments, sample_each
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab, TwoNormals

REFERENCE = "saha2024bayesian"


@dataclass(frozen=True)
class GaussianSlab(Independent):
    """Every weight and bias comes from a wide Gaussian or from a narrow one; which, the posterior says in closed form.

      z ~ Bernoulli(slab_probability),   w ~ N(0, slab_scale²) if z else N(0, spike_scale²)
      q: w ~ N(loc, scale²), z ~ Bernoulli(p*)

    The best p* for given loc and scale is (6.1), so it is put in and only loc and scale are trained, by the penalty (6.2).
    The model itself has z summed out: it is the mixture density, so that NUTS takes it too.

    Ranking weights by p* is ranking them by their second moment loc² + scale², for p* rises with nothing else: the spike, the
    slab and their probability shape the training, and set where the cut at 1/2 falls.

    A weight that the data do not bear on may come to rest in the slab as well as in the spike, for either is its prior; in
    the slab it is wide, and outranks weights in use. The wider the spike, the fewer are caught there: with a slab of 1 and a
    spike of 0.05 half the weights can be cut, with 0.1 more, at a loss on some data; with the paper's scales hardly any.

    Args:
        spike_scale: standard deviation of the spike, in the weights' units; the paper's tables have exp(-6).
        slab_scale: standard deviation of the slab; the paper's tables have exp(1).
        slab_probability: of the slab, in (0, 1).

    Sites: one per weight array, w_hat = w / slab_scale; in its coordinates the slab is N(0, 1). `BNN.posterior` gives
    `SpikeSlab` nodes whose logit is that of p*. All weights may be pruned, those of the last layer too, unless the `BNN` is
    set otherwise. `methods.SBNN` cuts; `schedules.Halving` is the authors' weight of the penalty within an epoch.

    Raises:
        ValueError: a scale is not positive, ``spike_scale >= slab_scale``, or ``slab_probability`` is outside (0, 1).

    Example:
        >>> GaussianSlab().spike_scale
        0.05

    Source: Saha, Liu & Liang (2024), equations 3.1 to 3.8 and Algorithm 1.
    """

    spike_scale: float = 0.05
    slab_scale: float = 1.0
    slab_probability: float = 0.5

    prunable: ClassVar[Predicate] = staticmethod(select.everything)

    def __post_init__(self) -> None:
        check_positive(self.spike_scale, "spike_scale")
        check_positive(self.slab_scale, "slab_scale")
        if self.spike_scale >= self.slab_scale:
            raise ValueError(
                f"spike_scale must be below slab_scale, got {self.spike_scale} and {self.slab_scale}: the slab is the wide one."
            )
        if not (
            is_number(self.slab_probability) and 0 < np.float32(self.slab_probability) < 1
        ):  # the densities hold it as a float32
            raise ValueError(f"slab_probability must lie in (0, 1) and not round to 0 or 1, got {self.slab_probability}.")

    @property
    def family(self) -> MeanFieldFamily:
        """Weights start as He et al. (2015) have them, surer than the slab by far: the paper does not say."""
        return MeanFieldFamily(init_scale=0.02 / self.slab_scale, init_loc="he", unit=self.slab_scale)

    @property
    def unit(self) -> float:
        """What one unit of a site is in the network."""
        return self.slab_scale

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        law = TwoNormals(self.spike_scale / self.slab_scale, 1.0, self.slab_probability)
        return sample_each(layout, law, self.slab_scale)

    def node(self, node: MeanField, spec: ParamSpec, moment: Moments) -> SpikeSlab:
        """The Gaussian with its inclusion probability p* (6.1), in units of ``slab_scale``."""
        odds = inclusion_log_odds(node.loc, node.scale, self.spike_scale / self.slab_scale, 1.0, self.slab_probability)
        return SpikeSlab(node.loc, node.scale, odds, self.slab_scale, at_zero=False)
