"""Which step size `kernels.SGHMCSPL` has by default: held-out rows of five cases, with its sparsifier and without.

    python benchmarks/chain_steps.py run                     # what is not in runs/chain_steps.jsonl yet: ten minutes
    python benchmarks/chain_steps.py table                   # from the results kept here

Prior N(0, 1), batches of 128, four cycles, twelve networks are kept; a sixth of the training rows judges, the test rows are not
looked at. RMSE is in deviations of the targets.
"""

from dataclasses import dataclass
from pathlib import Path

import jax
from course import NETS, NUMBERS, split
from course import Cell as Whole
from fits_judged import sizes, watched

import bayesprune as bp
from bayesprune import cells

STEP_SIZES = (0.01, 0.1, 0.3, 1.0)
CASES = (
    ("digits", "mlp100x2", 1_000),
    ("digits", "mlp100x2", 5_000),
    ("mnist", "mlp200x2", 1_000),
    ("boston_housing", "mlp50", 3_000),
    ("concrete", "mlp50", 3_000),
)


@dataclass(frozen=True)
class Cell:
    data: str
    net: str
    steps: int
    step_size: float
    cut: bool
    seed: int = 0


CELLS = tuple(Cell(*case, step_size, cut) for case in CASES for cut in (False, True) for step_size in STEP_SIZES)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Figures on the rows held out, and what is left."""
    train, other = split(Whole(cell.data, cell.net, "standard", cell.seed, cell.steps, "held_out"))
    likelihood = bp.likelihoods.Normal() if cell.data in NUMBERS else bp.likelihoods.Categorical()
    bnn = bp.BNN(NETS[cell.net], prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=train.x.shape[1:])
    with watched() as told:
        fit = bp.fit_sgmcmc(
            jax.random.key(cell.seed), bnn, train, num_steps=cell.steps, batch_size=128, num_samples=12, progress=False,
            kernel=bp.kernels.SGHMCSPL(step_size=cell.step_size),
            **({"sparsifier": bp.methods.SGHMCSPL(), "every": cell.steps // 20} if cell.cut else {}),
        )  # fmt: skip
    figures = bp.evaluate(jax.random.key(1), bnn, fit.params, other, mask=fit.mask or None, num_samples=12)
    return {**figures, **sizes(bnn, fit.mask), **told}


def by_step_size(found: cells.Found) -> str:
    """NLL, accuracy or RMSE, and the share that is connected, a column for each step size."""
    rows = []
    for case in CASES:
        for cut in (False, True):
            have = [found.get(Cell(*case, step_size, cut)) for step_size in STEP_SIZES]
            rows.append([*map(str, case[:2]), f"{case[2]:,}", "cut" if cut else "whole", *map(_said, have)])
    return cells.table(["data", "net", "steps", "", *(f"step_size={size:g}" for size in STEP_SIZES)], rows, "llrl" + "r" * 4)


def _said(record: cells.Record | None) -> str:
    if record is None:
        return cells.MISSING
    error = f"{record['accuracy']:.3f}" if record.get("accuracy") is not None else f"{record['rmse']:.3f}"
    left = 100 * record["connected"] / record["prunable"]
    return f"{record['nll']:.3f} / {error}" + (f" / {left:.0f} %" if left < 100 else "")


STUDY = cells.Study("chain_steps", CELLS, run, {"by_step_size": by_step_size})

if __name__ == "__main__":
    cells.main(STUDY)
