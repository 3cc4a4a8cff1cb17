"""Any fitted estimator's student: one sparse network, trained on what the teacher says of rows without labels."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_array

from bayesprune.core.checks import check_integer
from bayesprune.core.given import GivenTable
from bayesprune.core.numbers import is_constant, without_mask
from bayesprune.sklearn.base import SparseNetwork
from bayesprune.sklearn.classifier import BayesianSparseClassifier
from bayesprune.sklearn.frames import check_frame, check_no_moments, is_frame, of_polars
from bayesprune.sklearn.made_rows import between
from bayesprune.sklearn.regressor import BayesianSparseRegressor

HELD_OUT, LEAST_ROWS = 0.2, 20
# Kinds of estimators that number what has no order: a regressor would learn that cluster 1 lies between 0 and 2.
NAMES = {"clusterer": "a clusterer", "density_estimator": "a mixture", "outlier_detector": "an outlier detector"}
REFERENCE = "bucila2006model"


class Distilled(NamedTuple):
    """``student``: the fitted estimator. ``agreement``: with its teacher on given rows that were held out: the share of equal
    labels, or R² of numbers. ``divergence``: of labels, the mean KL(teacher || student) in nats a row; of numbers, the root
    mean square of the difference over the teacher's standard deviation. An output that is the same in all those rows counts in
    neither; NaN where there is no other. ``rows``: trained on, made ones among them.
    """

    student: Any
    agreement: float
    divergence: float
    rows: int


def distil(
    teacher: Any,
    X: ArrayLike | Any,
    *,
    student: SparseNetwork | None = None,
    rows: int = 20_000,
    random_state: int = 0,
) -> Distilled:
    """Train one sparse network to say what a fitted estimator says.

    A network is fitted to the teacher's answers on rows of ``X`` and on rows made between them: of a row and its nearest
    neighbour each column is swapped with probability 1/2, and a number e is drawn from N(e', (|e - e'| / 4)²), so that made
    rows lie where rows lie; texts, dates and gaps are swapped as they are. Of a classifier the answers are labels drawn from
    its probabilities, so that what is minimised is, but for a constant,

      E_x KL(teacher(y | x) || student(y | x)),

    and the student is as unsure as its teacher; of a regressor they are its predictions, and the student's noise is what it
    misses of them, not the teacher's own uncertainty.

    Args:
        teacher: fitted, with ``predict``, and ``predict_proba`` and ``classes_`` where it is a classifier: a scikit-learn
            estimator, CatBoost's, LightGBM's, a pipeline.
        X: (num, features), without targets, at least 20 rows, as the teacher takes them: numbers, or a frame, which may hold
            texts and dates too. The teacher, and the student, are given frames of the same columns then. Gaps stay gaps.
        student: settings of the network, an unfitted estimator of ours; None: `BayesianSparseClassifier` or
            `BayesianSparseRegressor` by default, two hidden layers of 64. One network is fitted (``stacking=False``).
        rows: at least so many are trained on; given ones come first.
        random_state: of made rows, drawn labels and the fit.

    Returns:
        A `Distilled`. ``s.compact(keep="mean")`` of its student ``s`` is the network to ship, for rows of ``s.numbers_of(X)``.

    Raises:
        TypeError: a teacher that predicts nothing, clusters or outliers, or several labels of a row; a student of the other
            kind.
        ValueError: fewer than 20 rows, or infinite ones.

    Example:
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> import bayesprune as bp
        >>> x = np.random.default_rng(0).standard_normal((200, 2))
        >>> teacher = RandomForestRegressor(50, random_state=0).fit(x, x[:, 0])
        >>> small = bp.BayesianSparseRegressor(hidden=(8,), num_steps=500, form="plain")
        >>> bp.distil(teacher, x, student=small, rows=400).agreement > 0.9
        True

    Source: Bucilă, Caruana & Niculescu-Mizil (2006), section 4; Hinton, Vinyals & Dean (2015) for the soft labels.
    """
    check_integer(rows, "rows")
    check_integer(random_state, "random_state", minimum=0)
    labels = _is_classifier(teacher)
    network = _student(student, labels, random_state)
    X = _checked(X)
    if labels and np.shape(teacher.predict(X[:2]))[1:] not in ((), (1,)):  # its classes_ need not say it
        raise TypeError(_several(teacher))
    rng = np.random.default_rng(random_state)
    held, given = (_taken(X, part) for part in np.split(rng.permutation(len(X)), [int(HELD_OUT * len(X))]))
    used = _joined(given, between(rng, given, max(0, rows - len(given))))
    answers = _drawn_labels(rng, teacher, used) if labels else np.asarray(teacher.predict(used), np.float64)
    fitted = network.fit(used, answers)
    agreement, divergence = (_of_labels if labels else _of_numbers)(teacher, fitted, held)
    return Distilled(fitted, agreement, divergence, len(used))


def _checked(X: Any) -> Any:
    """A frame as it is, or an array of floats."""
    check_no_moments(X)
    check_frame(X := of_polars(without_mask(X, "X")))
    if not is_frame(X):
        return check_array(X, dtype=np.float64, ensure_min_samples=LEAST_ROWS, ensure_all_finite="allow-nan")
    if len(X) < LEAST_ROWS:
        raise ValueError(f"X has {len(X)} rows, and a student needs at least {LEAST_ROWS}: give more, they need no targets.")
    return X


def _taken(X: GivenTable, rows: np.ndarray) -> Any:
    return X.iloc[rows].reset_index(drop=True) if is_frame(X) else np.asarray(X)[rows]


def _joined(given: GivenTable, made: GivenTable) -> Any:
    if not is_frame(given):
        return np.concatenate([given, made])
    import pandas as pd

    return pd.concat([given, made], ignore_index=True)


def _is_classifier(teacher: object) -> bool:
    if not callable(getattr(teacher, "predict", None)):
        raise TypeError(f"teacher must be a fitted estimator with predict, got a {type(teacher).__name__}.")
    try:
        kind = get_tags(teacher).estimator_type
        labels = kind == "classifier"
    except (AttributeError, TypeError):  # of a library that has no tags of scikit-learn's
        kind, labels = getattr(teacher, "_estimator_type", None), hasattr(teacher, "predict_proba")
    if kind in NAMES:
        raise TypeError(
            f"{type(teacher).__name__}, {NAMES[kind]}, predicts names, not amounts: fit a classifier with predict_proba to "
            "teacher.predict(X), and distil that."
        )
    if labels and any(np.ndim(one) for one in getattr(teacher, "classes_", ())):
        raise TypeError(_several(teacher))
    if labels and not (callable(getattr(teacher, "predict_proba", None)) and hasattr(teacher, "classes_")):
        raise TypeError(f"{type(teacher).__name__} says no probabilities: give a teacher with predict_proba and classes_.")
    return labels


def _several(teacher: object) -> str:
    return (
        f"{type(teacher).__name__} says several labels of a row, and a student says one: fit a teacher to each column of "
        "labels, and distil each by itself."
    )


def _student(student: SparseNetwork | None, labels: bool, random_state: int) -> Any:
    kind = BayesianSparseClassifier if labels else BayesianSparseRegressor
    if student is None:
        student = kind(hidden=(64, 64))
    if not isinstance(student, kind):
        raise TypeError(f"the student of this teacher is a {kind.__name__}, got a {type(student).__name__}.")
    # What is to be shipped is one network, and what it says is to be judged.
    return clone(student).set_params(random_state=random_state, stacking=False)


def _probabilities(estimator: Any, x: GivenTable) -> np.ndarray:
    found = np.asarray(estimator.predict_proba(x), np.float64)
    return found / found.sum(axis=1, keepdims=True)


def _drawn_labels(rng: np.random.Generator, teacher: Any, x: GivenTable) -> np.ndarray:
    upto = np.cumsum(_probabilities(teacher, x), axis=1)
    place = (rng.random((len(x), 1)) > upto[:, :-1]).sum(axis=1)
    return np.asarray(teacher.classes_)[place]


def _of_labels(teacher: Any, student: Any, x: GivenTable) -> tuple[float, float]:
    taught = _probabilities(teacher, x)
    said = np.zeros_like(taught)
    places = np.asarray(teacher.classes_).tolist()  # which need not be sorted
    said[:, [places.index(label) for label in student.classes_.tolist()]] = _probabilities(student, x)
    said = np.maximum(said, 1e-7)  # of a class that was never drawn
    nats = np.sum(taught * (np.log(np.maximum(taught, 1e-300)) - np.log(said)), axis=1)
    return float(np.mean(taught.argmax(axis=1) == said.argmax(axis=1))), float(np.mean(nats))


def _of_numbers(teacher: Any, student: Any, x: GivenTable) -> tuple[float, float]:
    taught, said = (np.asarray(one.predict(x), np.float64).reshape(len(x), -1) for one in (teacher, student))
    # Output by output: what lies between their levels is no variance that a student explains.
    varies = ~is_constant(taught)
    if not varies.any():
        return np.nan, np.nan
    missed = np.mean(np.square(taught - said), axis=0)[varies] / taught.var(axis=0)[varies]
    return float(np.mean(1.0 - missed)), float(np.sqrt(np.mean(missed)))
