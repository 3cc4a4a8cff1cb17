"""Sparse from the first step: a mask of the wanted density, whose worst weights are exchanged on the way."""

from dataclasses import dataclass
from typing import Any

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.lab.entry import ANY, DECAY, DRAWS, FLAT, POINTS, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.ssvi import SSVI

EXCHANGES, UNTIL = 50, 0.75


@dataclass(frozen=True)
class Dynamic:
    """`SSVI` with densities by Erdős-Rényi, an exchange every fiftieth of the steps; at points it is RigL, or SET."""

    posterior: str = "mean_field"
    addition: str = "gradient"
    rate: float = 4e-2
    replace: float = 0.3
    prior: Any = FLAT
    grid: Grid = (("rate", (4e-2, 1e-2)), ("replace", (0.3, 0.5)))
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        points = self.posterior == "map"
        method = SSVI(
            density,
            removal="magnitude" if points else "expected_abs_over_std",
            addition=self.addition,
            distribution="erdos_renyi",
            replace=self.replace,
            until=UNTIL,
        )
        bnn = task.bnn(self.prior, self.posterior)
        course = Standard(self.rate, every=max(1, task.num_steps // EXCHANGES), first=0.0, last=UNTIL)
        fit = task.fit(rng_key, bnn, course=course, sparsifier=method)
        return Fitted(bnn, fit.params, fit.mask, 1 if points else DRAWS)


ENTRIES = {
    "ssvi": Dynamic(),
    "rigl": Dynamic("map", prior=DECAY, grid=POINTS),
    "set": Dynamic("map", "random", prior=DECAY, grid=POINTS),
}
