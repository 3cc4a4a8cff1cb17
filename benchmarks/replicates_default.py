"""Fits side by side as they come: the standard course beside what `fit_replicates` did without a course.

    python benchmarks/replicates_default.py run            # into runs/replicates_default.jsonl, what is not there
    python benchmarks/tables.py                            # from the results kept here, into the page

Five replications of one data set, each from its own start, in batches of at most 128 rows; an MLP of 100-100 on images, of 50
on tables, whose parts are those of `around_trained`. "former": AdaBelief at .005, sampled weights, a divergence of weight 1
throughout; "default": nothing given. The course was chosen on other data (`course.py`), among them the digits.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import around_trained
import jax
import numpy as np
import optax
import sampler_defaults

import bayesprune as bp
from bayesprune import cells

REPLICATIONS, BATCH = 5, 128
DATA = ("digits", "mnist", "breast_cancer", "iris", "uci/concrete", "uci/wine_quality_red", "diabetes")
STEPS = (3000,)
FORMER = {"optimizer": optax.adabelief(5e-3), "estimator": "weight", "kl_weight": 1.0}
WAYS = {"former": FORMER, "default": {}}


@dataclass(frozen=True)
class Cell:
    data: str
    prior: str
    steps: int
    way: str


CELLS = tuple(Cell(*of, way) for of in itertools.product(DATA, sampler_defaults.PRIORS, STEPS) for way in WAYS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Means over the replications of NLL, and accuracy or RMSE, of the test rows."""
    train, _, test = around_trained.parts(cell.data)
    classes = np.issubdtype(np.asarray(train.y).dtype, np.integer)
    bnn = bp.BNN(
        bp.nets.MLP((100, 100) if np.ndim(train.x) > 2 else (50,), int(np.max(train.y)) + 1 if classes else 1),
        prior=sampler_defaults.PRIORS[cell.prior](),
        likelihood=bp.likelihoods.Categorical() if classes else bp.likelihoods.Normal(),
        input_shape=train.x.shape[1:],
    )
    many = bp.Dataset(*(np.stack([np.asarray(part)] * REPLICATIONS) for part in (train.x, train.y)))
    fits = bp.fit_replicates(
        jax.random.key(0), bnn, many, num_steps=cell.steps, batch_size=min(BATCH, len(train.x)), progress=False,
        **WAYS[cell.way],
    )  # fmt: skip
    found = [bp.evaluate(jax.random.key(1), bnn, {k: v[r] for k, v in fits.params.items()}, test) for r in range(REPLICATIONS)]
    score = "accuracy" if classes else "rmse"
    return {"classes": int(classes)} | {
        name: float(np.mean([one[of] for one in found])) for name, of in (("nll", "nll"), ("score", score))
    }


def table(found: cells.Found) -> str:
    """NLL and accuracy or RMSE, a row for each fit, a column for each way."""
    rows = []
    for data, prior, steps in itertools.product(DATA, sampler_defaults.PRIORS, STEPS):
        of = [found.get(Cell(data, prior, steps, way)) for way in WAYS]
        shown = [cells.MISSING if one is None else f"{one['nll']:.3f} ({one['score']:.3f})" for one in of]
        rows.append([data.removeprefix("uci/"), prior, f"{steps:,}", *shown])
    return cells.table(["data", "prior", "steps", *WAYS], rows, "llr" + "r" * len(WAYS))


STUDY = cells.Study("replicates_default", CELLS, run, {"ways": table})

if __name__ == "__main__":
    cells.main(STUDY)
