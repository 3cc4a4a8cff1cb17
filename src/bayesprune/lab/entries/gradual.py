"""Cuts on the way: by a cubic schedule, at AdaBelief or at IVON, by evidence, by exchange within a mask, or, as lottery tickets
have it, with a new start after each."""

from dataclasses import dataclass
from typing import Any

from bayesprune.core.keys import Key
from bayesprune.core.schedules import Cubic
from bayesprune.courses import Standard
from bayesprune.infer.rewinding import fit_rewound
from bayesprune.lab.entries.dense import OneFit
from bayesprune.lab.entry import ANY, DECAY, DENSE, DRAWS, FLAT, FOUND, POINTS, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.bmr import BMR
from bayesprune.methods.cut import Cut
from bayesprune.methods.magnitude import Magnitude
from bayesprune.methods.ssvi import SSVI
from bayesprune.priors import DiracSlab, GaussianSlab, LogUniform
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernels.ivon import IVON

# Acts if they went on to the last step; shares of the steps, before the first of them and up to the last.
ACTS, FIRST, END = 50, 0.1, 0.75
EXCHANGES, UNTIL = 50, 0.75  # of a mask, in all steps, and the share of these up to the last one


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


@dataclass(frozen=True)
class ByIvon:
    """`kernels.IVON`, whose divergence has weight 1 throughout; cut as the gradual methods are, or not at all."""

    cut: bool
    rate: float = 0.1
    h0: float = 0.1
    grid: Grid = (("rate", (0.1, 0.5)), ("h0", (0.1, 0.5)))
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn, (cut, when) = task.bnn(FLAT), gradual(task, "snr", density, END)
        method = cut if self.cut else KeepAll()
        fit = task.fit(rng_key, bnn, course=Standard(**when), optimizer=IVON(self.rate, self.h0), sparsifier=method)
        return Fitted(bnn, fit.params, fit.mask)


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


ENTRIES = {
    "magnitude": Gradual("map", "magnitude", DECAY, grid=POINTS),
    "snr": Gradual("mean_field", "snr"),
    "evidence": Gradual("mean_field", "evidence"),
    "svbnn": Gradual("mean_field", "inclusion", DiracSlab()),
    "sbnn": Gradual("mean_field", "inclusion", GaussianSlab(0.05, 1.0)),
    "sparse-vd": Gradual("mean_field", "snr", LogUniform()),
    "bmr": OneFit("mean_field", method=BMR(), gives=FOUND),
    "dense-ivon": ByIvon(cut=False, gives=DENSE),
    "ivon-snr": ByIvon(cut=True),
    "ssvi": Dynamic(),
    "rigl": Dynamic("map", prior=DECAY, grid=POINTS),
    "set": Dynamic("map", "random", prior=DECAY, grid=POINTS),
    "lottery": Lottery(),
}
