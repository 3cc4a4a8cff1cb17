"""Gradual cuts: a cubic schedule to the density, by a score, under a prior."""

from dataclasses import dataclass
from typing import Any

from bayesprune.core.keys import Key
from bayesprune.core.schedules import Cubic
from bayesprune.courses import Standard
from bayesprune.lab.entry import ANY, DECAY, DRAWS, FLAT, POINTS, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.cut import Cut
from bayesprune.priors import DiracSlab, GaussianSlab, LogUniform

# Acts if they went on to the last step; shares of the steps, before the first of them and up to the last.
ACTS, FIRST, END = 50, 0.1, 0.75


def gradual(task: Task, score: str, density: float, end: float) -> tuple[Cut, dict[str, Any]]:
    """A cubic to the density, and when it acts: from a tenth of the steps until ``end``, a fiftieth apart (Zhu & Gupta)."""
    every = max(1, task.num_steps // ACTS)
    first, last = max(1, round(FIRST * task.num_steps)), round(end * task.num_steps)
    acts = max(1, last // every - (first - 1) // every)
    return Cut(score, Cubic(density, 0, acts)), {"every": every, "first": FIRST, "last": end}


@dataclass(frozen=True)
class Gradual:
    """`gradual` on the standard course; the survivors train on. ``score``: of `Cut`."""

    posterior: str
    score: str
    prior: Any = FLAT
    rate: float = 4e-2
    end: float = END
    grid: Grid = (("rate", (4e-2, 1e-2)), ("end", (0.75, 0.5)))
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn = task.bnn(self.prior, self.posterior)
        cut, when = gradual(task, self.score, density, self.end)
        fit = task.fit(rng_key, bnn, course=Standard(self.rate, **when), sparsifier=cut)
        return Fitted(bnn, fit.params, fit.mask, 1 if self.posterior == "map" else DRAWS)


ENTRIES = {
    "magnitude": Gradual("map", "magnitude", DECAY, grid=POINTS),
    "snr": Gradual("mean_field", "snr"),
    "evidence": Gradual("mean_field", "evidence"),
    "svbnn": Gradual("mean_field", "inclusion", DiracSlab()),
    "sbnn": Gradual("mean_field", "inclusion", GaussianSlab(0.05, 1.0)),
    "sparse-vd": Gradual("mean_field", "snr", LogUniform()),
}
