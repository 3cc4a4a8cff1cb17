"""Fits within a selection: seeded, judged by rows that they have not seen, and chosen among by them; and what columns are worth
in the better of two models, lasso or network, by which inputs are compared with their copies."""

import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV, MultiTaskLassoCV
from sklearn.model_selection import KFold

from bayesprune.data.scaling import fit_scaling
from bayesprune.report.classification import nll
from bayesprune.sklearn.annealing import is_auto
from bayesprune.sklearn.base import SparseNetwork

UNSURE = 1e-7  # share of the classes that a fold's network gives to each of them, so that none it never saw costs infinity
THIRDS = (1, 2)  # of the rows, each held out once
ROWS = 20_000  # that are predicted at once
FOLDS = 5  # of the lasso's own choice of its penalty


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


class Worth(NamedTuple):
    """``fitted``: the model; ``importances``: (columns,), not negative."""

    fitted: Any
    importances: np.ndarray


def of_columns(rng_key: jax.Array, candidates: Sequence[SparseNetwork], x: np.ndarray, y: np.ndarray) -> Worth:
    """The columns' importances: |slope| in a lasso; in a network, how far its predictions move where a column is permuted.

      Z_j = E |f(x) - f(x with column j of another row)|²

    Of several candidates the last, a network, is fitted to two thirds of the rows; where a lasso predicts the other third
    better, it is looked at in its place. A single candidate is taken as it is. Nothing here knows which columns are copies,
    so that swapping a column with its copy swaps their importances and changes nothing else.
    """
    labels = is_classifier(candidates[-1])
    numbers = _Numbers(y, labels)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(_of_data(rng_key, x, numbers.targets))))
    # One network, of one form: that is what its importances are of.
    network = clone(candidates[-1]).set_params(random_state=_seed(rng), stacking=False)
    third = next(thirds(rng_key, y, labels), None) if len(candidates) > 1 else None
    if third is not None:
        kept, held = third
        tried = clone(network).fit(x[kept], y[kept])
        by_lasso = _lasso(x[kept], numbers.targets[kept], _seed(rng)).predict(x[held])
        if numbers.error(by_lasso, held) <= numbers.error(numbers.predicted(tried, x[held]), held):
            lasso = _lasso(x, numbers.targets, _seed(rng))
            return Worth(lasso, np.linalg.norm(np.atleast_2d(lasso.coef_), axis=0))
        network.set_params(form=tried.form_, held_out=0.0)
    fitted = network.fit(x, y)
    return Worth(fitted, by_permutation(lambda rows: numbers.predicted(fitted, rows), x, rng.permutation(len(x))))


def by_permutation(predict: Callable[[np.ndarray], np.ndarray], x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Mean squared change of predictions, summed over outputs, where one column is that of the rows in another order.

    >>> x = np.array([[1.0, 5.0], [3.0, 6.0]])
    >>> by_permutation(lambda rows: rows[:, :1], x, np.array([1, 0])).tolist()
    [4.0, 0.0]
    """
    given, found = predict(x), np.zeros(x.shape[1])
    size = max(1, ROWS // len(x))
    for first in range(0, x.shape[1], size):
        columns = range(first, min(first + size, x.shape[1]))
        rows = np.repeat(x[None], len(columns), axis=0)
        for place, column in enumerate(columns):
            rows[place, :, column] = x[order, column]
        moved = predict(rows.reshape(-1, x.shape[1])).reshape(len(columns), *given.shape)
        found[list(columns)] = np.square(moved - given).sum(axis=-1).mean(axis=1)
    return found


class _Numbers:
    """What is to be predicted as numbers, ``targets`` (rows, outputs): of labels, 1 for the class and 0 for the others.

    Several outputs are in units of their deviations, ``unit``.
    """

    def __init__(self, y: np.ndarray, labels: bool) -> None:
        self.classes = np.unique(y) if labels else None
        self.targets = np.asarray(y).reshape(len(y), -1) if self.classes is None else y[:, None] == self.classes
        self.targets = self.targets.astype(np.float64)
        self.spread = fit_scaling(self.targets).scale
        self.unit: Any = 1.0
        if not labels and self.targets.shape[1] > 1:  # the largest numbers among the outputs must not be all that counts
            self.unit, self.targets = self.spread, self.targets / self.spread
            self.spread = np.ones_like(self.spread)

    def error(self, predicted: np.ndarray, rows: np.ndarray) -> float:
        """Mean square of the error on these rows, each output in units of its deviation."""
        apart = predicted.reshape(len(rows), -1) - self.targets[rows]
        return float(np.mean(np.square(apart / self.spread)))

    def predicted(self, fitted: SparseNetwork, x: np.ndarray) -> np.ndarray:
        """Predictions, (rows, outputs), as the targets; of labels the probabilities of all classes, unseen ones too."""
        if self.classes is None:
            return np.asarray(fitted.predict(x), np.float64).reshape(len(x), -1) / self.unit
        found = np.zeros((len(x), len(self.classes)))
        found[:, np.searchsorted(self.classes, fitted.classes_)] = fitted.predict_proba(x)
        return found


def _lasso(x: np.ndarray, targets: np.ndarray, seed: int) -> Any:
    """Scikit-learn's, its penalty by cross-validation."""
    folds, one = KFold(min(FOLDS, len(x)), shuffle=True, random_state=seed), targets.shape[1] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return (LassoCV if one else MultiTaskLassoCV)(cv=folds).fit(x, targets[:, 0] if one else targets)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(np.iinfo(np.int32).max))


def _of_data(rng_key: jax.Array, x: np.ndarray, y: np.ndarray) -> jax.Array:
    """A key of its own for these numbers. Of labels their `_Numbers`: the bytes of objects are where they lie in memory.

    Under one and the same start some columns are luckier than their copies, and so on every data set that is given that seed:
    of 1,800 useless columns 55 % beat their copies (`benchmarks/selection.md`).
    """
    seen = zlib.crc32(np.ascontiguousarray(y).tobytes(), zlib.crc32(np.ascontiguousarray(x).tobytes()))
    return jax.random.fold_in(rng_key, np.uint32(seen))
