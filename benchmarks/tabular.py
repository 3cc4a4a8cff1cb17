"""The scikit-learn face as it comes, over twenty sets of tables, beside L1-regression, ARD, a random forest and boosted trees.

    python benchmarks/tabular.py run                          # what is not in runs/tabular.jsonl yet
    python benchmarks/tabular.py run --only data=wine         # one set
    python benchmarks/tabular.py table                        # from the results kept here

Sets: those that ship with scikit-learn, its simulations, one sparse logistic regression, and four of UCI (``BAYESPRUNE_DATA``).
Three splits, 70 : 30, stratified by class; every model at its defaults, but for a forest's 300 trees and L1-logistic
regression, which chooses among 5 strengths by 3 folds (scikit-learn: 10 by 5). The scores are accuracy and R². NLL is in nats
a row, of real targets in units of the training rows' deviation; what has no law of y is given the deviation of its errors out
of fold. Annealing was designed on folds of the training rows of ten of the sets, the forms of the net on other tables
(``tabular_kinds.py``).
Calibration: ECE by quantiles; of real targets the distance of the 90 % interval's coverage from 90 %.
"""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm, rankdata
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ARDRegression, LassoCV, LogisticRegressionCV
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesprune as bp
from bayesprune import cells
from bayesprune.report.calibration import ece_quantile
from sklearn import datasets

SPLITS, FLOOR = 3, 1e-4
Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Cell:
    """One model on one set. ``steps``: of ours; 0: as it comes."""

    data: str
    model: str
    steps: int = 0


def _logistic() -> Rows:
    rng = np.random.default_rng(0)
    x, slopes = rng.standard_normal((300, 100)), np.zeros(100)
    slopes[:5] = 2.0, -2.0, 2.0, -2.0, 2.0
    return x, (rng.random(300) < 1 / (1 + np.exp(-x @ slopes))).astype(int)


def _uci(name: str) -> Callable[[], Rows]:
    def load() -> Rows:
        train, test = bp.data.load(f"uci/{name}", standardise=False)
        return np.concatenate([train.x, test.x]), np.concatenate([train.y, test.y])

    return load


def _good_wine() -> Rows:
    x, y = _uci("wine_quality_red")()
    return x, (y >= 6).astype(int)


CLASSES: dict[str, Callable[[], Rows]] = {
    "breast_cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "moons": lambda: datasets.make_moons(400, noise=0.3, random_state=0),
    "circles": lambda: datasets.make_circles(400, noise=0.15, factor=0.6, random_state=0),
    "hastie": lambda: datasets.make_hastie_10_2(1000, random_state=0),
    "clusters": lambda: datasets.make_classification(600, 20, n_informative=5, n_redundant=5, flip_y=0.02, random_state=0),
    "clusters_wide": lambda: datasets.make_classification(
        300, 100, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=1
    ),
    "logistic_wide": _logistic,
    "wine_quality": _good_wine,
}
NUMBERS: dict[str, Callable[[], Rows]] = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "friedman1": lambda: datasets.make_friedman1(300, noise=1.0, random_state=0),
    "friedman2": lambda: datasets.make_friedman2(300, noise=100.0, random_state=0),
    "friedman3": lambda: datasets.make_friedman3(300, noise=0.1, random_state=0),
    "regression_wide": lambda: datasets.make_regression(150, 200, n_informative=5, noise=5.0, random_state=0),
    "uncorrelated": lambda: datasets.make_sparse_uncorrelated(200, 10, random_state=0),
    "boston": _uci("boston_housing"),
    "concrete": _uci("concrete"),
    "yacht": _uci("yacht"),
}
DATA = CLASSES | NUMBERS
MODELS = {"classes": ("default", "l1", "forest", "boosting"), "numbers": ("default", "l1", "ard", "forest", "boosting")}
CELLS = (
    *(Cell(data, model) for data in CLASSES for model in MODELS["classes"]),
    *(Cell(data, model) for data in NUMBERS for model in MODELS["numbers"]),
)


def make(cell: Cell, num_classes: int) -> Any:
    """The unfitted model of a cell; ``num_classes`` is 0 for real targets."""
    if cell.model == "default":
        face = bp.BayesianSparseClassifier if num_classes else bp.BayesianSparseRegressor
        return face(random_state=0, **({"num_steps": cell.steps} if cell.steps else {}))
    if cell.model in ("forest", "boosting"):
        return trees(cell.model, num_classes > 0)
    if not num_classes:
        return make_pipeline(StandardScaler(), LassoCV(cv=5) if cell.model == "l1" else ARDRegression())
    with warnings.catch_warnings():
        one = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=5, cv=3, penalty="l1", solver="liblinear"))
    return one if num_classes == 2 else OneVsRestClassifier(one)


def trees(model: str, labels: bool) -> Any:
    """A forest of 300 trees, or boosted trees as they come, for labels or numbers."""
    if model == "forest":
        return (RandomForestClassifier if labels else RandomForestRegressor)(300, random_state=0)
    return (HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor)(random_state=0)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Fit on three splits; the mean of their scores on the test rows."""
    x, y = DATA[cell.data]()
    labels = cell.data in CLASSES
    classes = np.unique(y) if labels else np.zeros(0)
    found: dict[str, list[float]] = {"score": [], "nll": [], "calibration": [], "fit_seconds": [], "inputs": []}
    for split in range(SPLITS):
        halves = train_test_split(x, y, test_size=0.3, random_state=split, stratify=y if labels else None)
        x_train, x_test, y_train, y_test = halves
        begin = time.perf_counter()
        fitted = _fit(make(cell, len(classes)), x_train, y_train)
        found["fit_seconds"].append(time.perf_counter() - begin)
        judge = _of_classes if labels else _of_numbers
        for name, value in judge(fitted, x_train, y_train, x_test, y_test).items():
            found[name].append(value)
        if cell.model == "default":
            found["inputs"].append(float(np.mean(fitted.used_features_)))
    means = {name: float(np.mean(values)) for name, values in found.items() if values and name != "fit_seconds"}
    return means | {"first_fit_seconds": found["fit_seconds"][0], "later_fit_seconds": min(found["fit_seconds"][1:])}


def _fit(model: Any, x: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return model.fit(x, y)


def _of_classes(fitted: Any, x_train: Any, y_train: Any, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    probs = np.clip(fitted.predict_proba(x), FLOOR, 1.0)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = np.searchsorted(fitted.classes_, y)
    return {
        "score": float(np.mean(probs.argmax(axis=1) == labels)),
        "nll": float(-np.mean(np.log(probs[np.arange(len(y)), labels]))),
        "calibration": float(ece_quantile(probs, labels)),
    }


def _of_numbers(fitted: Any, x_train: np.ndarray, y_train: np.ndarray, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    last = fitted[-1] if hasattr(fitted, "steps") else fitted
    if isinstance(last, bp.BayesianSparseRegressor | ARDRegression):
        mean, std = fitted.predict(x, return_std=True)
    else:
        out_of_fold = cross_val_predict(fitted, x_train, y_train, cv=KFold(5, shuffle=True, random_state=0))
        mean, std = fitted.predict(x), np.full(len(y), np.std(y_train - out_of_fold))
    inside = np.abs(y - mean) <= norm.ppf(0.95) * std
    return {
        "score": float(1 - np.mean((y - mean) ** 2) / np.var(y)),
        "nll": float(-np.mean(norm.logpdf(y, mean, std)) - math.log(y_train.std())),
        "calibration": float(abs(np.mean(inside) - 0.9)),
    }


def _mean(found: cells.Found, sets: Any, model: str, name: str) -> str:
    records = [found[Cell(data, model)] for data in sets if Cell(data, model) in found]
    return f"{np.mean([record[name] for record in records]):.3f}" if len(records) == len(sets) else "missing"


def summary(found: cells.Found) -> str:
    """Means over the sets, and the mean place of each model among all that take a set."""
    rows = []
    for model in MODELS["numbers"]:
        row = [model]
        for sets, kind in ((CLASSES, "classes"), (NUMBERS, "numbers")):
            known = model in MODELS[kind]
            row += [_mean(found, sets, model, name) if known else "–" for name in ("score", "nll", "calibration")]
            row.append(_place(found, sets, model, MODELS[kind]) if known else "–")
        rows.append(row)
    heads = ["model", "accuracy", "NLL", "ECE", "place", "R²", "NLL of numbers", "coverage off by", "place"]
    return cells.table(heads, rows, "l" + "r" * (len(heads) - 1))


def _place(found: cells.Found, sets: Any, model: str, models: tuple[str, ...]) -> str:
    """The mean over the sets of the place by score: 1 is the best; equals share theirs."""
    places = []
    for data in sets:
        if any(Cell(data, other) not in found for other in models):
            return "missing"
        scores = [-found[Cell(data, other)]["score"] for other in models]
        places.append(rankdata(scores)[models.index(model)])
    return f"{np.mean(places):.2f}"


def by_set(found: cells.Found) -> str:
    """Scores on the test rows, set by set, and the seconds of a later fit by default, its programs compiled."""
    rows = []
    for data in DATA:
        kind = "classes" if data in CLASSES else "numbers"
        row = [data]
        for model in MODELS["numbers"]:
            record = found.get(Cell(data, model))
            row.append("–" if model not in MODELS[kind] else "missing" if record is None else f"{record['score']:.3f}")
        ours = found.get(Cell(data, "default"))
        rows.append([*row, "missing" if ours is None else f"{ours['later_fit_seconds']:.0f}"])
    return cells.table(["set", *MODELS["numbers"], "seconds"], rows, "l" + "r" * (len(MODELS["numbers"]) + 1))


STUDY = cells.Study("tabular", CELLS, run, {"summary": summary, "sets": by_set})

if __name__ == "__main__":
    cells.main(STUDY)
