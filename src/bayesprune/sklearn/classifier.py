"""The sparse Bayesian network as a scikit-learn classifier."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from bayesprune.core.checks import check_level
from bayesprune.core.numbers import without_mask
from bayesprune.infer.predict import predict_draws
from bayesprune.model.likelihoods import Categorical, Ordinal
from bayesprune.sklearn import densities, network, temperature
from bayesprune.sklearn.base import SparseNetwork
from bayesprune.sklearn.choosing import Chosen, Judged
from bayesprune.sklearn.conformal import agreed, classes_within, known, scores_of_labels, threshold
from bayesprune.sklearn.fits import refuse_others, undone_if_it_fails
from bayesprune.sklearn.forms import THRESHOLDS
from bayesprune.sklearn.frames import is_frame
from bayesprune.sklearn.mixture import Member, Mixture
from bayesprune.sklearn.thresholds import FoundByRows, Thresholds, fit_thresholds


class BayesianSparseClassifier(ClassifierMixin, SparseNetwork):
    """A sparse Bayesian multi-layer perceptron for class labels, two or more, of any type.

    A `BNN`, with softmax outputs by default, is fitted by `fit_svi` to standardised columns and cut once; class probabilities
    are averages over networks drawn from the posterior. What else the network reads is chosen by held-out rows.

    X, args and attributes are those of `BayesianSparseRegressor`, but for ``likelihood``: "categorical", which "auto" is;
    "ordinal", for classes whose sorted order means something, such as grades; or an object of `bayesprune.likelihoods`, such
    as ``Categorical`` with class weights, which counts the classes in their sorted order. And ``classes_``: the labels, sorted.

    Example:
        >>> import numpy as np, bayesprune as bp
        >>> x = np.random.default_rng(0).standard_normal((60, 2))
        >>> y = np.where(x[:, 0] > 0, "up", "down")
        >>> model = bp.BayesianSparseClassifier(hidden=(), num_steps=300, num_samples=10, random_state=0).fit(x, y)
        >>> model.predict([[3.0, 0.0]]).tolist(), model.predict_proba(x).shape
        (['up'], (60, 2))

    Source: as `BayesianSparseRegressor`.
    """

    classes_: np.ndarray

    @undone_if_it_fails
    def fit(self, X: ArrayLike | Any, y: ArrayLike | Any, **others: object) -> "BayesianSparseClassifier":
        """Fit to X (rows, features), in any units, and labels y (rows,); by nothing else: ``others`` are refused."""
        refuse_others(others, " Classes are weighted by likelihood=bp.likelihoods.Categorical(class_weights=(1.0, 5.0)).")
        X, y = without_mask(X, "X"), without_mask(y, "y")
        check_labels(y)
        check_order(y, self.likelihood)
        x, y = self._read(X, y, labels=True)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least two classes, got one class only: {self.classes_.tolist()[0]!r} in every row."
            )
        if self.likelihood == "ordinal" and len(self.classes_) == 2:
            raise ValueError("likelihood='ordinal' needs three classes in an order, and y holds two: leave likelihood= out.")
        check_written(self.classes_, self.likelihood)
        likelihood, outputs = network.read_likelihood_of_labels(self.likelihood, len(self.classes_))
        choice = self._plan(x)

        def find(rows: np.ndarray) -> Thresholds:
            return fit_thresholds(np.random.RandomState(self._seed), x[rows], labels[rows], labels=True)

        found = FoundByRows(find(np.arange(len(x))), find) if THRESHOLDS in choice.forms else None
        self._train(self._tried(x, labels.astype(np.int32), likelihood, outputs, choice, found))
        return self

    def predict_set(self, X: ArrayLike | Any, level: float | Any = 0.9) -> Bool[np.ndarray, "rows classes"]:
        """Classes among which the true one is with probability ``level``, (rows, classes) booleans in ``classes_``' order.

        Conformal, by the rows that the fit held out: the classes that the networks which had not seen those rows find as
        probable as (21.38) asks for, or all networks as (21.30) does. A set may be empty, of a row that is like none of the
        classes. `ValueError` where no rows were held out, see ``held_out``.
        """
        check_level(level, "level")
        limit, x = threshold(known(self._conformity, self.left_out_), float(level)), self._rows(X)
        within = classes_within(self._probabilities(x), limit)
        if not self._folds:
            return within
        # The folds' networks keep the promise; beside others, which disagree where they are sure, p may be lower.
        return within | agreed(self._scores, [1.0 - self._said_by(fold, x) for fold in self._folds], float(level))

    def _judged(self, x: np.ndarray, y: np.ndarray) -> Judged:
        labels = np.asarray(y, np.int64)
        if not self._is_tempered():
            return Judged(self._log_density(x, y), self._probabilities(x))
        parts = list(self._streamed(predict_draws, x))
        found = temperature.temperature_of(np.concatenate(parts, axis=1), labels)
        probabilities = np.concatenate([temperature.tempered(part, found) for part in parts])
        untempered = np.concatenate([temperature.tempered(part, 1.0) for part in parts])
        return Judged(densities.of_labels(probabilities, labels), probabilities, float(np.log(found)), untempered)

    def _tempered(self, y: np.ndarray, foreseen: np.ndarray) -> tuple[float, np.ndarray]:
        found = temperature.temperature_of(foreseen[None], np.asarray(y, np.int64))
        return float(np.log(found)), temperature.tempered(foreseen[None], found)

    def _calibrate(self, held: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        # To temper each network is not to temper what they say together: the scores are to be those of `predict_set`.
        # Of five folds of a quarter the last holds out what the first one did, and judges nothing.
        judging = [(fold, *rows) for fold, rows in zip(self._folds, held, strict=True) if len(rows[1])]
        self._folds = tuple(fold for fold, *_ in judging)
        self._scores = tuple(self._wrong(y, self._said_by(fold, x)) for fold, x, y in judging)
        self._conformity = np.concatenate(self._scores)

    def _said_by(self, law: Mixture, x: np.ndarray) -> Float64[np.ndarray, "rows classes"]:
        """Probabilities of a mixture, from each of its networks: those of a fold are drawn of programs that there are."""
        parts = [self._predicting_by(member)._probabilities(x) for member in law.members]
        return np.average(parts, axis=0, weights=law.shares)  # type: ignore[no-any-return]

    def _wrong(self, y: np.ndarray, foreseen: np.ndarray) -> np.ndarray:
        return scores_of_labels(foreseen, np.asarray(y, np.int64))

    def _beside_trees(self, y: np.ndarray, foreseen: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        probabilities = softmax(np.pad(said, ((0, 0), (1, 0))), axis=1)  # said: logarithms of classes beside the first
        return np.eye(foreseen.shape[1])[np.asarray(y, np.int64)] - foreseen, probabilities - foreseen

    def _is_comparable(self, y: np.ndarray) -> bool:
        return self._is_tempered()

    def _is_tempered(self) -> bool:
        """Weights of classes, or smoothing, make other probabilities than those of the labels on purpose; so may cut points."""
        likelihood = self.bnn_.likelihood
        return isinstance(likelihood, Categorical) and likelihood == Categorical()

    def _settled(self, member: Member, chosen: Chosen) -> Member:
        if chosen.temperature == 1.0:
            return member
        cooled = temperature.cool(network.build(member.network), member.params, chosen.temperature)
        return member._replace(params=cooled)

    def predict(self, X: ArrayLike | Any) -> Shaped[np.ndarray, " rows"]:
        """The most probable label of each row."""
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[likeliest]

    def _of_draws(self, draws: np.ndarray) -> np.ndarray:
        """Predictions of networks as the estimator gives predictions."""
        return draws / draws.sum(axis=-1, keepdims=True)

    def predict_proba(self, X: ArrayLike | Any) -> Float64[np.ndarray, "rows classes"]:
        """Predictive class probabilities, (rows, classes), in the order of ``classes_``."""
        return self._probabilities(self._rows(X))

    def _probabilities(self, x: np.ndarray) -> Float64[np.ndarray, "rows classes"]:
        parts = [drawn.mean(axis=0, dtype=np.float64) for drawn in self._streamed(predict_draws, x)]
        probabilities = np.concatenate(parts)
        return probabilities / probabilities.sum(axis=1, keepdims=True)  # rows of float32 sum to 1 but for their rounding

    def predict_log_proba(self, X: ArrayLike | Any) -> Float64[np.ndarray, "rows classes"]:
        """Logarithms of `predict_proba`, in nats; -inf of a probability that float32 rounds to zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def log_density(self, X: ArrayLike | Any, y: ArrayLike | Any) -> Float64[np.ndarray, " rows"]:
        """log p(y | X) of each row, the logarithm of its label's predictive probability, in nats."""
        nats = self.predict_log_proba(X)
        labels = _one_column(np.asarray(without_mask(y, "y")))
        places = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        if labels.shape != (len(nats),) or (self.classes_[places] != labels).any():
            raise ValueError(f"y must hold one label for each of the {len(nats)} rows, all of them among classes_.")
        return nats[np.arange(len(labels)), places]


def check_labels(y: object) -> None:
    """Refuse gaps among labels, and labels that cannot be sorted, where NumPy would say that "<" is not supported."""
    labels = np.asarray(y)
    values = np.asarray(y, object) if isinstance(y, list | tuple) else labels  # NumPy writes NaN among texts as a text
    if not values.ndim:
        return
    values = _one_column(values)
    if rows := np.flatnonzero(_are_missing(values)).tolist():
        shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
        raise ValueError(
            f"y has no label in {len(rows)} of its {len(values)} rows ({shown}, counted from 0): drop these rows of X and y, "
            "as by keep = pd.notna(y), X[keep] and y[keep], or give them a label of their own."
        )
    if values.dtype != object:
        return
    try:
        np.unique(values)  # as they are given: of a list with 1 and "1" NumPy makes two times the same text
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in values.flat}))
        raise ValueError(
            f"y holds labels of types that cannot be sorted ({kinds}): make texts of all, as by np.asarray(y).astype(str)."
        ) from None


def _one_column(labels: np.ndarray) -> np.ndarray:
    """Labels (rows,) of such in a column; others as they are."""
    return labels[:, 0] if labels.shape[1:] == (1,) else labels


def _are_missing(labels: np.ndarray) -> Bool[np.ndarray, " rows"] | list[bool]:
    if labels.dtype.kind in "fmM" and labels.ndim == 1:
        return np.isnan(labels)
    return [_is_missing(label) for label in labels] if labels.dtype == object else []


def _is_missing(label: object) -> bool:
    return label is None or type(label).__name__ in ("NAType", "NaTType") or (isinstance(label, float) and label != label)


def check_order(y: Any, likelihood: object) -> None:
    """Refuse an order of pandas' own that is another than that of the sorted labels, where the order means something."""
    y = y.iloc[:, 0] if is_frame(y) and y.shape[1] == 1 else y
    given = list(getattr(getattr(y, "dtype", None), "categories", ()))
    if _is_ordinal(likelihood) and getattr(y.dtype if given else None, "ordered", False) and given != sorted(given):
        raise ValueError(
            f"y has an order of its own, {' < '.join(map(str, given[:6]))}, and an ordinal likelihood takes the labels as they "
            "are sorted: give the places in that order, y.cat.codes."
        )


def check_written(classes: np.ndarray, likelihood: object) -> None:
    """Refuse numbers that are written as texts, which sort as texts do, where the order means something."""
    try:
        numbers = classes.astype(np.float64)
    except (TypeError, ValueError):
        return
    if _is_ordinal(likelihood) and (np.diff(numbers) < 0).any():
        raise ValueError(
            f"y holds numbers written as texts, which are sorted as texts, {' < '.join(map(str, classes[:6]))}, and an ordinal "
            "likelihood takes the labels as they are sorted: give numbers, np.asarray(y, float)."
        )


def _is_ordinal(likelihood: object) -> bool:
    return likelihood == "ordinal" or isinstance(likelihood, Ordinal)
