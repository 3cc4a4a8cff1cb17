"""Lottery tickets: train, cut, go back to the start, train again, within the steps of one training."""

from dataclasses import dataclass
from typing import Any

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.infer.rewinding import fit_rewound
from bayesprune.lab.entry import ANY, DECAY, POINTS, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.magnitude import Magnitude


@dataclass(frozen=True)
class Lottery:
    """``rounds`` cuts by magnitude, each of as large a share; each of the rounds + 1 trainings has its part of the steps."""

    rate: float = 4e-2
    rounds: int = 3
    prior: Any = DECAY
    grid: Grid = POINTS
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn = task.bnn(self.prior, "map")
        keep = min(density, 0.999) ** (1.0 / self.rounds)
        found = fit_rewound(
            rng_key,
            bnn,
            task.train,
            method=Magnitude,
            num_steps=task.steps(1.0 / (self.rounds + 1)),
            rounds=self.rounds,
            keep=keep,
            batch_size=min(task.batch_size, len(task.train.y)),
            course=Standard(self.rate),
            progress=False,
        )
        return Fitted(bnn, found.fits[-1].params, found.fits[-1].mask, 1)


ENTRIES = {"lottery": Lottery()}
