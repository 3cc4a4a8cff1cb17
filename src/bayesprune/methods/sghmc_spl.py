"""SGHMC-SPL: groups of weights under a spike and slab, by expectation and maximisation along one chain, cut for good."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core import masks
from bayesprune.core.checks import check_integer, check_name, check_not_negative, check_number, check_positive, check_within
from bayesprune.core.keys import Key
from bayesprune.core.send import send
from bayesprune.core.types import Evidence, Groups, Info, Needs, PyTree, SparseState
from bayesprune.formulas import sghmc_spl
from bayesprune.prune.bookkeeping import make_info
from bayesprune.prune.by_group import GroupSums, check_groups, groups_of

REFERENCE = "ke2022optimization"
RULES = ("em", "switch")
SCOPES = ("per_input", "per_slice", "unit")
SIZES = ("mean_square", "range")


class Memory(NamedTuple):
    """``share``: theta, the groups' prior probability of the slab. ``precision``: site -> what each weight has beyond it."""

    share: jax.Array
    precision: dict[str, jax.Array]


@dataclass(frozen=True)
class SGHMCSPL:
    """Groups of weights are of the slab, which is the model's prior, or of a spike ``ratio`` times as precise; small ones go.

      E: p_g by (7.4);  M: d_g = p_g d1 + (1 - p_g) d0, theta = mean p_g (7.5);   zero for ever where s_g < hard;
      s_g: mean of w² over the group's alive weights, in the network's units;  d1 = 1/prior_scale², d0 = ratio d1

    Args:
        rule: "em" as above. "switch" is that of the authors' code: p_g is 0 where s_g < ``soft``, else 1; with ``soft`` below
            ``hard`` every group of the spike is then cut at once.
        ratio: d0/d1, above 1. The authors' settings have 50 and 20 in simulations, 2 for CIFAR.
        soft: threshold of "switch".
        hard: a group whose size is less is cut for good. None, with "em": where p_g < 1/2.
        size: of what is compared with ``hard``: "mean_square", s_g, or "range", max - min (the authors, for channels).
        scope: what a group is. "per_input": all weights of an array that read one input: a column of a dense layer, an input
            channel of a convolution. "per_slice": of a convolution the k x k weights from one channel to another; of a dense
            layer as "per_input". "unit": all that makes a unit or a channel of the network.
        warm_up: how often it does nothing at first, and leaves the kernel's decays as they are; it acts once in an epoch unless
            ``every`` of the fit says otherwise. `prune_once` acts at once.
        share: theta at the start.

    Under a prior with scales of its own (`Flat`, `Horseshoe`) all is given those scales, where the chain has them: (7.4) is of
    w_hat = w / scale, whose prior is then N(0, 1), and ``soft`` and ``hard`` are compared with w itself. So weights that only
    their scale keeps small are of the slab, and ``hard`` cuts them.

    The decays go to the kernel: sample by ``fit_sgmcmc(..., kernel=kernels.SGHMCSPL())``. theta stays in
    [1/(G + 1), G/(G + 1)] of the G groups that are left. Both thresholds look at the same groups (the authors, for CIFAR,
    have the soft one on slices and the hard one on channels). The best group of every array stays; the dead stay dead.
    ``info.evidence_gained`` is not known.

    Raises:
        ValueError: an unknown rule, scope or size; a number out of its range; ``hard=None`` with "switch" or a size.
        TypeError: a ratio or share that is no number.

    Example:
        >>> SGHMCSPL(ratio=50.0, hard=1e-3, warm_up=50).rule
        'em'

    Source: Ke & Fan (2022), section 3, and the authors' code for "switch"; Ročková & George (2014) for the EM.
    """

    rule: str = "em"
    ratio: float = 20.0
    soft: float = 1e-2
    hard: float | None = 1e-3
    size: str = "mean_square"
    scope: str = "per_input"
    warm_up: int = 10
    share: float = 0.5

    def __post_init__(self) -> None:
        for name, value, known in (("rule", self.rule, RULES), ("size", self.size, SIZES), ("scope", self.scope, SCOPES)):
            check_name(name, value, known)
        for name in ("ratio", "share"):
            check_number(getattr(self, name), name)
        if not (math.isfinite(self.ratio) and self.ratio > 1):
            raise ValueError(f"ratio must be above 1, got {self.ratio}: the spike is narrower than the slab.")
        check_positive(self.soft, "soft")
        check_integer(self.warm_up, "warm_up", minimum=0)
        check_within(self.share, "share", "(0, 1)", "it is the slab's prior probability")
        if self.hard is not None:
            check_not_negative(self.hard, "hard")
        elif self.rule == "switch":
            raise ValueError("hard=None cuts by the probabilities of rule='em', and rule='switch' has none: give a threshold.")
        elif self.size != SIZES[0]:
            raise ValueError(f"size={self.size!r} is compared with hard, and hard=None compares nothing: leave size out.")

    @property
    def needs(self) -> Needs:
        """A prior that is Gaussian given its scales, the groups, and a kernel with decays."""
        return Needs(evidence=True, groups=self.scope)

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive and of the slab."""
        precision = {site: send(np.zeros(jnp.shape(node.loc)), float) for site, node in posterior.items()}
        return SparseState(masks.full_like(posterior), Memory(send(self.share, float), precision), send(0, np.int32))

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """One round of expectation, maximisation and cutting; nothing while warming up."""
        check_groups(evidence.groups, self.scope)
        new = self._round(evidence.posterior, evidence.groups, state)
        acts = state.step >= self.warm_up
        new = jax.tree.map(lambda after, before: jnp.where(acts, after, before), new, state)
        new = new._replace(step=state.step + 1)
        return new, make_info(state.mask, new)

    def precision(self, state: SparseState) -> dict[str, jax.Array]:
        """What each weight's prior precision is beyond the slab's, in the coordinates of loc."""
        return dict(state.memory.precision)

    def _round(self, posterior: PyTree, groups: Groups, state: SparseState) -> SparseState:
        sums = GroupSums(groups, state.mask)
        present = sums.size > 0
        of_present = sums.mean({site: jnp.asarray(node.prior_scale, float) ** -2.0 for site, node in posterior.items()})
        slab = jnp.where(present, of_present, 1.0)  # a group without living weights has none, and no say
        p = self._inclusion(posterior, sums, slab, state.memory.share)
        number = jnp.maximum(jnp.sum(present), 1).astype(p.dtype)
        share = jnp.clip(jnp.sum(p, where=present) / number, 1.0 / (number + 1), number / (number + 1.0))
        beyond = sghmc_spl.precision(p, slab, self.ratio * slab) - slab
        precision = {site: sums.at(beyond, site, 0.0) for site in state.mask}
        stays, worth = self._stays(posterior, sums, p)
        alive = {site: _kept(sums, site, stays, worth, mask) for site, mask in state.mask.items()}
        return SparseState(alive, Memory(share, precision), state.step)

    def _inclusion(self, posterior: PyTree, sums: GroupSums, slab: jax.Array, share: jax.Array) -> jax.Array:
        if self.rule == "switch":
            size = sums.mean({site: jnp.square(node.loc * node.unit) for site, node in posterior.items()})
            return (size >= self.soft).astype(float)
        square = sums.total({site: jnp.square(node.loc) for site, node in posterior.items()})
        return sghmc_spl.inclusion(square, sums.size, share, slab, self.ratio * slab)

    def _stays(self, posterior: PyTree, sums: GroupSums, p: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Which groups stay, and what each is worth."""
        if self.hard is None:
            return p >= 0.5, p
        weights = {site: node.loc * node.unit for site, node in posterior.items()}
        size = sums.range(weights) if self.size == "range" else sums.mean(jax.tree.map(jnp.square, weights))
        return size >= self.hard, size


def _kept(sums: GroupSums, site: str, stays: jax.Array, worth: jax.Array, mask: jax.Array) -> jax.Array:
    """What is alive of one array: the groups that stay, and the best of them in any case."""
    best = masks.top_k(worth, 1, groups_of(sums.groups, site) & (sums.size > 0))
    return mask & sums.at(stays | best, site, True)
