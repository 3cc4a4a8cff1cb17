"""False discoveries at a stated rate: `BayesianFeatureSelector(fdr=0.2)` on seven simulations, 200 draws of each.

    pip install hidimstat                                          # what it needs beside the project
    python benchmarks/false_discoveries.py run                     # what is not in runs/false_discoveries.jsonl yet: hours
    python benchmarks/false_discoveries.py run --only data=n_less  # one simulation
    python benchmarks/tables.py                                    # from the results kept here, into the page

Ten columns matter in each. Linear, y = sum b_j x_j + noise of 1: "independent", "half", "nine_tenths" have 400 rows of 40
columns, neighbours correlated by 0, .5, .9, b of +-.3 (.5 for the last); "n_less" has 150 rows of 300 columns, b of +-.8,
"n_less_correlated" 100 rows of 200, neighbours correlated by .8, b of +-2.
"nonlinear": 600 rows of 30 columns, a sum of waves, squares, steps and hinges. "interactions": 800 rows of 20 columns, five
products of two, nothing of a single one. Power: the share of the ten that is found; FDR: the mean share of false ones among
those selected.

Models: "ours"; "lasso_copies", the same copies told from inputs by |slope| of `LassoCV`, as is the custom; "lasso_shrunk",
that with correlations drawn towards 0 whatever the numbers; "lasso", what `LassoCV` leaves at more than a tenth of its
largest slope; "hidimstat", its `ModelXKnockoff` at the same level, all else as it comes. A record holds twenty draws, of
"hidimstat" there are three. The rule was mended on draws 0 to 29 of simulations like these (its statistic, the seed that
depends on the data; of columns that outnumber rows the covariance, on draws 0 to 39); the draws 1000 to 1199 are reported.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from selection import Problem
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV

import bayesprune as bp
from bayesprune import cells
from bayesprune.sklearn.rules import covariance

LEVEL, DRAWS, MATTER = 0.2, 20, 10
KEPT = tuple(range(1000, 1200, DRAWS))  # first draws of the records


@dataclass(frozen=True)
class Cell:
    """``first``: of twenty draws."""

    data: str
    model: str
    first: int


def _inputs(rng: np.random.Generator, rows: int, columns: int, correlation: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns, neighbours correlated, and which of them matter."""
    place = np.arange(columns)
    root = np.linalg.cholesky(correlation ** np.abs(place[:, None] - place))
    return rng.standard_normal((rows, columns)) @ root.T, np.sort(rng.choice(columns, MATTER, replace=False))


def linear(seed: int, rows: int = 400, columns: int = 40, correlation: float = 0.0, slope: float = 0.3) -> Problem:
    rng = np.random.default_rng(seed)
    x, used = _inputs(rng, rows, columns, correlation)
    y = x[:, used] @ (slope * rng.choice([-1.0, 1.0], MATTER)) + rng.standard_normal(rows)
    return x, y, np.isin(np.arange(columns), used)


def nonlinear(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    x, used = _inputs(rng, 600, 30)
    z = x[:, rng.permutation(used)]
    y = np.sin(2 * z[:, 0]) + np.abs(z[:, 1]) + z[:, 2] ** 2 / 1.5 + 1.2 * (z[:, 3] > 0.5) + np.cos(2 * z[:, 4])
    y += np.abs(z[:, 5]) - 0.7 * z[:, 6] ** 2 + np.sin(2 * z[:, 7]) + 1.2 * np.maximum(z[:, 8], 0) + 0.6 * z[:, 9]
    return x, y + rng.standard_normal(len(y)), np.isin(np.arange(30), used)


def interactions(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    x, used = _inputs(rng, 800, 20)
    y = (x[:, used[::2]] * x[:, used[1::2]]).sum(axis=1)
    return x, y + rng.standard_normal(len(y)), np.isin(np.arange(20), used)


DATA: dict[str, Callable[[int], Problem]] = {
    "independent": linear,
    "half": lambda seed: linear(seed, correlation=0.5),
    "nine_tenths": lambda seed: linear(seed, correlation=0.9, slope=0.5),
    "n_less": lambda seed: linear(seed, rows=150, columns=300, slope=0.8),
    "n_less_correlated": lambda seed: linear(seed, rows=100, columns=200, correlation=0.8, slope=2.0),
    "nonlinear": nonlinear,
    "interactions": interactions,
}


def ours(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """As it comes; the seed is the same for all draws, as a user's is."""
    return bp.BayesianFeatureSelector(fdr=LEVEL, random_state=0).fit(x, y).support_


def lasso_copies(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    rows = (x - x.mean(axis=0)) / x.std(axis=0)
    return _beaten(rows, y, seed, covariance(rows, "auto"))


def lasso_shrunk(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """The copies of correlations that are drawn towards 0, whatever the numbers of rows and columns."""
    rows = (x - x.mean(axis=0)) / x.std(axis=0)
    return _beaten(rows, y, seed, covariance(rows, float(np.clip(ledoit_wolf_shrinkage(rows), 1e-3, 0.999))))


def _beaten(rows: np.ndarray, y: np.ndarray, seed: int, of: np.ndarray) -> np.ndarray:
    copied = bp.features.gaussian_knockoffs(jax.random.key(seed), rows, rows.mean(axis=0), of)
    both = np.concatenate([rows, copied], axis=1)
    originals, copies = np.split(np.abs(LassoCV(cv=5).fit(both, y).coef_), 2)
    return bp.features.knockoff_select(originals - copies, LEVEL)


def lasso(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    slopes = np.abs(LassoCV(cv=5).fit((x - x.mean(axis=0)) / x.std(axis=0), y).coef_)
    return slopes > 0.1 * slopes.max()


def of_hidimstat(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Its copies are not drawn by the data's seed: they would be of the very numbers that the data are of."""
    from hidimstat import ModelXKnockoff

    knockoffs = ModelXKnockoff(random_state=0)
    try:
        knockoffs.fit_importance(x, y)
    except ValueError:  # its largest penalty is of the largest correlation with its sign: negative where all are
        knockoffs.fit_importance(x, -y)
    return np.asarray(knockoffs.fdr_selection(fdr=LEVEL), bool)


HIDIMSTAT = "hidimstat"
MODELS = {
    "ours": ours,
    "lasso_copies": lasso_copies,
    "lasso_shrunk": lasso_shrunk,
    "lasso": lasso,
    HIDIMSTAT: of_hidimstat,
}
RECORDS = {HIDIMSTAT: 3}  # of others all
CELLS = tuple(Cell(data, model, first) for data in DATA for model in MODELS for first in KEPT[: RECORDS.get(model)])


def run(cell: Cell, folder: Path) -> cells.Record:
    """Power and the share of false ones, of every draw."""
    power, false = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for seed in range(cell.first, cell.first + DRAWS):
            x, y, truth = DATA[cell.data](seed)
            chosen = MODELS[cell.model](x, y, seed)
            power.append(float(np.mean(chosen[truth])))
            false.append(int((chosen & ~truth).sum()) / max(1, int(chosen.sum())))
    return {"power": power, "false": false}


def rates(found: cells.Found) -> str:
    """Mean power, and the mean share of false ones with its standard error."""
    rows = []
    for data in DATA:
        row = [data.replace("_", " ")]
        for model in MODELS:
            have = [found[c] for first in KEPT if (c := Cell(data, model, first)) in found]
            power, false = (np.array([value for record in have for value in record[name]]) for name in ("power", "false"))
            error = false.std(ddof=1) / np.sqrt(len(false)) if have else 0.0
            row += [f"{power.mean():.2f}", f"{false.mean():.3f} ± {error:.3f}"] if have else [cells.MISSING] * 2
            if model == "ours":
                row.append(str(len(power)))
        rows.append(row)
    heads = [
        "",
        "power",
        "FDR",
        "draws",
        "lasso and copies: power",
        "FDR",
        "copies shrunk: power",
        "FDR",
        "lasso, a tenth: power",
        "FDR",
        "hidimstat: power",
        "FDR",
    ]
    return cells.table(heads, rows, "l" + "r" * (len(heads) - 1))


STUDY = cells.Study("false_discoveries", CELLS, run, {"rates": rates})

if __name__ == "__main__":
    cells.main(STUDY)
