"""One cell of a comparison: train, aim at the density, judge; what fails is a record with its reason."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesprune.cells import Record
from bayesprune.core.tracing import ONE_AT_A_TIME
from bayesprune.core.types import Dataset
from bayesprune.data.hold_out import hold_out
from bayesprune.data.loading import load, load_test
from bayesprune.lab import judge
from bayesprune.lab.entry import ANY, Entry, Fitted, described, rivals, tries
from bayesprune.lab.judge import densities
from bayesprune.lab.plan import TRY, Cell, numbers
from bayesprune.lab.task import Task, net_of

NEAR, TRAININGS, WIDEST = 0.1, 3, 4.0


def aimed(train: Callable[[float], Fitted], density: float) -> tuple[Fitted, int]:
    """The training whose connected density is nearest to ``density`` in ratio, and how many there were, at most three.

    The first asks for ``density``; each further one for as much more (up to four times) as the last one's connected weights
    fell short. One that is within a tenth ends it. No figure of the network but its density is looked at.
    """
    asked, found = density, list[tuple[float, Fitted]]()
    while True:
        fitted = train(asked)
        have = densities(fitted)["connected"]
        ratio = density / have if have > 0 else math.inf
        found.append((abs(math.log(ratio)) if ratio < math.inf else math.inf, fitted))
        more = min(1.0, asked * min(ratio, WIDEST))
        if found[-1][0] <= math.log(1 + NEAR) or more == asked or len(found) == TRAININGS:
            return min(found, key=lambda one: one[0])[1], len(found)
        asked = more


HELD_OUT, SPLIT = 1 / 6, 0


def rows_of(cell: Cell, data_dir: str | None) -> tuple[Dataset, Dataset]:
    """Rows to train on, and rows that judge. Raises `ValueError` where the training set has fewer than the cell's."""
    train, test = load(cell.data, data_dir, pad=net_of(cell.net).pad(cell.data))
    if cell.rows > len(train.y):
        raise ValueError(f"rows={cell.rows:,} is more than the {len(train.y):,} that {cell.data} trains on: give 0 for all.")
    if cell.rows:
        order = np.random.RandomState(SPLIT).permutation(len(train.y))[: cell.rows]
        train = Dataset(train.x[order], train.y[order])
    return hold_out(train, HELD_OUT, SPLIT) if cell.part == TRY else (train, test)


def run(cell: Cell, folder: Path, data_dir: str | None = None) -> Record:
    """The record of a cell. Whatever goes wrong in it is its reason, "failed", and no figure."""
    with ONE_AT_A_TIME:
        try:
            return {"failed": ""} | _run(cell, data_dir)
        except Exception as error:  # one row of many: the others go on
            return {"failed": " ".join(f"{type(error).__name__}: {error}".split())}


def _run(cell: Cell, data_dir: str | None) -> Record:
    train, test = rows_of(cell, data_dir)
    task = Task(train, net_of(cell.net).make(int(np.max(train.y)) + 1), cell.steps, cell.batch_size)
    entry: Entry = tries(rivals()[cell.method], cell.trial + 1)[-1]
    fit_key, judge_key = jax.random.split(jax.random.key(cell.seed))
    begin, cpu = time.perf_counter(), time.process_time()
    times: dict[int, float] = {}  # of trainings, which `aimed` holds until it has chosen, by their identity

    def once(density: float) -> Fitted:
        since = time.perf_counter()
        fitted = entry.fit(fit_key, task, density)
        jax.block_until_ready(fitted.params)
        times[id(fitted)] = time.perf_counter() - since
        return fitted

    aim = entry.gives == ANY and cell.part != TRY
    fitted, trainings = aimed(once, cell.density) if aim else (once(cell.density or 1.0), 1)
    cost = {"training_seconds": times[id(fitted)], "all_seconds": time.perf_counter() - begin}
    cost |= {"cpu_seconds": time.process_time() - cpu, "trainings": trainings}
    found, probs = judge.figures(judge_key, fitted, test)
    about = {"setting": described(entry)} | found | judge.densities(fitted) | cost
    return about if cell.part == TRY else about | _beyond(cell, judge_key, fitted, task, test, probs, data_dir)


def _beyond(
    cell: Cell, rng_key: jax.Array, fitted: Fitted, task: Task, test: Dataset, probs: np.ndarray, data_dir: str | None
) -> Record:
    """Foreign rows, corrupted rows, and the compact network."""
    keys = jax.random.split(rng_key, 4)
    if cell.ood == "permuted":
        foreign: Any = judge.permuted(keys[0], test.x)
    else:
        foreign = load_test(cell.ood, data_dir, like=cell.data, pad=net_of(cell.net).pad(cell.data)).x
    spread = float(np.std(np.asarray(task.train.x)))
    return {
        "auroc": judge.metrics.ood_auroc(probs, fitted.probs(keys[1], foreign)),
        **judge.on_corrupted(keys[2], fitted, test, numbers(cell.noise), spread),
        **judge.shipped(keys[3], fitted, test.x),
    }
