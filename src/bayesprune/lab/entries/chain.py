"""Sparse sampling: a chain of SGHMC whose groups fall by a spike and slab; networks kept along it predict."""

from dataclasses import dataclass

from bayesprune.core.keys import Key
from bayesprune.infer.sgmcmc import fit_sgmcmc
from bayesprune.lab.entry import FOUND, Fitted, Grid
from bayesprune.lab.task import Task
from bayesprune.methods.sghmc_spl import SGHMCSPL
from bayesprune.priors import Gaussian
from bayesprune.train.kernels.sghmc_spl import SGHMCSPL as Kernel


@dataclass(frozen=True)
class Chain:
    """`kernels.SGHMCSPL` of ``cycles`` under N(0, prior_scale²), and `methods.SGHMCSPL`; it keeps twelve networks."""

    prior_scale: float = 1.0
    cycles: int = 2
    step_size: float = 1.0  # of a third or less the digits are not learnt in 1,000 steps
    grid: Grid = (("prior_scale", (1.0, 0.3)), ("cycles", (2, 4)))
    gives: str = FOUND

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted:
        bnn = task.bnn(Gaussian(self.prior_scale), "map")
        kernel = Kernel(step_size=self.step_size, num_cycles=self.cycles)
        fit = fit_sgmcmc(
            rng_key, bnn, task.train, num_steps=task.num_steps, kernel=kernel, num_samples=12,
            batch_size=min(task.batch_size, len(task.train.y)), sparsifier=SGHMCSPL(warm_up=1),
            every=max(1, task.num_steps // 20), progress=False,
        )  # fmt: skip
        return Fitted(bnn, fit.params, fit.mask, 12)


ENTRIES = {"sghmc-spl": Chain()}
