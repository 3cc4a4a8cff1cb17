"""What a comparison says of a trained network: figures on test rows, on corrupted and on foreign ones, its size and speed."""

import functools
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from bayesprune.cells import Record
from bayesprune.core.keys import Key
from bayesprune.core.types import Array, Dataset
from bayesprune.deploy.compact import Compact, compact
from bayesprune.deploy.timed import milliseconds
from bayesprune.lab.entry import Fitted
from bayesprune.model import select
from bayesprune.report import metrics
from bayesprune.report.connected import connected

BATCHES = (1, 128)  # rows of the calls that are timed


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
