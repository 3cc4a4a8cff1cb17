"""mBNN's births and deaths of units (Kong et al. 2023) on digits, beside a chain that keeps all.

    python benchmarks/births_of_units.py run       # what is not in runs/births.jsonl yet: seven minutes on one core
    python benchmarks/births_of_units.py table     # from the results kept here

An MLP 64-50-10 under N(0, .2²), 1,437 rows, SGHMC of 20,000 steps of 128 rows, 50 networks of the second half; a birth or
death is proposed every ten steps after 2,000. "lam" has the paper's c, (.05 log n)^5 = .0064, the others the c of their name;
"uniform" draws deaths uniformly, "all rows" has full batches. "cut" is the chain that keeps all, its units cut to twelve by
magnitude, the number that c = 1 leaves. Units are those of the second half, on average. The test set decides nothing.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MapFamily

UNITS, LEFT, STEPS, EVERY, WARM_UP = 50, 12, 20_000, 10, 200
RULES: dict[str, dict[str, Any]] = {
    "all stay": {},
    "lam": {"lam": 0.05},
    "c = .05": {"penalty": 0.05},
    "c = .2": {"penalty": 0.2},
    "c = 1": {"penalty": 1.0},
    "c = 1, uniform": {"penalty": 1.0, "death": "uniform"},
    "c = 1, all rows": {"penalty": 1.0},
    "cut": {},
}


@dataclass(frozen=True)
class Cell:
    """One chain."""

    rule: str
    seed: int = 0
    steps: int = STEPS


CELLS = tuple(Cell(rule, seed) for rule in RULES for seed in range(3))


def run(cell: Cell, folder: Path) -> cells.Record:
    """One chain, and what its networks predict."""
    train, test = bp.data.load("digits")
    bnn = bp.BNN(
        bp.nets.MLP((UNITS,), 10),
        prior=bp.priors.Gaussian(0.2, centred=True),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
        prunable=bp.select.everything,
        posterior=MapFamily(init_loc="he"),
    )
    moves: dict[str, Any] = {}
    if RULES[cell.rule]:
        method = bp.methods.MBNN(warm_up=min(WARM_UP, cell.steps // EVERY // 4), **RULES[cell.rule])
        moves = {"sparsifier": method, "every": EVERY}
    begin = time.perf_counter()
    fit = bp.fit_sgmcmc(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=cell.steps,
        batch_size=None if "all rows" in cell.rule else 128,
        kernel=bp.kernels.SGHMC(step_size=1e-5),
        num_samples=min(50, cell.steps // 4),
        burn_in=cell.steps // 2,
        progress=False,
        **moves,
    )
    record: cells.Record = {"training_seconds": time.perf_counter() - begin, "units": UNITS, "births": 0, "deaths": 0}
    params = fit.params
    if cell.rule == "cut":
        cut = bp.methods.Cut("magnitude", density=LEFT / UNITS, scope="unit")
        params, record["units"] = bp.prune_once(params, cut, program=bnn).params, LEFT
    if moves:
        units = np.rint(UNITS * np.asarray(fit.history["prune/density/Dense_0.kernel"]))
        record["units"] = float(units[len(units) // 2 :].mean())
        for name, what in (("births", "grown"), ("deaths", "pruned")):
            record[name] = int(np.sum(np.asarray(fit.history[f"prune/num_{what}"]) > 0))
    return {**bp.evaluate(jax.random.key(1), bnn, params, test), **record}


def figures(found: cells.Found) -> str:
    """Units, what was accepted, and how well the networks predict."""
    digits = {"units": 1, "births": 0, "deaths": 0, "accuracy": 4, "nll": 3, "ece": 3, "training_seconds": 0}
    rows = []
    for rule in RULES:
        planned = [cell for cell in CELLS if cell.rule == rule]
        have = [found[cell] for cell in planned if cell in found]
        values = [cells.mean_and_spread([record[name] for record in have], places) for name, places in digits.items()]
        rows.append([rule, cells.count(have, planned), *values])
    return cells.table(["chain", "seeds", *list(digits)[:-1], "seconds"], rows, "ll" + "l" * len(digits))


STUDY = cells.Study("births", CELLS, run, {"figures": figures})

if __name__ == "__main__":
    cells.main(STUDY)
