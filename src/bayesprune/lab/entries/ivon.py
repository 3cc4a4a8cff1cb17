"""IVON: dense, or with a cubic schedule by SNR."""

from dataclasses import dataclass

from bayesprune.core.keys import Key
from bayesprune.courses import Standard
from bayesprune.lab.entries.gradual import END, gradual
from bayesprune.lab.entry import ANY, DENSE, FLAT, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernels.ivon import IVON


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
        return Fitted(bnn, fit.params, fit.mask if self.cut else {})


ENTRIES = {"dense-ivon": ByIvon(cut=False, gives=DENSE), "ivon-snr": ByIvon(cut=True)}
