"""Bayesian model reduction of whole units, by the evidence of their multiplicative noise."""

import math
from dataclasses import dataclass
from typing import Any

import jax

from bayesprune.core.checks import check_name, check_within
from bayesprune.core.keys import Key
from bayesprune.core.types import Evidence, Info, Needs, PyTree, SparseState
from bayesprune.posteriors.scales import TruncatedLogNormalScale
from bayesprune.prune import of_law
from bayesprune.prune.bookkeeping import first_state, take_step

REFERENCE = "wright2024bmrs"
PRIORS = ("normal", "uniform")
# Bits below which float32 holds nothing of a number next to 1.
MANTISSA = 23


@dataclass(frozen=True)
class BMRS:
    """Cut the units without which the evidence is no less: those of dF >= 0.

    Args:
        prior: the reduced prior of log theta. ``"normal"`` is a narrow one at the lower bound, theta ~ 0, BMRS_N (18.4);
            ``"uniform"`` is uniform on [-23 log 2, -p1 log 2], where theta is lost to rounding, BMRS_U (18.5).
        p1: bits of precision of "uniform", 8 or 4 in the paper: fewer cut more.
        two_pi: False leaves the 2 pi out of "normal", as the released code does, which cuts at dF >= -log(2 pi)/2 = -.919.

    "uniform" gains at most log(width of the prior / width of the reduced one), .65 nats at ``p1=8``: a yes or no, no ranking.
    Reads fits with `priors.UnitNoise`: give ``program=bnn`` to `prune_once`. The best unit of every array stays; the dead stay
    dead. ``info.evidence_gained`` is in nats, each unit's once, and always that of the paper's formula.

    Raises:
        ValueError: ``prior`` is unknown, ``p1`` is outside [0, 23), ``two_pi=False`` is given with "uniform", or ``p1`` with
            "normal"; or, in a fit, the noise's prior does not hold "uniform".

    Example:
        >>> BMRS(prior="uniform", p1=4).p1
        4

    Source: Wright, Igel & Selvan 2024, sections 3.2 and 3.3.
    """

    prior: str = "normal"
    p1: int = 8
    two_pi: bool = True

    def __post_init__(self) -> None:
        check_name("prior", self.prior, PRIORS)
        check_within(self.p1, "p1", f"[0, {MANTISSA})", "it is a number of bits")
        if not self.two_pi and self.prior != "normal":
            raise ValueError("two_pi=False is of prior='normal': the uniform prior's formula has no 2 pi to leave out.")
        if self.p1 != BMRS.p1 and self.prior != "uniform":
            raise ValueError(f"p1={self.p1} is of prior='uniform', got {self.prior!r}: give that with it, or leave it out.")

    @property
    def needs(self) -> Needs:
        """The law of the noise."""
        return Needs(law=TruncatedLogNormalScale)

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive. Raises `ValueError` for noise whose prior does not reach as low as the reduced one."""
        for site, node in posterior.items() if self.prior == "uniform" else ():
            low = getattr(node.law, "low", -math.inf)
            if not isinstance(low, jax.core.Tracer) and low > -MANTISSA * math.log(2.0):
                raise ValueError(
                    f"prior='uniform' begins at {-MANTISSA * math.log(2.0):.2f}, within the noise's own, and that of {site!r} "
                    f"begins at {low}: fit with priors.UnitNoise(low=-20), or take prior='normal'."
                )
        return first_state(posterior)

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """Cut once."""
        least = 0.0 if self.two_pi else -0.5 * math.log(2.0 * math.pi)
        alive, gains = {}, {}
        for site, node in evidence.posterior.items():
            mask, gain = state.mask[site], of_law.by_unit(self._gain(node.law), node.loc)
            alive[site] = of_law.cut_units(-gain, gain < least, mask)
            gains[site] = of_law.shared(gain, mask)
        return take_step(state, alive, evidence.posterior, gains)

    def _gain(self, law: TruncatedLogNormalScale) -> Any:
        """dF of every unit, in nats."""
        if self.prior == "normal":
            return law.removal_gain()
        return law.uniform_gain(-MANTISSA * math.log(2.0), -self.p1 * math.log(2.0))
