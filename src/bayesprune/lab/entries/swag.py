"""SWAG: points by the standard course, then the path of plain gradient descent around them."""

from dataclasses import dataclass

import jax

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.infer.swag import swag
from bayesprune.lab.entry import DECAY, DENSE, DRAWS, Fitted, Grid
from bayesprune.lab.task import Task


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


ENTRIES = {"dense-swag": Swag()}
