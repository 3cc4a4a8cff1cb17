"""mBNN: units are born and die on the way of a sampler, accepted by Metropolis and Hastings under a prior of their number."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core import masks
from bayesprune.core.checks import check_integer, check_name, check_not_negative, check_number
from bayesprune.core.keys import Key
from bayesprune.core.send import send
from bayesprune.core.types import Evidence, Groups, Info, Needs, PyTree, SparseState
from bayesprune.formulas import unit_masks
from bayesprune.prune.bookkeeping import make_info
from bayesprune.prune.by_group import GroupSums, check_groups

REFERENCE = "kong2023masked"
DEATHS = ("gradient", "uniform")
COUNTED = ("layer", "net")
# The probability of a set sums over the orders in which it may be drawn, the subsets of at most so many units.
MOST = 5


class _Seen(NamedTuple):
    """A mask, the loss of the data under it, and log w of each unit, by which deaths are drawn."""

    mask: PyTree
    loss: jax.Array
    log_weights: jax.Array


@dataclass(frozen=True)
class MBNN:
    """Propose a birth or a death of 1..``most`` units over all hidden layers, and accept it by the odds of the posterior.

      p(m) = prod over layers of exp(-c k²)/C(N, k), k >= 1 of N units alive;  c = (lam log n)^5                        (19.1)
      birth: a uniform set of dead units; death: units one after the other by w = exp(-|d log p(y | m, w)/dm|/2)         (19.3)
      accept with min(1, p(m')/p(m) p(y | m', w)/p(y | m, w) Q(m' -> m)/Q(m -> m'))                                      (19.4)

    A unit is what the network's graph says it is: its incoming weights that may be pruned die and are born together. Give
    ``prunable=bp.select.everything``, so that its bias goes too; otherwise a dead unit is a constant. No layer ever loses its
    last unit: such a move is rejected, as is one of more units than there are.

    Args:
        lam: lambda of c, with n the rows of the data.
        penalty: c itself, in place of ``lam``; 0: every number of units of a layer is as probable.
        most: largest number of units of one move, 1 to 5; each from 1 on is as probable.
        death: "gradient" as above, or "uniform".
        counted: what k and N count: the units of each "layer", or of the whole "net".
        warm_up: how often it moves nothing at first, while the weights find their places; dead weights are drawn anew and units
            made whole, as below.
        num_rows: n; `fit_sgmcmc` says it.

    Every weight, of living and dead units alike, is under the model's prior. Those of dead units have no likelihood, and are
    drawn anew from the prior before each move; a unit is then born with the weights that it has, in which prior and proposal
    agree. So the joint posterior of masks and weights stays as it is: for full batches, and as far as the kernel samples that
    of the weights. Of minibatches one judges both masks, as in the paper, and its noise heats the chain. The weights by which
    other units would read a dead one are alive, and move under their prior.

    A mask that is given says which units are alive, those with an alive weight; such are whole from the first act on. Weights
    of no unit stay as it has them. ``info.evidence_gained`` is not known.

    Raises:
        ValueError: an unknown death or count, ``most`` outside 1..5, a negative ``lam`` or ``penalty``; at the fit, rows that
            nobody said, a network without prunable units, a kernel that is no sampler, or a cold one.
        TypeError: a ``lam`` or ``penalty`` that is no number.

    Example:
        >>> MBNN(penalty=0.1, most=1).death
        'gradient'

    Source: Kong et al. (2023).
    """

    lam: float = 0.05
    penalty: float | None = None
    most: int = 3
    death: str = "gradient"
    counted: str = "layer"
    warm_up: int = 0
    num_rows: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (("death", self.death, DEATHS), ("counted", self.counted, COUNTED)):
            check_name(name, value, known)
        check_number(self.lam, "lam")
        check_not_negative(self.lam, "lam")
        if self.penalty is not None:
            check_number(self.penalty, "penalty")
            check_not_negative(self.penalty, "penalty")
        check_integer(self.most, "most")
        if self.most > MOST:
            raise ValueError(f"most must be 1 to {MOST}, got {self.most}: a move of many units is hardly ever accepted.")
        for name in ("warm_up", "num_rows"):
            check_integer(getattr(self, name), name, minimum=0)

    @property
    def needs(self) -> Needs:
        """Units, the loss of the data, and a sampler."""
        return Needs(groups="unit", loss=True, chain=True)

    @property
    def c(self) -> float:
        """The penalty, (lam log n)^5 where it is not given."""
        if self.penalty is not None:
            return float(self.penalty)
        if not self.num_rows:
            raise ValueError(
                "num_rows of methods.MBNN is not known, and c = (lam log n)^5 depends on it: bp.fit_sgmcmc says it; elsewhere "
                "give the rows of the data, or penalty=."
            )
        return (self.lam * math.log(self.num_rows)) ** 5

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive."""
        return SparseState(masks.full_like(posterior), (), send(0, np.int32))

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """One proposal, and what became of it."""
        groups = _checked(evidence)
        kind_key, number_key, choice_key, judge_key = jax.random.split(rng_key, 4)
        birth = jax.random.bernoulli(kind_key)
        number = jax.random.randint(number_key, (), 1, self.most + 1)
        alive = GroupSums(groups, state.mask).size > 0
        before = self._see(evidence, alive, state.mask)
        # The units of highest log w plus Gumbel noise are drawn one after the other in proportion to w.
        noise = jax.random.gumbel(choice_key, alive.shape, before.log_weights.dtype)
        chosen = masks.top_k(jnp.where(birth, 0.0, before.log_weights) + noise, number, jnp.where(birth, ~alive, alive))
        proposed = alive ^ chosen
        after = self._see(evidence, proposed, state.mask)
        possible = (jnp.sum(chosen, dtype=number.dtype) == number) & jnp.all(_per_layer(proposed, layers_of(groups)) > 0)
        odds = self._log_odds(groups, alive, chosen, birth, before, after)
        acts = possible & (state.step >= self.warm_up)
        accepts = acts & (jnp.log(jax.random.uniform(judge_key, dtype=odds.dtype)) < odds)
        mask = jax.tree.map(lambda new, old: jnp.where(accepts, new, old), after.mask, before.mask)
        new = state._replace(mask=mask, step=state.step + 1)
        return new, make_info(state.mask, new)

    def _log_odds(
        self, groups: Groups, alive: jax.Array, chosen: jax.Array, birth: jax.Array, before: _Seen, after: _Seen
    ) -> jax.Array:
        """(19.4), in logarithms."""
        layer = layers_of(groups) if self.counted == "layer" else np.zeros(groups.count, int)
        moved, total = _per_layer(chosen, layer), jnp.asarray(np.bincount(layer), jnp.int32)
        prior = unit_masks.log_prior_ratio(_per_layer(alive, layer), jnp.where(birth, moved, -moved), total, self.c, self.most)
        # A death is drawn where more units live, a birth where fewer do; kind and number are as probable both ways.
        larger = alive | chosen
        log_weights = jnp.where(birth, after.log_weights, before.log_weights)
        of_death = unit_masks.log_set_probability(log_weights, larger, chosen, self.most)
        dead = groups.count - jnp.sum(larger & ~chosen, dtype=jnp.int32)
        of_birth = -unit_masks.log_choices(dead, jnp.sum(chosen, dtype=jnp.int32))
        back = jnp.where(birth, of_death - of_birth, of_birth - of_death)
        return prior + before.loss - after.loss + back  # type: ignore[no-any-return]

    def _see(self, evidence: Evidence, alive: jax.Array, given: PyTree) -> _Seen:
        """The mask of living units, its loss, and the weights of their deaths."""
        sums = GroupSums(evidence.groups, given)
        mask = {site: sums.at(alive, site, old) for site, old in given.items()}
        assert evidence.loss is not None
        if self.death == "uniform":
            return _Seen(mask, evidence.loss(mask), jnp.zeros(alive.shape))
        still = {site: jnp.zeros_like(node.loc) for site, node in evidence.posterior.items()}
        loss, slope = jax.value_and_grad(lambda shift: evidence.loss(mask, shift))(still)  # type: ignore[misc]
        # The mask multiplies the weights: d loss/dm of a unit is the sum over them of w d loss/dw.
        change = GroupSums(evidence.groups, mask).total({s: node.loc * slope[s] for s, node in evidence.posterior.items()})
        return _Seen(mask, loss, -jnp.abs(change) / 2)


def _checked(evidence: Evidence) -> Groups:
    """The units, where there are any, and a loss to judge them by."""
    check_groups(evidence.groups, "unit")
    if evidence.loss is None:
        raise ValueError("methods.MBNN judges masks by Evidence.loss, and there is none: sample with bp.fit_sgmcmc.")
    return evidence.groups  # type: ignore[no-any-return]


def _per_layer(units: jax.Array, layer: np.ndarray) -> jax.Array:
    """How many of the units are in each layer."""
    return jnp.zeros(int(layer.max()) + 1, jnp.int32).at[layer].add(units.astype(jnp.int32))


def layers_of(groups: Groups) -> np.ndarray:
    """The number of the layer that each group is in, from 0, (groups,). Arrays with a group in common make one layer.

    >>> of_arrays = {"a.kernel": np.array([[0, 1]]), "a.bias": np.array([0, 1]), "b.kernel": np.array([[2, 3, 3]])}
    >>> print(layers_of(Groups(of_arrays, 4)))
    [0 0 1 1]
    """
    layer = np.arange(groups.count)
    for ids in groups.members.values():
        present = np.unique(ids[ids >= 0])
        layer[np.isin(layer, layer[present])] = layer[present].min(initial=groups.count)
    return np.unique(layer, return_inverse=True)[1]
