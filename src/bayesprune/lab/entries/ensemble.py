"""A deep ensemble: networks of points from starts of their own, each with its part of the steps."""

from dataclasses import dataclass
from typing import Any

import jax

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.lab.entry import DECAY, DENSE, POINTS, Fitted, Grid
from bayesprune.lab.task import Task


@dataclass(frozen=True)
class Ensemble:
    """``networks`` of the standard course."""

    rate: float = 4e-2
    networks: int = 5
    prior: Any = DECAY
    grid: Grid = POINTS
    gives: str = DENSE

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn, course = task.bnn(self.prior, "map"), Standard(self.rate)
        keys = jax.random.split(rng_key, self.networks)
        first, *others = (task.fit(key, bnn, 1.0 / self.networks, course=course).params for key in keys)
        return Fitted(bnn, first, {}, 1, tuple(others))


ENTRIES = {"dense-ensemble": Ensemble()}
