"""One cell of a comparison: train, aim at the density, judge; what fails is a record with its reason.

A network is judged by figures on test rows, on corrupted and on foreign ones, and by its size and speed.
"""

import functools
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesprune.cells import Record
from bayesprune.core.keys import Key
from bayesprune.core.tracing import ONE_AT_A_TIME
from bayesprune.core.types import Array, Dataset
from bayesprune.data.hold_out import hold_out
from bayesprune.data.loading import load, load_test
from bayesprune.deploy.compact import Compact, compact
from bayesprune.deploy.engines.measure import milliseconds
from bayesprune.lab.entry import ANY, Entry, Fitted, described, rivals, tries
from bayesprune.lab.plan import TRY, Cell, numbers
from bayesprune.lab.task import Task, net_of
from bayesprune.model import select
from bayesprune.report import metrics
from bayesprune.report.connected import connected

NEAR, TRAININGS, WIDEST = 0.1, 3, 4.0
HELD_OUT, SPLIT = 1 / 6, 0
BATCHES = (1, 128)  # rows of the calls that are timed


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
    found, probs = figures(judge_key, fitted, test)
    about = {"setting": described(entry)} | found | densities(fitted) | cost
    return about if cell.part == TRY else about | _beyond(cell, judge_key, fitted, task, test, probs, data_dir)


def _beyond(
    cell: Cell, rng_key: jax.Array, fitted: Fitted, task: Task, test: Dataset, probs: np.ndarray, data_dir: str | None
) -> Record:
    """Foreign rows, corrupted rows, and the compact network."""
    keys = jax.random.split(rng_key, 4)
    if cell.ood == "permuted":
        foreign: Any = permuted(keys[0], test.x)
    else:
        foreign = load_test(cell.ood, data_dir, like=cell.data, pad=net_of(cell.net).pad(cell.data)).x
    spread = float(np.std(np.asarray(task.train.x)))
    return {
        "auroc": metrics.ood_auroc(probs, fitted.probs(keys[1], foreign)),
        **on_corrupted(keys[2], fitted, test, numbers(cell.noise), spread),
        **shipped(keys[3], fitted, test.x),
    }


def figures(rng_key: Key, fitted: Fitted, test: Dataset) -> tuple[Record, np.ndarray]:
    """Accuracy, NLL, Brier score and the three calibration errors; and the class probabilities that they are of."""
    probs = fitted.probs(rng_key, test.x)
    return dict(metrics.classification_summary(probs, np.asarray(test.y))), probs


def on_corrupted(rng_key: Key, fitted: Fitted, test: Dataset, sizes: Sequence[float], spread: float) -> Record:
    """Accuracy and NLL with Gaussian noise on the inputs, of so many times ``spread``, their standard deviation."""
    made: Record = {}
    for number, size in enumerate(sizes):
        noise, draw = jax.random.split(jax.random.fold_in(rng_key, number))
        x = np.asarray(test.x) + size * spread * np.asarray(jax.random.normal(noise, np.shape(test.x)))
        probs = fitted.probs(draw, x.astype(np.float32))
        made[f"accuracy, noise {size:g}"] = metrics.accuracy(probs, test.y)
        made[f"nll, noise {size:g}"] = metrics.nll(probs, test.y)
    return made


def permuted(rng_key: Key, x: np.ndarray) -> np.ndarray:
    """Every row with its inputs in an order of its own: foreign rows of the same values."""
    flat = np.asarray(x).reshape(len(x), -1)
    order = np.argsort(np.asarray(jax.random.uniform(rng_key, flat.shape)), axis=1)
    return np.take_along_axis(flat, order, axis=1).reshape(np.shape(x))


def densities(fitted: Fitted) -> dict[str, float]:
    """Shares of all kernels' weights, whatever of them a method may prune: alive, and alive and connected."""
    kernels = [spec for spec in fitted.bnn.layout if select.kernels(spec.path, spec.shape)]
    mask = {str(spec.path): np.asarray(fitted.mask.get(str(spec.path), np.ones(spec.shape, bool))) for spec in kernels}
    used = connected(fitted.bnn, mask) if fitted.mask else mask
    counted = metrics.sparsity_report(mask, connected=used)
    return {"alive": counted["prunable"]["density"], "connected": counted["connected"]["prunable"]["density"]}


def shipped(rng_key: Key, fitted: Fitted, x: Array) -> Record:
    """Bytes of the compact network's file, and milliseconds of calls at its mean; of an ensemble those of all members.

    "kept" says how its weights are kept: as a posterior, or, where that is no independent Gaussian, as drawn networks. Where
    there is no compact network it says why.
    """
    one: Record = {}
    for params in (fitted.params, *fitted.members):
        try:
            small, kept = _compact(rng_key, fitted, params)
        except ValueError as refused:  # the figures hold all the same
            return {"kept": " ".join(str(refused).split())}
        with tempfile.TemporaryDirectory() as folder:
            small.save(os.path.join(folder, "net.bayesprune"))
            part: Record = {"bytes": os.path.getsize(os.path.join(folder, "net.bayesprune"))}
        for rows in BATCHES:
            batch = np.resize(np.asarray(x)[:rows], (rows, *np.shape(x)[1:]))
            part[f"ms, {rows} row{'s' * (rows > 1)}"] = milliseconds(functools.partial(small.predict, batch))[0]
        one = {"kept": kept} | {name: value + one.get(name, 0) for name, value in part.items()}
    return one


def _compact(rng_key: Key, fitted: Fitted, params: dict[str, Any]) -> tuple[Compact, str]:
    try:
        return compact(fitted.bnn, params, fitted.mask or None), "posterior"
    except ValueError:
        draws = fitted.num_draws
        return compact(fitted.bnn, params, fitted.mask or None, rng_key=rng_key, num_draws=draws), f"{draws} draws"
