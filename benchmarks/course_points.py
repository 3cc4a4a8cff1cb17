"""The standard course's rate where the posterior is of points (`posterior="map"`), by held-out rows of fifteen cases.

    python benchmarks/course_points.py run                     # what is not in runs/course_points.jsonl yet: half an hour
    python benchmarks/course_points.py run --only data=concrete
    python benchmarks/course_points.py table                   # from the results kept here

The standard course with nothing changed but its rate, under a Gaussian prior, without a sparsifier or by magnitude, gradually
to five per cent. Networks and the rows held out are those of `course.py`; the test rows are not looked at.
"""

from dataclasses import dataclass
from pathlib import Path

import course
import jax
import numpy as np
from fits_judged import judged, loss_of, watched

import bayesprune as bp
from bayesprune import cells

ACTS = 50  # of about 85: the survivors train on
RATES = (0.002, 0.005, 0.01, 0.02, 0.04)
CASES = (  # data, net, steps, seeds, and the method where there is one
    ("digits", "mlp100x2", 500, 3),
    ("digits", "mlp100x2", 5_000, 3),
    ("mnist", "mlp200x2", 2_000, 2),
    ("fashion_mnist", "lenet5", 468, 2),
    ("fashion_mnist", "lenet5", 2_000, 2),
    ("fashion_mnist", "mlp400x5", 2_000, 2),
    ("fashion_mnist", "resnet", 1_000, 1),
    ("fashion_mnist", "vit", 1_000, 1),
    ("boston_housing", "mlp50", 2_000, 3),
    ("concrete", "mlp50", 2_000, 3),
    ("power_plant", "mlp50", 2_000, 2),
    ("yacht", "mlp50", 2_000, 3),
    ("digits", "mlp100x2", 5_000, 3, "magnitude"),
    ("mnist", "mlp200x2", 2_000, 2, "magnitude"),
    ("fashion_mnist", "lenet5", 2_000, 2, "magnitude"),
)


@dataclass(frozen=True)
class Cell:
    """One fit of points."""

    data: str
    net: str
    steps: int
    seed: int
    rate: float
    method: str = "none"


CELLS = tuple(
    Cell(data, net, steps, seed, rate, *method)
    for data, net, steps, seeds, *method in CASES
    for seed in range(seeds)
    for rate in RATES
)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Figures on the held-out rows."""
    train, other = course.split(course.Cell(cell.data, cell.net, "standard", cell.seed, cell.steps, "held_out"))
    bnn = bp.BNN(
        course.NETS[cell.net],
        prior=bp.priors.Gaussian(),
        likelihood=bp.likelihoods.Normal() if cell.data in course.NUMBERS else bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
        posterior="map",
    )
    given = {
        "num_steps": cell.steps,
        "batch_size": course.BATCH,
        "progress": False,
        "course": bp.courses.Standard(rate=cell.rate),
    }
    if cell.method == "magnitude":
        given["sparsifier"] = bp.methods.Magnitude(bp.schedules.Cubic(0.05, 0, ACTS))
    with watched() as told:
        fit = bp.fit_svi(jax.random.key(cell.seed), bnn, train, **given)
    return {"loss": loss_of(fit), **judged(bnn, fit.params, fit.mask, other), **told}


def by_rate(found: cells.Found) -> str:
    """Held-out accuracy or RMSE for each rate; the last rows: by how much the NLL is above that of the case's best rate."""
    rows, behind = [], {rate: [] for rate in RATES}
    for data, net, steps, seeds, *method in CASES:
        columns, nlls = [], dict[float, float]()
        for rate in RATES:
            have = [found[cell] for seed in range(seeds) if (cell := Cell(data, net, steps, seed, rate, *method)) in found]
            error = "accuracy" if have and have[0].get("accuracy") is not None else "rmse"
            columns.append(cells.mean_and_spread([record[error] for record in have], 4))
            nlls[rate] = np.mean([record["nll"] for record in have]) if have else np.inf
        for rate, nll in nlls.items():
            behind[rate].append(nll - min(nlls.values()))
        rows.append([data, net, *(method or ["–"]), str(steps), str(seeds), *columns])
    for name, of in (("NLL above the best rate's: mean", np.mean), ("largest", np.max)):
        rows.append([name, "", "", "", "", *(f"{of(values):.3f}" for values in behind.values())])
    return cells.table(
        ["data", "net", "method", "steps", "seeds", *(f"rate {rate}" for rate in RATES)], rows, "lllrr" + "l" * len(RATES)
    )


STUDY = cells.Study("course_points", CELLS, run, {"by_rate": by_rate})

if __name__ == "__main__":
    cells.main(STUDY)
