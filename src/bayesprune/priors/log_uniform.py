"""The log-uniform prior of sparse variational dropout: a weight is worth its size in units of its noise, and nothing else."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from bayesprune.core.checks import check_name
from bayesprune.model import select
from bayesprune.model.families import Family, MeanFieldFamily
from bayesprune.model.layout import Layout, Predicate
from bayesprune.model.prior import FittedLogUniform, Independent, LogUniformDensity, sample_each
from bayesprune.posteriors.points import refuse_points

REFERENCE = "molchanov2017variational"
DIVERGENCES = {"exact": LogUniformDensity, "fit": FittedLogUniform}
SCALE = math.exp(-5.0)


@dataclass(frozen=True)
class LogUniform(Independent):
    """Independent weights, uniform in log |w|: sparse variational dropout; "Sparse VD".

      p(w) ~ 1/|w|;   q(w) = N(loc, scale²),  KL a function of alpha = scale²/loc² alone: (13.2), or the paper's fit (13.5)

    Args:
        divergence: "exact", or "fit", the paper's own approximation, which errs by up to .0094 nats a weight.

    The paper trains with ``estimator="local"``, biases as points (``bayesian=bp.select.kernels`` of the `BNN`), a divergence
    whose weight rises, and cuts log alpha > 3, dropout rates above .95: ``bp.methods.Cut(score="snr", threshold=0.2231)``,
    for |loc|/scale = alpha^(-1/2). By default all kernels may be pruned, the last layer's too, and nothing else.

    The prior has no norm. Its divergence has no zero point, so that losses compare with one another and with no others; it has
    no evidence, and `bmr_prune` refuses it; no draws; and no maximum of its density, so that ``posterior="map"`` is refused.
    The true posterior is improper, too, wherever the data allow a weight of zero (Hron et al. 2018): call the term a penalty.

    Sites: one per weight array, the weight itself.

    Raises:
        ValueError: an unknown ``divergence``.

    Example:
        >>> LogUniform().divergence
        'exact'

    Source: Molchanov, Ashukha & Vetrov (2017), sections 4.1 and 4.2; the spread at the start, exp(-5), is the authors' code's.
    """

    divergence: str = "exact"

    improper: ClassVar[bool] = True
    unit: ClassVar[float] = 1.0  # of a site, which is the weight itself
    prunable: ClassVar[Predicate] = staticmethod(select.kernels)

    def __post_init__(self) -> None:
        check_name("divergence", self.divergence, DIVERGENCES)

    @property
    def family(self) -> MeanFieldFamily:
        """Small scales about kernels N(0, 2/fan-in)."""
        return MeanFieldFamily(init_range=0.0, init_scale=SCALE, init_loc="he")

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        return sample_each(layout, DIVERGENCES[self.divergence](), 1.0)

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model` by ``family``."""
        refuse_points(family, "the density 1/|w| grows without bound at w = 0", "LogUniform")
        super().guide(layout, family)
