"""One cut of a dense fit: by a score, by what a prior has shrunk, layer by layer by what outputs lose, or by the evidence of a
Laplace posterior around a network of points."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.infer.laplace import laplace
from bayesprune.infer.prune_layers import prune_layers
from bayesprune.lab.entry import ANY, DECAY, DENSE, DRAWS, FLAT, FOUND, POINTS, Fitted, Grid
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
    """Dense for all but the last ``share`` of the steps; then one cut by ``rule``, and that share for the survivors.

    ``rule``: a score of `Cut`, to the density; or a method that finds its own, of what the prior says: units, or inputs.
    """

    posterior: str
    rule: Any
    prior: Any = FLAT
    rate: float = 4e-2
    share: float = 0.25
    warm_up: float = 0.75
    grid: Grid = (("rate", (4e-2, 1e-2)), ("share", (0.25, 0.5)))
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        finds = self.gives == FOUND
        bnn = task.bnn(self.prior, self.posterior, **({"prunable": None} if finds else {}))
        course = Standard(self.rate, self.warm_up)
        dense = task.fit(rng_key, bnn, 1.0 - self.share, course=course)
        pruned = prune_once(dense.params, self.rule if finds else Cut(self.rule, density), program=bnn)
        fit = task.fit(rng_key, bnn, self.share, course=course, init=pruned)
        return Fitted(bnn, fit.params, pruned.mask, 1 if self.posterior == "map" else DRAWS)


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


@dataclass(frozen=True)
class AroundAMap:
    """Points by the standard course, then a diagonal Laplace posterior with a precision for each group of ``groups``.

    ``cut``: by evidence to the density; the survivors' points train on for a ``share`` of the steps, 0: they stay as they
    were, and the posterior is taken anew around them. Predictions are linearised, as (25.8) has it. Precisions are those of the
    evidence as they are, by which the laboratory's records were made.
    """

    cut: bool
    share: float = 0.0
    rate: float = 4e-2
    groups: str = "layer"
    grid: Grid = (("rate", (4e-2, 1e-2)), ("groups", ("layer", "unit")))
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn, course = task.bnn(DECAY, "map"), Standard(self.rate)
        around_key, again_key = jax.random.split(rng_key)
        points = task.fit(rng_key, bnn, 1.0 - self.share, course=course)
        around = laplace(around_key, bnn, points, task.train, prior_precision=self.groups, excess=None)
        if not self.cut:
            return Fitted(task.bnn(DECAY), around.params, {}, linearised=True)
        mask = prune_once(around.params, Cut("evidence", density), program=task.bnn(DECAY)).mask
        left = prune_once(points.params, Cut("magnitude", 1.0), program=bnn, mask=mask)
        if self.share:
            left = left._replace(params=task.fit(rng_key, bnn, self.share, course=course, init=left).params)
        again = laplace(again_key, bnn, left, task.train, prior_precision=self.groups, excess=None)
        return Fitted(task.bnn(DECAY), again.params, mask, linearised=True)


by_units = functools.partial(Once, "mean_field", grid=(("rate", (4e-2, 1e-2)), ("warm_up", (0.75, 0.25))), gives=FOUND)
ENTRIES = {
    "dense-laplace": AroundAMap(cut=False, gives=DENSE),
    "laplace-once": AroundAMap(cut=True),
    "laplace": AroundAMap(cut=True, share=0.25),
    "magnitude-once": Once("map", "magnitude", DECAY, grid=POINTS),
    "snr-once": Once("mean_field", "snr"),
    "wanda-once": Layers("wanda"),
    "sparsegpt-once": Layers("sparsegpt"),
    "bmrs": by_units(BMRS(prior="uniform", p1=4), UnitNoise()),  # the normal one cuts nothing by the paper's formula
    "sbp": by_units(SBP(), UnitNoise()),
    "horseshoe": by_units(Shrinkage(), Horseshoe()),
    "widest-gap": by_units(WidestGap(), GroupNormalJeffreys()),
}
