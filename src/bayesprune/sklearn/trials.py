"""Fits within a selection: seeded, judged by rows that they have not seen, and chosen among by them."""

from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier

from bayesprune.data.scaling import fit_scaling
from bayesprune.report.classification import nll
from bayesprune.sklearn.annealing import is_auto
from bayesprune.sklearn.base import SparseNetwork

UNSURE = 1e-7  # share of the classes that a fold's network gives to each of them, so that none it never saw costs infinity
THIRDS = (1, 2)  # of the rows, each held out once


def fit_seeded(estimator: SparseNetwork, rng_key: jax.Array, x: np.ndarray, y: np.ndarray) -> SparseNetwork:
    """A fitted clone, with the seed of a key.

    Under "auto", the prior for prediction, every second weight is there a priori, and of an input some weight nearly always:
    to select, the sparse prior is taken in its place. Annealing is for prediction too, as it keeps weights that share an
    effect: there is none under "auto". And inputs are to be chosen by one net that reads nothing else.
    """
    seed = int(jax.random.randint(rng_key, (), 0, np.iinfo(np.int32).max))
    of_selection = {"prior": "dirac_slab", "annealing": 0, "form": "plain", "held_out": 0.0}
    auto = {name: value for name, value in of_selection.items() if is_auto(getattr(estimator, name))}
    return clone(estimator).set_params(random_state=seed, **auto).fit(x, y)


def judge_of(estimator: SparseNetwork, y: np.ndarray) -> tuple[np.ndarray, Callable[..., float]]:
    """Targets as a judge takes them, and the judge: (fitted, x, y) -> loss, lower is better."""
    return _labels(y) if is_classifier(estimator) else _values(y)


def best_of(rng_key: jax.Array, candidates: Sequence[SparseNetwork], x: np.ndarray, y: np.ndarray) -> SparseNetwork:
    """The candidate that predicts held-out rows best, in two fits to two thirds of them; the last where rows are too few."""
    pairs = list(thirds(rng_key, y, is_classifier(candidates[0]))) if len(candidates) > 1 else []
    if not pairs:
        return candidates[-1]
    targets, loss = judge_of(candidates[0], y)

    def held_out(estimator: SparseNetwork) -> float:
        fits = ((fit_seeded(estimator, rng_key, x[kept], targets[kept]), held) for kept, held in pairs)
        return sum(loss(fitted, x[held], targets[held]) for fitted, held in fits)

    return min(candidates, key=held_out)


def thirds(rng_key: jax.Array, y: np.ndarray, labels: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs (kept, held out) of equal sizes, of every class its share; none where that leaves too few rows of one."""
    smallest = np.unique(y, return_counts=True)[1].min() if labels else len(y) // 3
    if smallest < 3:
        return
    order = np.random.default_rng(np.asarray(jax.random.key_data(rng_key))).permutation(len(y))
    if labels:
        order = order[np.argsort(np.unique(y, return_inverse=True)[1][order], kind="stable")]
    for first in THIRDS:
        held = order[first::3][: len(order) // 3]
        yield np.setdiff1d(order, held), held


def _values(y: np.ndarray) -> tuple[np.ndarray, Callable[..., float]]:
    """Targets as they are, and the mean squared error in units of their deviation, so that several outputs count alike."""
    values = np.asarray(y)
    scale = fit_scaling(values).scale
    return values, lambda fitted, x, y: float(np.mean(((fitted.predict(x) - y) / scale) ** 2))


def _labels(y: np.ndarray) -> tuple[np.ndarray, Callable[..., float]]:
    """Labels counted from 0, and the negative log probability, nats per row; a fold need not show every class."""
    classes, labels = np.unique(y, return_inverse=True)

    def loss(fitted: BaseEstimator, x: np.ndarray, y: np.ndarray) -> float:
        probabilities = np.full((len(x), len(classes)), UNSURE)
        probabilities[:, fitted.classes_] += fitted.predict_proba(x)
        return nll(probabilities / probabilities.sum(axis=1, keepdims=True), y)

    return labels, loss
