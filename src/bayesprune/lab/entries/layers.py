"""Cuts layer by layer by what the outputs lose, without training again: Wanda and SparseGPT."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.infer.prune_layers import prune_layers
from bayesprune.lab.entry import ANY, DECAY, POINTS, Fitted, Grid
from bayesprune.lab.task import Task

CALIBRATION = 512  # rows, at most


@dataclass(frozen=True)
class Layers:
    """Points by the standard course, then `prune_layers`."""

    rule: str
    rate: float = 4e-2
    prior: Any = DECAY
    grid: Grid = POINTS
    gives: str = ANY

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn = task.bnn(self.prior, "map")
        dense = task.fit(rng_key, bnn, course=Standard(self.rate))
        rows = np.asarray(task.train.x)[:CALIBRATION]
        pruned = prune_layers(bnn, dense.params, rows, density=density, rule=self.rule)
        return Fitted(bnn, pruned.params, pruned.mask, 1)


ENTRIES = {"wanda-once": Layers("wanda"), "sparsegpt-once": Layers("sparsegpt")}
