"""Which inputs matter: `BayesianFeatureSelector()` as it comes, beside the Lasso, on simulations whose truth is known.

    python benchmarks/selection.py run                        # what is not in runs/selection.jsonl yet
    python benchmarks/selection.py run --only data=friedman1  # one simulation
    python benchmarks/selection.py table                      # from the results kept here

"wide": ``make_regression``, 100 rows, 200 columns, 5 of them informative, noise 5. "friedman1": ``make_friedman1``, 300 rows,
10 columns, 5 of them informative, noise 1. Seeds 0 to 9 are reported; the selector's choice between a linear model and a
network was designed on seeds 100 to 102. Power: the share of the informative columns that is found. FDR: the share of false
ones among those selected, 0 where none is, averaged over seeds. Knockoffs at level 0.2: with 5 true columns they find all or
nearly none.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV

import bayesprune as bp
from bayesprune import cells
from sklearn import datasets

SEEDS = 10
Problem = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Cell:
    """One way to select, on one draw of a simulation. ``steps``: of the networks; 0: as they come."""

    data: str
    model: str
    seed: int = 0
    steps: int = 0


def _wide(seed: int) -> Problem:
    x, y, slopes = datasets.make_regression(100, 200, n_informative=5, noise=5.0, coef=True, random_state=seed)
    return x, y, slopes != 0


def _friedman1(seed: int) -> Problem:
    x, y = datasets.make_friedman1(300, noise=1.0, random_state=seed)
    return x, y, np.arange(x.shape[1]) < 5


DATA: dict[str, Callable[[int], Problem]] = {"wide": _wide, "friedman1": _friedman1}
MODELS = {
    "default": "as it comes: the median rule, linear model or network by held-out rows",
    "knockoff": '`rule="knockoff", level=0.2`: a lasso or the default network by held-out rows',
    "network": "the median rule, the network always: the default before",
    "lasso": "`LassoCV`, what is not zero",
}
CELLS = tuple(Cell(data, model, seed) for data in DATA for model in MODELS for seed in range(SEEDS))


def run(cell: Cell, folder: Path) -> cells.Record:
    """Select, and count what is right of it."""
    x, y, truth = DATA[cell.data](cell.seed)
    if cell.model == "lasso":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            chosen, hidden = LassoCV(cv=5).fit((x - x.mean(axis=0)) / x.std(axis=0), y).coef_ != 0, 0
    else:
        rule = {"rule": "knockoff", "level": 0.2} if cell.model == "knockoff" else {}
        given = cell.steps or cell.model == "network"
        network = bp.BayesianSparseRegressor(num_steps=cell.steps or 3000) if given else None
        selector = bp.BayesianFeatureSelector(network, random_state=0, **rule).fit(x, y)
        chosen, hidden = selector.support_, len(getattr(selector.estimator_, "hidden", ()))  # a lasso has none
    false = int((chosen & ~truth).sum())
    return {"power": float(np.mean(chosen[truth])), "fdr": false / max(1, int(chosen.sum())), "network": float(hidden)}


def summary(found: cells.Found) -> str:
    """Means over the seeds."""
    rows = []
    for model, words in MODELS.items():
        row = [model, words]
        for data in DATA:
            records = [found[c] for seed in range(SEEDS) if (c := Cell(data, model, seed)) in found]
            whole = len(records) == SEEDS
            row += [f"{np.mean([r[name] for r in records]):.2f}" if whole else "missing" for name in ("power", "fdr")]
        rows.append(row)
    heads = ["", "", *(f"{data}: {name}" for data in DATA for name in ("power", "FDR"))]
    return cells.table(heads, rows, "ll" + "r" * (len(heads) - 2))


STUDY = cells.Study("selection", CELLS, run, {"summary": summary})

if __name__ == "__main__":
    cells.main(STUDY)
