"""Bayesian model reduction on the way: the density is its own, or it is cut on from there."""

from dataclasses import dataclass

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.lab.entry import FOUND, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.bmr import BMR
from bayesprune.priors import Flat


@dataclass(frozen=True)
class ByEvidence:
    """`BMR` on the standard course, its acts verified."""

    rate: float = 4e-2
    warm_up: float = 0.75
    grid: Grid = (("rate", (4e-2, 1e-2)), ("warm_up", (0.75, 0.25)))
    gives: str = FOUND

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn = task.bnn(Flat())
        fit = task.fit(rng_key, bnn, course=Standard(self.rate, self.warm_up), sparsifier=BMR())
        return Fitted(bnn, fit.params, fit.mask)


ENTRIES = {"bmr": ByEvidence()}
