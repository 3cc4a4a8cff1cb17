"""What a new user tried and could not do, as it is now: nets of others, arguments as people write them, tables as they come.

    python benchmarks/attempts.py run                        # what is not in runs/attempts.jsonl yet; needs the extra `test`
    python benchmarks/attempts.py run --only part=nets
    python benchmarks/tables.py                              # from the results kept here, into the pages

Nets: those of the tests (`tests/model/others`), small ones written after public examples, on the few rows that they are tested
with. The first fit compiles and takes ``steps`` steps; a step's time is a second fit's, which compiles nothing, by its steps.
Arguments: what `fit_svi` makes of each, and in how many calls below its own it says so. Tables: the scikit-learn face with
nothing set. All times are those that the process computed, all threads together: what passed depends on what else runs.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from attempts_of_nets import KEY, NETS, Attempt
from sklearn.model_selection import StratifiedKFold, cross_val_score

import bayesprune as bp
from bayesprune import cells
from sklearn import datasets


@dataclass(frozen=True)
class Cell:
    """``part``: "nets", "arguments" or "tables"; ``steps``: of a fit; 0 of tables: as they come."""

    part: str
    attempt: str
    steps: int = 0


def time_net(attempt: Attempt, steps: int) -> cells.Record:
    bnn, data = attempt.run()

    def fit() -> tuple[Any, float]:
        begin = time.process_time()
        return bp.fit_svi(KEY, bnn, data, num_steps=steps, progress=False), time.process_time() - begin

    (result, first), (_, second) = fit(), fit()
    return {"first_seconds": first, "step_seconds": second / steps, "finite": bool(np.isfinite(result.losses).all())}


def line(likelihood: Any) -> tuple[bp.BNN, bp.Dataset]:
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    return bp.BNN(bp.nets.MLP((8,), 1), prior=bp.priors.Flat(), likelihood=likelihood, input_shape=(4,)), bp.Dataset(x, x[:, 0])


def fitted(**settings: Any) -> Callable[[int], str]:
    def run(steps: int) -> str:
        bnn, data = line(bp.likelihoods.Normal())
        bp.fit_svi(KEY, bnn, data, num_steps=steps, progress=False, **settings)
        return "taken"

    return run


def judged(steps: int) -> str:
    """The figures of a regression under a likelihood of one's own."""
    bnn, data = line(bp.likelihoods.Custom(lambda out: dist.Laplace(out[:, 0], 0.3)))
    fit = bp.fit_svi(KEY, bnn, data, num_steps=steps, progress=False)
    return ", ".join(bp.evaluate(KEY, bnn, fit.params, data, num_samples=10))


DEEP = "an error nineteen calls down"
ARGUMENTS = {
    "kl_weight": Attempt("`kl_weight=0.1`", DEEP, "", fitted(kl_weight=0.1)),
    "callback": Attempt("`callbacks=` one function, no list", DEEP, "", fitted(callbacks=lambda moment: None)),
    "early_stop": Attempt("`early_stop=5`", DEEP, "", fitted(early_stop=5)),
    "class": Attempt("`sparsifier=bp.methods.BMR`, a class", DEEP, "", fitted(sparsifier=bp.methods.BMR)),
    "own_likelihood": Attempt("`evaluate` a regression under a likelihood of one's own", "accuracy 0.0", "", judged),
}


def time_argument(attempt: Attempt, steps: int) -> cells.Record:
    begin, calls = time.process_time(), 0
    try:
        outcome = attempt.run(steps)
    except (TypeError, ValueError) as error:
        outcome, trace = f"`{error}`", error.__traceback__
        while trace is not None:
            calls, trace = calls + 1, trace.tb_next
        calls -= 3  # this function, the line that a user would have written, and `fit_svi`
    return {"outcome": outcome, "calls": calls, "first_seconds": time.process_time() - begin}


def settings(steps: int) -> dict[str, Any]:
    return {"random_state": 0} | ({"num_steps": steps} if steps else {})


def accuracy(load: Callable[..., Any]) -> Callable[[int], dict[str, Any]]:
    def run(steps: int) -> dict[str, Any]:
        x, y = load(return_X_y=True)
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        return {"figure": float(np.mean(cross_val_score(bp.BayesianSparseClassifier(**settings(steps)), x, y, cv=folds)))}

    return run


def chosen(x: np.ndarray, y: np.ndarray, true: np.ndarray, estimator: Any = None, **rule: Any) -> dict[str, Any]:
    support = bp.BayesianFeatureSelector(estimator, random_state=0, **rule).fit(x, y).get_support()
    return {"figure": int(support[true].sum()), "wrong": int(support[~true].sum())}


def wide(steps: int, **estimator: Any) -> dict[str, Any]:
    x, y, slopes = datasets.make_regression(100, 200, n_informative=5, noise=1.0, coef=True, random_state=0)
    return chosen(x, y, slopes != 0, bp.BayesianSparseRegressor(**settings(steps), **estimator) if estimator else None)


def singular(steps: int) -> dict[str, Any]:
    x, y = datasets.make_friedman1(300, 10, noise=1.0, random_state=0)
    sums = x[:, 5:6] + x[:, 6:7]
    return chosen(np.concatenate([x, sums], axis=1), y, np.arange(11) < 5, rule="knockoff", level=0.2)


def first_and_later(steps: int) -> dict[str, Any]:
    x, y = datasets.make_friedman1(2000, 10, noise=1.0, random_state=0)
    seconds = []
    for rows in (slice(0, 1000), slice(1000, 2000)):
        begin = time.process_time()
        bp.BayesianSparseRegressor(**settings(steps)).fit(x[rows], y[rows])
        seconds.append(time.process_time() - begin)
    return {"figure": seconds[0], "later": seconds[1]}


OF_FIVE = "{figure} of the five found, {wrong} others"
TABLES = {
    "breast_cancer": Attempt(
        "`breast_cancer`, accuracy in five folds", "0.940", "{figure:.3f}", accuracy(datasets.load_breast_cancer)
    ),
    "wine": Attempt("`wine`, the same", "0.933", "{figure:.3f}", accuracy(datasets.load_wine)),
    "digits": Attempt("`digits`, the same", "0.894", "{figure:.3f}", accuracy(datasets.load_digits)),
    "wide": Attempt("`make_regression`, 100 rows, 200 columns, five of them true", "none found", OF_FIVE, wide),
    "wide_linear": Attempt("the same, `hidden=()`", "four to five found", OF_FIVE, functools.partial(wide, hidden=())),
    "singular": Attempt("knockoffs, `make_friedman1` and a sum of two columns", "`covariance is singular`", OF_FIVE, singular),
    "seconds": Attempt(
        "a first fit of 1,000 rows, and a later one", "13 s and 2.8 s", "{figure:.1f} s and {later:.1f} s", first_and_later
    ),
}


def time_table(attempt: Attempt, steps: int) -> cells.Record:
    begin = time.process_time()
    figures = attempt.run(steps)
    return figures | {"first_seconds": time.process_time() - begin}


PARTS = {"nets": (NETS, time_net, 200), "arguments": (ARGUMENTS, time_argument, 200), "tables": (TABLES, time_table, 0)}
CELLS = tuple(Cell(part, name, steps) for part, (attempts, _, steps) in PARTS.items() for name in attempts)


def run(cell: Cell, folder: Path) -> cells.Record:
    attempts, timed, _ = PARTS[cell.part]
    jax.clear_caches()  # a first fit is a first one
    return timed(attempts[cell.attempt], cell.steps)


def rows_of(part: str, found: cells.Found, told: Callable[[Attempt, cells.Record], list[str]]) -> list[list[str]]:
    attempts, _, steps = PARTS[part]
    rows = []
    for name, attempt in attempts.items():
        record = found.get(Cell(part, name, steps))
        rows.append([attempt.title, attempt.before, *(["missing"] if record is None else told(attempt, record))])
    return rows


def nets_table(found: cells.Found) -> str:
    def told(attempt: Attempt, record: cells.Record) -> list[str]:
        return [attempt.now, f"{record['first_seconds']:.1f}", f"{1e3 * record['step_seconds']:.2f}"]

    return cells.table(["a net", "before", "now", "first fit, s", "a step, ms"], rows_of("nets", found, told), "lllrr")


def arguments_table(found: cells.Found) -> str:
    def told(attempt: Attempt, record: cells.Record) -> list[str]:
        calls = f", in call {record['calls']} below `fit_svi`" if record["calls"] else ""
        return [record["outcome"] + calls, f"{record['first_seconds']:.2g}"]

    return cells.table(["what was written", "before", "now", "s"], rows_of("arguments", found, told), "lllr")


def tables_table(found: cells.Found) -> str:
    def told(attempt: Attempt, record: cells.Record) -> list[str]:
        return [attempt.now.format(**record), f"{record['first_seconds']:.0f}"]

    return cells.table(["tables, with nothing set", "before", "now", "all of it, s"], rows_of("tables", found, told), "lllr")


STUDY = cells.Study("attempts", CELLS, run, {"nets": nets_table, "arguments": arguments_table, "tables": tables_table})

if __name__ == "__main__":
    cells.main(STUDY)
