"""Priors that shrink whole units, and the rule that cuts what they have shrunk; the density is what is found."""

from dataclasses import dataclass
from typing import Any

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.lab.entry import FOUND, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.bmrs import BMRS
from bayesprune.methods.sbp import SBP
from bayesprune.methods.shrinkage import Shrinkage
from bayesprune.methods.widest_gap import WidestGap
from bayesprune.priors import GroupNormalJeffreys, Horseshoe, UnitNoise
from bayesprune.prune.one_shot import prune_once


@dataclass(frozen=True)
class ByUnits:
    """The standard course under ``prior``, one cut by ``rule``, and a quarter of the steps for what is left.

    What may fall is the prior's say: units of hidden layers, or inputs.
    """

    prior: Any
    rule: Any
    rate: float = 4e-2
    warm_up: float = 0.75
    grid: Grid = (("rate", (4e-2, 1e-2)), ("warm_up", (0.75, 0.25)))
    gives: str = FOUND

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn, course = task.bnn(self.prior, prunable=None), Standard(self.rate, self.warm_up)
        dense = task.fit(rng_key, bnn, 0.75, course=course)
        pruned = prune_once(dense.params, self.rule, program=bnn)
        fit = task.fit(rng_key, bnn, 0.25, course=course, init=pruned)
        return Fitted(bnn, fit.params, pruned.mask)


ENTRIES = {
    "bmrs": ByUnits(UnitNoise(), BMRS(prior="uniform", p1=4)),  # the normal one cuts nothing by the paper's formula
    "sbp": ByUnits(UnitNoise(), SBP()),
    "horseshoe": ByUnits(Horseshoe(), Shrinkage()),
    "widest-gap": ByUnits(GroupNormalJeffreys(), WidestGap()),
}
