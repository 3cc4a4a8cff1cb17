"""What held-out rows decide in the estimators' default fit, and what it is worth on new rows: the cut, and the temperature.

    python benchmarks/tabular_held_out.py run                       # what is not in runs/tabular_held_out.jsonl yet
    python benchmarks/tabular_held_out.py run --only data=hastie    # one table

Other draws of simulations than those of ``tabular.py`` and ``tabular_kinds.py``, 2,000 new rows each to be judged by. One
fit a table, the default's of one network (``stacking=False``); mean log density of a new row, nats, of the fit that all rows
were shown: under the hardest cut (inclusion 1/2), under that cut with the temperature, under no cut, and as the fit came out.
By such tables the margin of .02 nats and the spread of log T, 0.3, were chosen.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kinds_of_tables
import numpy as np

import bayesprune as bp
from bayesprune import cells
from bayesprune.sklearn import temperature
from sklearn import datasets

NEW = 2000
Rows = tuple[np.ndarray, np.ndarray]
SIMULATIONS: dict[str, Callable[[int], Rows]] = {
    "moons": lambda seed: datasets.make_moons(280 + NEW, noise=0.3, random_state=seed),
    "circles": lambda seed: datasets.make_circles(280 + NEW, noise=0.15, factor=0.6, random_state=seed),
    "hastie": lambda seed: datasets.make_hastie_10_2(700 + NEW, random_state=seed),
    "clusters": lambda seed: datasets.make_classification(420 + NEW, 20, n_informative=5, n_redundant=5, random_state=seed),
    "clusters_wide": lambda seed: datasets.make_classification(
        210 + NEW, 100, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=seed
    ),
    "friedman1": lambda seed: datasets.make_friedman1(210 + NEW, noise=1.0, random_state=seed),
    "uncorrelated": lambda seed: datasets.make_sparse_uncorrelated(140 + NEW, 10, random_state=seed),
}


@dataclass(frozen=True)
class Cell:
    """One table, one draw of it. ``steps``: of the fit; 0: as it comes."""

    data: str
    seed: int = 1
    steps: int = 0


CELLS = tuple(Cell(data) for data in (*kinds_of_tables.NUMBERS, *kinds_of_tables.CLASSES, *SIMULATIONS))


class Remembering:
    """Keeps what the last fit of an estimator had learned before its cut."""

    def _cut(self, learned: Any, x: np.ndarray, y: np.ndarray, rung: int) -> None:
        self.before = learned, x, y, rung
        super()._cut(learned, x, y, rung)  # type: ignore[misc]


class Regressor(Remembering, bp.BayesianSparseRegressor):
    """The default of numbers."""


class Classifier(Remembering, bp.BayesianSparseClassifier):
    """The default of classes."""


def table(cell: Cell) -> tuple[np.ndarray, np.ndarray, int]:
    """x, y and how many rows of them are to fit."""
    if cell.data in kinds_of_tables.KINDS:
        return tuple(kinds_of_tables.KINDS[cell.data](np.random.default_rng(1000 + cell.seed)))  # type: ignore[return-value]
    x, y = SIMULATIONS[cell.data](1000 + cell.seed)
    return x, np.unique(y, return_inverse=True)[1] if len(np.unique(y)) < 20 else y, len(x) - NEW


def run(cell: Cell, folder: Path) -> cells.Record:
    """Fit once; judge the new rows under several cuts."""
    x, y, train = table(cell)
    labels = bool(np.issubdtype(y.dtype, np.integer))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = {"num_steps": cell.steps, "held_out": 0.2} if cell.steps else {}
        model = (Classifier if labels else Regressor)(stacking=False, random_state=cell.seed, **few).fit(x[:train], y[:train])

    def judged() -> float:
        return float(np.mean(model.log_density(x[train:], y[train:])))

    found = {"rows": train, "form": model.form_, "chosen": judged(), "density": float(model.density_)}
    found |= {"temperature": float(getattr(model, "temperature_", 1.0))}
    learned, x_fit, y_fit, found["rung"] = model.before
    model._cut(learned, x_fit, y_fit, 0)
    found |= {"hard": judged(), "hard_density": float(model.density_)}
    model.params_ = temperature.cool(model.bnn_, model.params_, found["temperature"]) if labels else model.params_
    found["hard_tempered"] = judged()
    model._cut(learned, x_fit, y_fit, len(learned.rungs) - 1)
    return found | {"uncut": judged()}


def decided(found: cells.Found) -> str:
    """Nats a new row, and what is left of the weights."""
    rows = []
    for cell in CELLS:
        record = found.get(cell)
        if record is None:
            rows.append([cell.data, *["missing"] * 8])
            continue
        nats = [f"{record[name]:.3f}" for name in ("hard", "hard_tempered", "uncut", "chosen")]
        left = [f"{record[name]:.3f}" for name in ("hard_density", "density")]
        rows.append([cell.data, str(record["rows"]), *nats, f"{record['temperature']:.2f}", *left])
    heads = ["table", "rows", "cut at 1/2", "and tempered", "not cut", "as chosen", "T", "left at 1/2", "left as chosen"]
    return cells.table(heads, rows, "l" + "r" * (len(heads) - 1))


STUDY = cells.Study("tabular_held_out", CELLS, run, {"decided": decided})

if __name__ == "__main__":
    cells.main(STUDY)
