"""One cut of a dense fit: by a score, by what a prior has shrunk, or layer by layer by what the outputs lose."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.infer.prune_layers import prune_layers
from bayesprune.lab.entry import ANY, DECAY, DRAWS, FLAT, FOUND, POINTS, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.bmrs import BMRS
from bayesprune.methods.cut import Cut
from bayesprune.methods.sbp import SBP
from bayesprune.methods.shrinkage import Shrinkage
from bayesprune.methods.widest_gap import WidestGap
from bayesprune.priors import GroupNormalJeffreys, Horseshoe, UnitNoise
from bayesprune.prune.one_shot import prune_once

CALIBRATION = 512  # rows, at most, that `prune_layers` looks at


@dataclass(frozen=True)
class Once:
    """Dense for all but the last ``share`` of the steps; then one cut by ``score``, and that share for the survivors."""

    posterior: str
    score: str
    rate: float = 4e-2
    share: float = 0.25
    prior: Any = FLAT
    grid: Grid = (("rate", (4e-2, 1e-2)), ("share", (0.25, 0.5)))
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn, course = task.bnn(self.prior, self.posterior), Standard(self.rate)
        dense = task.fit(rng_key, bnn, 1.0 - self.share, course=course)
        pruned = prune_once(dense.params, Cut(self.score, density), program=bnn)
        fit = task.fit(rng_key, bnn, self.share, course=course, init=pruned)
        return Fitted(bnn, fit.params, pruned.mask, 1 if self.posterior == "map" else DRAWS)


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


@dataclass(frozen=True)
class Layers:
    """Points by the standard course, then `prune_layers`."""

    rule: str
    rate: float = 4e-2
    prior: Any = DECAY
    grid: Grid = POINTS
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn = task.bnn(self.prior, "map")
        dense = task.fit(rng_key, bnn, course=Standard(self.rate))
        rows = np.asarray(task.train.x)[:CALIBRATION]
        pruned = prune_layers(bnn, dense.params, rows, density=density, rule=self.rule)
        return Fitted(bnn, pruned.params, pruned.mask, 1)


ENTRIES = {
    "magnitude-once": Once("map", "magnitude", prior=DECAY, grid=POINTS),
    "snr-once": Once("mean_field", "snr"),
    "wanda-once": Layers("wanda"),
    "sparsegpt-once": Layers("sparsegpt"),
    "bmrs": ByUnits(UnitNoise(), BMRS(prior="uniform", p1=4)),  # the normal one cuts nothing by the paper's formula
    "sbp": ByUnits(UnitNoise(), SBP()),
    "horseshoe": ByUnits(Horseshoe(), Shrinkage()),
    "widest-gap": ByUnits(GroupNormalJeffreys(), WidestGap()),
}
