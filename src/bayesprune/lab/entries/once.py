"""One cut of a dense fit, and what is left trains on."""

from dataclasses import dataclass
from typing import Any

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.lab.entry import ANY, DECAY, DRAWS, FLAT, POINTS, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.cut import Cut
from bayesprune.prune.one_shot import prune_once


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


ENTRIES = {"magnitude-once": Once("map", "magnitude", prior=DECAY, grid=POINTS), "snr-once": Once("mean_field", "snr")}
