"""Samplers as they come: the step size and the spacing of the kept networks where neither is given, beside what they were.

    python benchmarks/sampler_defaults.py run              # into runs/sampler_defaults.jsonl, what is not there
    python benchmarks/tables.py                            # from the results kept here, into the page

`fit_sgmcmc` over 4,000 steps of 128 rows, twenty networks, an MLP of 100-100 on images and of 50 on tables, whose parts are
those of `around_trained`. "former": eps = 1e-6, a network every epoch, at most, at the end; "default": a learning rate of .1
and networks from the last half; "every epoch": the default but for the spacing; "a third", "threefold": but for the step size.
The defaults were chosen on digits, Fashion-MNIST, yacht and power_plant; on the other sets nothing was chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import around_trained
import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells

STEPS, BATCH, NETWORKS = 4000, 128, 20
SEEN = ("digits", "fashion_mnist", "uci/yacht", "uci/power_plant")
UNSEEN = ("mnist", "breast_cancer", "wine", "iris", "uci/concrete", "uci/boston_housing", "uci/wine_quality_red", "diabetes")
PRIORS = {"flat": bp.priors.Flat, "gaussian": bp.priors.Gaussian}
KERNELS = {"SGHMC": (bp.kernels.SGHMC, 0.01), "SGLD": (bp.kernels.SGLD, 0.1)}
WAYS = ("former", "default", "every epoch", "a third", "threefold")


@dataclass(frozen=True)
class Cell:
    data: str
    kernel: str
    prior: str
    way: str


CELLS = tuple(
    Cell(data, kernel, prior, way)
    for names, ways in ((UNSEEN, WAYS[:3]), (SEEN, WAYS))
    for data in names
    for kernel in KERNELS
    for prior in PRIORS
    for way in ways
)


def run(cell: Cell, folder: Path) -> cells.Record:
    """NLL, and accuracy or RMSE, of the test rows; no NLL where the chain left for infinity."""
    train, _, test = around_trained.parts(cell.data)
    classes = np.issubdtype(np.asarray(train.y).dtype, np.integer)
    outputs = int(np.max(train.y)) + 1 if classes else 1
    bnn = bp.BNN(
        bp.nets.MLP((100, 100) if np.ndim(train.x) > 2 else (50,), outputs),
        prior=PRIORS[cell.prior](),
        likelihood=bp.likelihoods.Categorical() if classes else bp.likelihoods.Normal(),
        input_shape=train.x.shape[1:],
    )
    rows, (kernel, rate) = len(train.x), KERNELS[cell.kernel]
    step_size = {"former": 1e-6, "a third": rate / 3 / rows, "threefold": 3 * rate / rows}.get(cell.way)
    epoch = min(-(-rows // BATCH), STEPS // 2 // NETWORKS)
    spacing = {"sample_every": epoch} if cell.way in ("former", "every epoch") else {}
    try:
        fit = bp.fit_sgmcmc(
            jax.random.key(0), bnn, train, num_steps=STEPS, batch_size=min(BATCH, rows), num_samples=NETWORKS,
            kernel=kernel(step_size), progress=False, **spacing,
        )  # fmt: skip
    except bp.DivergedError:
        return {"rows": rows, "classes": int(classes), "diverged": 1}
    found = bp.evaluate(jax.random.key(1), bnn, fit.params, test)
    return {"rows": rows, "classes": int(classes), "nll": found["nll"], "score": found["accuracy" if classes else "rmse"]}


def _table(names: tuple[str, ...], ways: tuple[str, ...]) -> Callable[[cells.Found], str]:
    """NLL and accuracy or RMSE, a row for each chain, a column for each way."""

    def table(found: cells.Found) -> str:
        rows = []
        for data in names:
            for kernel in KERNELS:
                for prior in PRIORS:
                    of = [found.get(Cell(data, kernel, prior, way)) for way in ways]
                    rows.append([data.removeprefix("uci/"), kernel, prior, *map(_shown, of)])
        return cells.table(["data", "kernel", "prior", *ways], rows, "lll" + "r" * len(ways))

    return table


def _shown(one: cells.Record | None) -> str:
    if one is None:
        return cells.MISSING
    return "diverged" if one.get("diverged") else f"{one['nll']:.3f} ({one['score']:.3f})"


TABLES: dict[str, Callable[[cells.Found], str]] = {"unseen": _table(UNSEEN, WAYS[:3]), "seen": _table(SEEN, WAYS)}
STUDY = cells.Study("sampler_defaults", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
