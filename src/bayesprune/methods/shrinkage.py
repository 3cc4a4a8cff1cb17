"""Whole units by their scale: under a prior such as the horseshoe, a unit that is not needed shrinks to nothing."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bayesprune.core.checks import check_name, check_positive, check_share
from bayesprune.core.keys import Key
from bayesprune.core.types import Evidence, Info, Needs, PyTree, SparseState
from bayesprune.posteriors.scales import LogNormalScale
from bayesprune.prune import cutting
from bayesprune.prune.bookkeeping import first_state, take_step

REFERENCE = "ghosh2019model"
# Criterion -> threshold; evidence has its own zero.
CUSTOMARY = {"factor": 0.5, "below": 0.9, "evidence": 0.5}


@dataclass(frozen=True)
class Shrinkage:
    """Cut the units whose scale the posterior has shrunk: all weights that share it, at once.

    Args:
        criterion: ``"factor"`` cuts where E kappa > ``threshold``, kappa = 1/(1 + tau²) (3.6); ``"below"`` where
            P(upsilon tau < ``delta``) > ``threshold`` (3.5); ``"evidence"`` cuts the units of the network whose log evidence
            gains (2.5), at the finite width of the unit, sum to more than 0.
        threshold: a shrinkage factor or a probability, in (0, 1]; None takes the customary ones, .5 for the factor and .9 for
            "below".
        delta: what counts as no scale, in units of the network's weights; used by "below".

    The best unit of every array stays; the dead stay dead. "factor" and "below" read the law of the units' scales, which fits
    with `priors.Horseshoe` have: give ``program=bnn`` to `prune_once`. Weights with scales of their own (``local=``)
    go one by one, by the product of theirs and the unit's. Without a density: how much goes is the posterior's say. "factor"
    reads a unit's scale beside its layer's, which says nothing of whether the unit is needed: where every unit is, all of a
    layer's scales may be small. So verify the act: the standard course does, and `prune_once` with ``data=``.

    Raises:
        ValueError: ``criterion`` is unknown or takes no ``threshold``, which is outside (0, 1], ``delta`` is not positive,
            or another criterion than "below" is given one.

    Example:
        >>> Shrinkage(criterion="below", delta=1e-2).threshold
        0.9

    Source: Ghosh, Yao & Doshi-Velez 2019, section 5; Carvalho, Polson & Scott 2010, section 2, for the factor.
    """

    criterion: str = "factor"
    threshold: float | None = None
    delta: float = 1e-3

    def __post_init__(self) -> None:
        check_name("criterion", self.criterion, CUSTOMARY)
        if self.criterion == "evidence" and self.threshold not in (None, CUSTOMARY["evidence"]):
            raise ValueError(
                "criterion='evidence' cuts where the log evidence gains, without a threshold, got threshold="
                f"{self.threshold!r}: leave it out, or take criterion='factor' or 'below'."
            )
        if self.threshold is None:
            object.__setattr__(self, "threshold", CUSTOMARY[self.criterion])
        check_share(self.threshold, "threshold", "units of a higher share are cut")
        check_positive(self.delta, "delta")
        if self.delta != Shrinkage.delta and self.criterion != "below":
            raise ValueError(f"delta={self.delta} is of criterion='below', got {self.criterion!r}: give that, or leave it out.")

    @property
    def needs(self) -> Needs:
        """The law of the scales, or evidence and the network's units."""
        return cutting.needs("evidence", "unit") if self.criterion == "evidence" else Needs(law=LogNormalScale)

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive."""
        return first_state(posterior)

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """Cut once."""
        if self.criterion == "evidence":
            return cutting.cut("evidence", None, 0.0, "unit", evidence, state)
        shrunk = {site: self._shrunk(node, state.mask[site]) for site, node in evidence.posterior.items()}
        alive = {site: self._alive(shrunk[site], mask) for site, mask in state.mask.items()}
        return take_step(state, alive, evidence.posterior, order=shrunk)

    def _shrunk(self, node: PyTree, mask: jax.Array) -> jax.Array:
        """How far each weight's unit is shrunk."""
        return jnp.broadcast_to(node.law.shrinkage() if self.criterion == "factor" else node.law.below(self.delta), mask.shape)

    def _alive(self, shrunk: jax.Array, mask: jax.Array) -> jax.Array:
        """What stays of one array."""
        least = jnp.min(jnp.where(mask, shrunk, jnp.inf))
        return mask & ((shrunk <= jnp.asarray(self.threshold)) | (shrunk == least))
