"""Dense references: nothing is pruned."""

from dataclasses import dataclass
from typing import Any

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.lab.entry import DECAY, DENSE, DRAWS, FLAT, POINTS, Fitted, Grid
from bayesprune.lab.task import Task


@dataclass(frozen=True)
class Dense:
    """The standard course without a sparsifier, at a posterior of points ("map") or a mean field."""

    posterior: str
    rate: float = 4e-2
    warm_up: float = 0.75
    prior: Any = FLAT
    grid: Grid = (("rate", (4e-2, 1e-2)), ("warm_up", (0.75, 0.25)))
    gives: str = DENSE

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn = task.bnn(self.prior, self.posterior)
        fit = task.fit(rng_key, bnn, course=Standard(self.rate, self.warm_up))
        return Fitted(bnn, fit.params, {}, 1 if self.posterior == "map" else DRAWS)


ENTRIES = {"dense-map": Dense("map", prior=DECAY, grid=POINTS), "dense-mean-field": Dense("mean_field")}
