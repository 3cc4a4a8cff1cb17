"""Priors whose sites are the weights: the standard course's rate for all nets and by the fan-in, and scales of two slabs.

    python benchmarks/course_rates.py run                  # into runs/course_rates.jsonl, what is not there
    python benchmarks/tables.py                            # from the results kept here, into the page

`fit_svi` over 5,000 steps of 128 rows with the method of each prior's paper; an MLP of 100-100 on images and of 50 on tables,
whose parts are those of `around_trained`. ".04": `Standard(rate=0.04)`, the rate whatever the net, as it was; "default":
nothing given. The rule was chosen on MNIST, digits, wine and concrete, the scales of the slab by the laboratory's digits; on
the other sets nothing was.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import around_trained
import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells

STEPS, BATCH = 5000, 128
IMAGES = ("digits", "mnist", "fashion_mnist")
TABLES_OF = ("breast_cancer", "iris", "diabetes", "uci/boston_housing", "uci/wine_quality_red", "wine", "uci/concrete")
CHOSEN_ON = ("mnist", "digits", "wine", "uci/concrete")
M = bp.methods
PRIORS = {
    "Gaussian": (bp.priors.Gaussian, M.BMR),
    "GaussianSlab": (bp.priors.GaussianSlab, M.SBNN),
    "the paper's": (lambda: bp.priors.GaussianSlab(math.exp(-6), math.e), M.SBNN),
    "DiracSlab": (bp.priors.DiracSlab, M.SVBNN),
    "ScaleMixture": (bp.priors.ScaleMixture, lambda: M.SNR(0.05)),
}
# Of nets that read as little as these tables the rate is .04 under the others too.
OF_TABLES = ("GaussianSlab", "the paper's", "DiracSlab")
WAYS = {".04": bp.courses.Standard(rate=0.04), "default": bp.courses.Standard()}


@dataclass(frozen=True)
class Cell:
    data: str
    prior: str
    way: str


CELLS = tuple(
    Cell(*of)
    for names, priors in ((TABLES_OF, OF_TABLES), (IMAGES, tuple(PRIORS)))
    for of in itertools.product(names, priors, WAYS)
)


def run(cell: Cell, folder: Path) -> cells.Record:
    """A fit with the method of its prior's paper."""
    prior, method = PRIORS[cell.prior]
    return fitted(cell.data, prior(), STEPS, course=WAYS[cell.way], sparsifier=method())


def fitted(data: str, prior: Any, num_steps: int, **given: Any) -> cells.Record:
    """NLL, and accuracy or RMSE, of the test rows; the share of weights that is left."""
    train, _, test = around_trained.parts(data)
    classes = np.issubdtype(np.asarray(train.y).dtype, np.integer)
    bnn = bp.BNN(
        bp.nets.MLP((100, 100) if data in IMAGES else (50,), int(np.max(train.y)) + 1 if classes else 1),
        prior=prior,
        likelihood=bp.likelihoods.Categorical() if classes else bp.likelihoods.Normal(),
        input_shape=train.x.shape[1:],
    )
    batch = min(BATCH, len(train.x))
    fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=num_steps, batch_size=batch, progress=False, **given)
    found = bp.evaluate(jax.random.key(1), bnn, fit.params, test, mask=fit.mask)
    alive = [np.ravel(mask) for mask in fit.mask.values()]
    return {
        "classes": int(classes),
        "nll": found["nll"],
        "score": found["accuracy" if classes else "rmse"],
        "density": float(np.mean(np.concatenate(alive))) if alive else 1.0,
    }


def _table(names: tuple[str, ...], priors: tuple[str, ...]) -> Callable[[cells.Found], str]:
    """NLL, accuracy or RMSE, and percent of the weights left; a row for each fit, a column for each way."""

    def table(found: cells.Found) -> str:
        rows = []
        for data, prior in itertools.product(names, priors):
            found_of = [shown(found.get(Cell(data, prior, way))) for way in WAYS]
            name = data.removeprefix("uci/") + (" (seen)" if data in CHOSEN_ON else "")
            rows.append([name, prior, *found_of])
        return cells.table(["data", "prior", *WAYS], rows, "ll" + "r" * len(WAYS))

    return table


def shown(one: cells.Record | None) -> str:
    """NLL (accuracy or RMSE; weights left)."""
    return cells.MISSING if one is None else f"{one['nll']:.3f} ({one['score']:.3f}; {100 * one['density']:.1f} %)"


TABLES = {"images": _table(IMAGES, tuple(PRIORS)), "tables": _table(TABLES_OF, OF_TABLES)}
STUDY = cells.Study("course_rates", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
