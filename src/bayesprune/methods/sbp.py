"""Structured Bayesian pruning: units whose noise drowns their signal."""

from dataclasses import dataclass

from bayesprune.core.checks import check_positive
from bayesprune.core.keys import Key
from bayesprune.core.types import Evidence, Info, Needs, PyTree, SparseState
from bayesprune.posteriors.scales import TruncatedLogNormalScale
from bayesprune.prune import of_law
from bayesprune.prune.bookkeeping import first_state, take_step

REFERENCE = "neklyudov2017structured"


@dataclass(frozen=True)
class SBP:
    """Cut the units whose multiplicative noise has E theta / sd theta below a threshold.

    Args:
        threshold: the ratio (18.2) below which a unit is cut.

    Reads fits with `priors.UnitNoise`: give ``program=bnn`` to `prune_once`. The best unit of every array stays; the dead stay
    dead. Without a density: how much goes is the posterior's say.

    Raises:
        ValueError: ``threshold`` is not positive.

    Example:
        >>> SBP().threshold
        1.0

    Source: Neklyudov et al. 2017, section 3.4.
    """

    threshold: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.threshold, "threshold")

    @property
    def needs(self) -> Needs:
        """The law of the noise."""
        return Needs(law=TruncatedLogNormalScale)

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive."""
        return first_state(posterior)

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """Cut once."""
        worth = {site: of_law.by_unit(node.law.snr(), node.loc) for site, node in evidence.posterior.items()}
        alive = {site: of_law.cut_units(worth[site], worth[site] >= self.threshold, mask) for site, mask in state.mask.items()}
        return take_step(state, alive, evidence.posterior, order={site: -snr for site, snr in worth.items()})
