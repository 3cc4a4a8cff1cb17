"""Laplace's posterior around a network of points: dense, or cut by its evidence, without training again or with some."""

from dataclasses import dataclass

import jax

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.infer.laplace import laplace
from bayesprune.lab.entry import ANY, DECAY, DENSE, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.cut import Cut
from bayesprune.prune.one_shot import prune_once


@dataclass(frozen=True)
class AroundAMap:
    """Points by the standard course, then a diagonal Laplace posterior with a precision for each group of ``groups``.

    ``cut``: by evidence to the density; the survivors' points train on for a ``share`` of the steps, 0: they stay as they
    were, and the posterior is taken anew around them. Predictions are linearised, as (25.8) has it. Precisions are those of the
    evidence as they are, by which the laboratory's records were made.
    """

    cut: bool
    share: float = 0.0
    rate: float = 4e-2
    groups: str = "layer"
    grid: Grid = (("rate", (4e-2, 1e-2)), ("groups", ("layer", "unit")))
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn, course = task.bnn(DECAY, "map"), Standard(self.rate)
        around_key, again_key = jax.random.split(rng_key)
        points = task.fit(rng_key, bnn, 1.0 - self.share, course=course)
        around = laplace(around_key, bnn, points, task.train, prior_precision=self.groups, excess=None)
        if not self.cut:
            return Fitted(task.bnn(DECAY), around.params, {}, linearised=True)
        mask = prune_once(around.params, Cut("evidence", density), program=task.bnn(DECAY)).mask
        left = prune_once(points.params, Cut("magnitude", 1.0), program=bnn, mask=mask)
        if self.share:
            left = left._replace(params=task.fit(rng_key, bnn, self.share, course=course, init=left).params)
        again = laplace(again_key, bnn, left, task.train, prior_precision=self.groups, excess=None)
        return Fitted(task.bnn(DECAY), again.params, mask, linearised=True)


ENTRIES = {
    "dense-laplace": AroundAMap(cut=False, gives=DENSE),
    "laplace-once": AroundAMap(cut=True),
    "laplace": AroundAMap(cut=True, share=0.25),
}
