"""The default of the scikit-learn face on kinds of tables where defaults collapse, and on others that nothing was tuned on.

    python benchmarks/tabular_kinds.py run                        # what is not in runs/tabular_kinds.jsonl yet
    python benchmarks/tabular_kinds.py run --only model=default   # one model

Twelve kinds as simulations (`kinds_of_tables`), 2,000 new rows each to be judged by; forms and courses were chosen by these.
And twelve others: scikit-learn's, its simulations, UCI's (``BAYESPRUNE_DATA``), 70 % of at most 6,000 rows to fit, never more
than 2,000, one split. Every model as it comes: "default" is ours; "linear" ElasticNetCV, of standardised targets, or logistic
regression, of standardised columns; "forest" 300 trees; "boosting" scikit-learn's histogram gradient boosting. The score is
accuracy or R². Coverage is that of 90 %: of ``predict(interval=.9)`` or ``predict_set(level=.9)``, and of the posterior alone.
Seconds are of the processor, compiling included.
"""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kinds_of_tables
import numpy as np
import rivals
import tabular
from sklearn.linear_model import ElasticNetCV, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesprune as bp
from bayesprune import cells
from bayesprune.sklearn import forms

LEVEL, MOST, MOST_TRAIN = 0.9, 6000, 2000
OTHERS = (
    "diabetes", "friedman1", "boston", "concrete", "naval", "power", "protein",
    "breast_cancer", "hastie", "clusters", "logistic_wide", "wine_quality",
)  # fmt: skip
FILES = {"naval": "naval_propulsion_plant", "power": "power_plant", "protein": "protein_tertiary_structure"}
RIVALS = ("linear", "forest", "boosting")
MODELS = ("default", *RIVALS)


@dataclass(frozen=True)
class Cell:
    """One model on one table."""

    data: str
    model: str


CELLS = tuple(Cell(data, model) for model in MODELS for data in (*kinds_of_tables.KINDS, *OTHERS))


def table(data: str) -> kinds_of_tables.Table:
    """The rows of a name; whole numbers in y are labels."""
    if data in kinds_of_tables.KINDS:
        return kinds_of_tables.make(data)
    x, y = tabular._uci(FILES[data])() if data in FILES else tabular.DATA[data]()
    y = np.unique(y, return_inverse=True)[1] if data in tabular.CLASSES else np.asarray(y, float).ravel()
    order = np.random.default_rng(0).permutation(len(x))[:MOST]
    return kinds_of_tables.Table(np.asarray(x, float)[order], y[order], min(MOST_TRAIN, int(0.7 * len(order))))


def make(model: str, labels: bool) -> Any:
    """The unfitted model."""
    if model == "default":
        return (bp.BayesianSparseClassifier if labels else bp.BayesianSparseRegressor)(random_state=0)
    if model == "linear":
        last = LogisticRegression(max_iter=2000) if labels else rivals.in_units(ElasticNetCV(cv=5, max_iter=5000))
        return make_pipeline(StandardScaler(), last)
    return tabular.trees(model, labels)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Fit to the first rows, judge by the others."""
    x, y, train = table(cell.data)
    labels = bool(np.issubdtype(y.dtype, np.integer))
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = make(cell.model, labels).fit(x[:train], y[:train])
    found = {"fit_cpu_seconds": time.process_time() - begin, "score": float(fitted.score(x[train:], y[train:]))}
    found |= {"train_rows": train, "test_rows": len(y) - train}
    if cell.model in RIVALS:
        return found
    found |= {"train_score": float(fitted.score(x[:train], y[:train])), "density": float(fitted.density_)}
    found |= {"log_density": float(np.mean(fitted.log_density(x[train:], y[train:]))), "form": getattr(fitted, "form_", "")}
    return found | (_coverage(fitted, x[train:], y[train:], labels) if getattr(fitted, "_conformity", None) is not None else {})


def _coverage(fitted: Any, x: np.ndarray, y: np.ndarray, labels: bool) -> dict[str, float]:
    if labels:
        sets = fitted.predict_set(x, level=LEVEL)
        return {
            "coverage": float(sets[np.arange(len(y)), np.searchsorted(fitted.classes_, y)].mean()),
            "size": float(sets.sum(axis=1).mean()),
        }
    _, interval = fitted.predict(x, interval=LEVEL)
    own = fitted.predict_interval(x, LEVEL)
    inside = [((ends[:, 0] <= y) & (y <= ends[:, 1])).mean() for ends in (interval, own)]
    width = float(np.mean(interval[:, 1] - interval[:, 0]) / np.std(y))
    return {"coverage": float(inside[0]), "own_coverage": float(inside[1]), "size": width}


def _scores(found: cells.Found, tables: Any) -> str:
    rows = []
    for data in tables:
        records = {model: found.get(Cell(data, model)) for model in MODELS}
        ours = records["default"]
        shown = ["missing" if r is None else f"{r['score']:.3f}" for r in records.values()]
        rivals = [r["score"] for r in (records["linear"], records["forest"]) if r is not None]
        lead = f"{100 * (ours['score'] - max(rivals)):+.1f}" if ours is not None and len(rivals) == 2 else "missing"
        rest = ["missing"] * 2 if ours is None else [ours["form"], f"{ours['fit_cpu_seconds']:.0f}"]
        rows.append([data, *shown, lead, *rest])
    heads = ["table", *MODELS, "ahead of linear and forest by", "form", "CPU s"]
    return cells.table(heads, rows, "l" + "r" * (len(heads) - 1))


def kinds(found: cells.Found) -> str:
    """Scores on new rows of the kinds."""
    return _scores(found, kinds_of_tables.KINDS)


def others(found: cells.Found) -> str:
    """Scores on test rows of the others."""
    return _scores(found, OTHERS)


def intervals(found: cells.Found) -> str:
    """Coverage of 90 %, and the size of intervals, in deviations of y, or of sets, in classes."""
    rows = []
    for data in (*kinds_of_tables.KINDS, *OTHERS):
        record = found.get(Cell(data, "default"))
        if record is None:
            rows.append([data, *["missing"] * 5])
        elif "coverage" in record:
            own = f"{record['own_coverage']:.3f}" if "own_coverage" in record else "–"
            folds = forms.FOLDS if record["train_rows"] < forms.SOME else 1  # a fifth each
            error = 1.645 * np.sqrt(LEVEL * (1 - LEVEL) * (1 / record["test_rows"] + 5 / folds / record["train_rows"]))
            rows.append(
                [data, f"{record['coverage']:.3f}", f"{error:.3f}", own, f"{record['size']:.2f}", str(record["test_rows"])]
            )
    heads = ["table", "coverage", "chance (90 %)", "of the posterior alone", "size", "test rows"]
    return cells.table(heads, rows, "l" + "r" * (len(heads) - 1))


STUDY = cells.Study("tabular_kinds", CELLS, run, {"kinds": kinds, "others": others, "intervals": intervals})

if __name__ == "__main__":
    cells.main(STUDY)
