"""How well trees, lines and constants predict held-out rows, and the warning of a fit that is no better than constants."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from threadpoolctl import threadpool_limits

from bayesprune.data.scaling import fit_scaling
from bayesprune.infer.end_of_fit import baseline
from bayesprune.sklearn import forms, tails
from bayesprune.sklearn.network import DEGREES

RIDGES = 10.0 ** np.arange(-2.0, 5.0)  # of which the rows that are fitted choose one
STRENGTHS = (1.0, 0.01)  # of logistic slopes' prior variances; the held-out rows take one, which flatters lines
# Rates and rounds, of which the best are taken. What only many columns together say, such as parity, is learned at the high
# rate: on 1,600 rows of that kind .94 right after 60 rounds at .15, .98 after 200 at .3.
COURSES = ((0.1, 100), (0.3, 200))
LEAST = 1e-9  # probability of a class
CONSTANTS = "constants"
WORST = -20.0  # nats that a row counts at least: one that no form predicts must not decide alone

Rows = Float64[np.ndarray, "rows columns"]
RowsHeld = Float64[np.ndarray, "held columns"]
Targets = Shaped[np.ndarray, " rows"]
TargetsHeld = Shaped[np.ndarray, " held"]
Nats = Float64[np.ndarray, " held"]


def by_trees(seed: int, x: Rows, y: Targets, x_held: RowsHeld, y_held: TargetsHeld) -> Nats:
    """Log density of each held-out row, nats, by boosted trees as they were after the best number of rounds.

    Where trees predict rows worse than a net does, thresholds will not help the net. The held-out rows choose the number of
    rounds, which flatters trees: thresholds are ruled out the less.

    ``y``: numbers, or whole ones from 0 for classes. Of numbers under the noise that explains what was missed best, Gaussian or
    Student's t of three degrees of freedom.

    >>> x = np.random.default_rng(0).uniform(size=(400, 2))
    >>> y = (x[:, 0] > 0.3).astype(int)
    >>> bool(by_trees(0, x[:300], y[:300], x[300:], y[300:]).mean() > -0.1)
    True
    """
    labels = np.issubdtype(y.dtype, np.integer)
    kind = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    each = max(1, len(np.unique(y)) // 2) if labels else 1  # trees of a round, of two classes one
    judged: list[np.ndarray] = []
    with threadpool_limits(1):  # of a few thousand rows, threads wait for one another
        for rate, rounds in COURSES:
            how = {"max_iter": max(10, rounds // each), "learning_rate": rate, "early_stopping": False, "random_state": seed}
            forest = kind(**how).fit(x, y)
            if labels:
                judged += [of_labels(p, forest.classes_, y_held) for p in forest.staged_predict_proba(x_held)]
            else:
                judged += [of_misses(y_held - mean) for mean in forest.staged_predict(x_held)]
    return max(judged, key=lambda nats: float(nats.mean()))


def of_labels(probabilities: np.ndarray, classes: np.ndarray, labels: np.ndarray) -> Float64[np.ndarray, " rows"]:
    """Log probability of each row's label; a class that was not among ``classes``, those fitted, has nearly none."""
    place = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    own = np.where(classes[place] == labels, probabilities[np.arange(len(labels)), place], 0.0)
    return np.log(np.maximum(own, LEAST))  # type: ignore[no-any-return]


def of_misses(missed: np.ndarray) -> Float64[np.ndarray, " rows"]:
    """Log density of what was missed, under the noise that explains it best: Gaussian, or Student's t."""
    tiny = np.finfo(np.float64).tiny
    normal = stats.norm.logpdf(missed, scale=max(np.sqrt(np.mean(np.square(missed))), tiny))
    heavy = stats.t.logpdf(missed, DEGREES, scale=max(tails.scale(missed, DEGREES), tiny))
    return max(normal, heavy, key=lambda nats: float(nats.mean()))  # type: ignore[no-any-return]


def by_lines(seed: int, x: Rows, y: Targets, x_held: RowsHeld, y_held: TargetsHeld) -> Nats:
    """Log density of each held-out row, nats, by logistic or ridge regression of standardised columns.

    Where lines predict rows worse than a net does, a linear network will not help.

    ``y``: as of `by_trees`, whose noise of numbers it takes. ``seed``: nothing is drawn; all measures have it.

    >>> x = np.random.default_rng(0).standard_normal((400, 2))
    >>> y = 2.0 * x[:, 0] + 0.1 * x[:, 1]
    >>> bool(by_lines(0, x[:300], y[:300], x[300:], y[300:]).mean() > 2.0)
    True
    """
    scaling = fit_scaling(x)
    z, z_held = (np.asarray(scaling.apply(rows), np.float64) for rows in (x, x_held))
    with threadpool_limits(1), warnings.catch_warnings():  # of a few thousand rows, threads wait for one another
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough for a measure
        if not np.issubdtype(y.dtype, np.integer):
            return of_misses(y_held - RidgeCV(RIDGES).fit(z, y).predict(z_held))
        if not np.ptp(y):  # a fold without the rare class: a line knows the other alone
            return of_labels(np.ones((len(x_held), 1)), y[:1], y_held)
        fits = [LogisticRegression(C=strength, max_iter=200).fit(z, y) for strength in STRENGTHS]
    judged = [of_labels(fit.predict_proba(z_held), fit.classes_, y_held) for fit in fits]
    return max(judged, key=lambda nats: float(nats.mean()))


def by_constants(seed: int, x: Rows, y: Targets, x_held: RowsHeld, y_held: TargetsHeld) -> Nats:
    """Log density of each held-out row, nats, by the shares of the labels or the mean of the numbers, whatever the columns.

    Arguments as of `by_lines`: they are the same for all measures.

    >>> x = np.zeros((4, 1))
    >>> np.exp(by_constants(0, x, np.array([0, 0, 0, 1]), x[:2], np.array([0, 1]))).tolist()
    [0.75, 0.25]
    """
    if not np.issubdtype(y.dtype, np.integer):
        return of_misses(y_held - y.mean())
    classes, counts = np.unique(y, return_counts=True)
    return of_labels(np.tile(counts / len(y), (len(y_held), 1)), classes, y_held)


MEASURES = {forms.THRESHOLDS: by_trees, forms.LINEAR: by_lines, CONSTANTS: by_constants}


def is_behind(lead: Float64[np.ndarray, " rows"]) -> bool:
    """Whether the mean of leads is negative by more than one standard error.

    >>> is_behind(np.array([-0.3, -0.2, -0.4])), is_behind(np.array([-0.3, 0.2, -0.4])), is_behind(np.array([-1.0]))
    (True, False, False)
    """
    return len(lead) > 1 and bool(lead.mean() < -lead.std(ddof=1) / np.sqrt(len(lead)))


def behind_constants(
    nats: Float64[np.ndarray, " held"], estimator: Any, x: np.ndarray, y: np.ndarray, folds: list[tuple[np.ndarray, np.ndarray]]
) -> float:
    """Nats a row by which held-out rows, of log densities ``nats``, are predicted better by constants of the other rows.

    0 where they are not, by one standard error.
    """
    measured = [estimator._measured(CONSTANTS, x, y, *fold) for fold in folds]
    if any(one is None for one in measured) or not np.ptp(y):
        return 0.0
    lead = nats - np.maximum(np.concatenate(measured), WORST)
    return -float(lead.mean()) if is_behind(lead) else 0.0


def warn_of_held_out(behind: float, num_rows: int) -> None:
    """Warn of `behind_constants`, where it is not 0."""
    if behind:
        _warn(f"held-out rows are predicted worse than without X, by {behind:.2g} nats a row", num_rows)


def warn_of_fitted(estimator: Any, x: np.ndarray, y: np.ndarray, said: str) -> None:
    """Warn, after a loss as of a fit that learnt nothing, where its own rows are predicted no better than by constants.

    The constants are those of `by_constants`, or for other likelihoods their own best ones (`baseline`). Without either the
    warning of the loss, ``said``, is given.
    """
    rows = np.arange(len(y))
    constants = estimator._measured(CONSTANTS, x, y, rows, rows)
    if constants is None:
        floor = baseline(estimator.bnn_.likelihood, y)
        if floor is None:
            warnings.warn(said, UserWarning, stacklevel=5)
            return
        constants = np.full(len(y), -floor / len(y))
    lead = np.maximum(constants, WORST) - np.maximum(estimator._judged(x, y).nats, WORST)
    if np.ptp(y) and not is_behind(lead):
        _warn("the rows that were fitted are predicted no better than without X", len(y))


def _warn(what: str, num_rows: int) -> None:
    """In the name of the caller of ``fit``: between lie the function here, ``_train``, ``fit`` and what undoes it."""
    remedy = "Do the rows of X and y belong together? More rows, or fewer columns, may help."
    why = f"either X says nothing of y, or {num_rows} rows are too few to learn it from"
    warnings.warn(f"{what}: {why}. {remedy}", UserWarning, stacklevel=6)
