"""Dense references, of which nothing is pruned: one network, several from starts of their own, and a path around one."""

from dataclasses import dataclass
from typing import Any

import jax

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.infer.swag import swag
from bayesprune.lab.entry import DECAY, DENSE, DRAWS, FLAT, POINTS, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.prune.keep_all import KeepAll


@dataclass(frozen=True)
class OneFit:
    """The standard course at a posterior of points ("map") or a mean field, by a method that finds its density or none."""

    posterior: str
    rate: float = 4e-2
    warm_up: float = 0.75
    prior: Any = FLAT
    method: Any = KeepAll()
    grid: Grid = (("rate", (4e-2, 1e-2)), ("warm_up", (0.75, 0.25)))
    gives: str = DENSE

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn = task.bnn(self.prior, self.posterior)
        fit = task.fit(rng_key, bnn, course=Standard(self.rate, self.warm_up), sparsifier=self.method)
        return Fitted(bnn, fit.params, fit.mask, 1 if self.posterior == "map" else DRAWS)


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


@dataclass(frozen=True)
class Swag:
    """``share`` of the steps are the path's, of ``learning_rate``, of which every ``collect_every``-th is one of its points."""

    learning_rate: float = 0.03
    share: float = 0.25
    collect_every: int = 5
    grid: Grid = (("learning_rate", (0.03, 0.01, 0.1, 0.3)),)
    gives: str = DENSE

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn, (_, path_key) = task.bnn(DECAY, "map"), jax.random.split(rng_key)
        trained = task.fit(rng_key, bnn, 1.0 - self.share, course=Standard())
        path = swag(
            path_key,
            bnn,
            trained,
            task.train,
            num_steps=max(task.steps(self.share), 2 * self.collect_every),
            batch_size=min(task.batch_size, len(task.train.y) - 1),
            learning_rate=self.learning_rate,
            collect_every=self.collect_every,
            covariance="low_rank",
            num_draws=DRAWS,
            progress=False,
        )
        return Fitted(bnn, path.params, {})


ENTRIES = {
    "dense-map": OneFit("map", prior=DECAY, grid=POINTS),
    "dense-mean-field": OneFit("mean_field"),
    "dense-ensemble": Ensemble(),
    "dense-swag": Swag(),
}
