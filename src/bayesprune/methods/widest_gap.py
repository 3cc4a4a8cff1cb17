"""Whole groups by the noise of their scale, cut where the widest gap between them is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core.checks import check_name, check_positive, is_number
from bayesprune.core.keys import Key
from bayesprune.core.types import Evidence, Info, Needs, PyTree, SparseState
from bayesprune.posteriors.scales import GaussianScale, LogNormalScale
from bayesprune.prune import of_law
from bayesprune.prune.bookkeeping import first_state, take_step

REFERENCE = "louizos2017bayesian"


@dataclass(frozen=True)
class WidestGap:
    """Cut the groups of each array whose redundancy lies above a threshold, by default in the middle of the widest gap.

    The gap is between neighbours in the sorted list of an array's groups.

    The redundancy is log alpha = log vz - log mz² under `priors.GroupNormalJeffreys`, and minus the log mode of the scale,
    sigma² - mu (16.4), under `priors.GroupHorseshoe` and `priors.Horseshoe`. Above log alpha = 0 the noise exceeds the signal:
    unless a threshold is given such groups are cut in any case, and gaps among them, which drift apart without bound, are not
    looked at.

    Args:
        threshold: None finds it; one number, or site -> number, sets it for all arrays or for those named. The authors read
            theirs off histograms: log alpha above -2.8, -3 and -5 in their example.
        least: a gap in nats that is narrower is none, and then nothing else is cut. Without that every repetition would cut
            more.

    `thresholds` says what was found. The best group of every array stays; the dead stay dead. Groups are those that share a
    scale: inputs of dense kernels and output channels of convolutions, under the two group priors.

    Raises:
        ValueError: ``least`` is not positive, a threshold is not finite, or, in a fit, a site of ``threshold`` is unknown.

    Example:
        >>> WidestGap(threshold={"Dense_0.kernel": -3.0}).threshold
        (('Dense_0.kernel', -3.0),)

    Source: Louizos, Ullrich & Welling 2017, section 4 and the authors' example; the gap is ours.
    """

    threshold: float | Mapping[str, float] | tuple[tuple[str, float], ...] | None = None
    least: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.least, "least")
        if isinstance(self.threshold, Mapping):
            object.__setattr__(self, "threshold", tuple(sorted(self.threshold.items())))
        given: Any = dict(self.threshold).values() if isinstance(self.threshold, tuple) else (self.threshold,)
        for value in given:
            if value is not None and not (is_number(value) and math.isfinite(value)):
                raise ValueError(f"threshold must be finite, got {value!r}: leave it out to cut at the widest gap.")

    @property
    def needs(self) -> Needs:
        """The law of the scales."""
        return Needs(law=GaussianScale | LogNormalScale)

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive."""
        for site, _ in self.threshold if isinstance(self.threshold, tuple) else ():
            check_name("site in threshold", site, posterior)
        return first_state(posterior)

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """Cut once."""
        limits = self.thresholds(evidence.posterior, state.mask)
        values = {site: of_law.by_unit(node.law.redundancy(), node.loc) for site, node in evidence.posterior.items()}
        alive = {site: of_law.cut_units(-values[site], values[site] <= limits[site], mask) for site, mask in state.mask.items()}
        order = {site: values[site] - limits[site] for site in values}
        return take_step(state, alive, evidence.posterior, order=order)

    def thresholds(self, posterior: Mapping[str, Any], mask: Mapping[str, Any] | None = None) -> dict[str, jax.Array]:
        """Site -> the redundancy above which a group is cut; where no gap is wide enough, the highest there is, or log alpha 0.

        ``posterior``: such as `BNN.read` gives; ``mask``: weights that are dead already, and do not count.
        """
        given = dict(self.threshold) if isinstance(self.threshold, tuple) else dict.fromkeys(posterior, self.threshold)
        found = {}
        for site, node in posterior.items():
            values = of_law.by_unit(node.law.redundancy(), node.loc)
            alive = of_law.alive(values, jnp.ones(jnp.shape(node.loc), bool) if mask is None else mask[site])
            limit = given.get(site)
            found[site] = (
                _widest(values, alive, self.least, node.law.ceiling) if limit is None else jnp.asarray(limit, values.dtype)
            )
        return found


def _widest(values: jax.Array, alive: jax.Array, least: float, ceiling: float) -> jax.Array:
    """The middle of the widest gap among the living values up to ``ceiling``, or the highest of them and of it."""
    looked_at = alive & (values <= ceiling)
    ordered = jnp.sort(jnp.where(looked_at, values, jnp.inf).reshape(-1))
    below, above = ordered[:-1], ordered[1:]
    gaps = jnp.where(jnp.isfinite(above), above - jnp.where(jnp.isfinite(below), below, 0.0), -jnp.inf)
    highest = jnp.minimum(jnp.max(values, where=alive, initial=-jnp.inf), ceiling)
    if not gaps.size:
        return highest
    place = jnp.argmax(gaps)
    return jnp.where(gaps[place] >= least, 0.5 * (below[place] + above[place]), highest)
