"""Boosted trees as a measure: where they foresee rows worse than a net does, thresholds will not help the net."""

import numpy as np
from jaxtyping import Float64, Shaped
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from bayesprune.sklearn import tails
from bayesprune.sklearn.network import DEGREES

# Rates and rounds, of which the best are taken. What only many columns together say, such as parity, is learned at the high
# rate: on 1,600 rows of that kind .94 right after 60 rounds at .15, .98 after 200 at .3.
COURSES = ((0.1, 100), (0.3, 200))
LEAST = 1e-9  # probability of a class


def foreseen(
    seed: int,
    x: Float64[np.ndarray, "rows columns"],
    y: Shaped[np.ndarray, " rows"],
    x_held: Float64[np.ndarray, "held columns"],
    y_held: Shaped[np.ndarray, " held"],
) -> Float64[np.ndarray, " held"]:
    """Log density of each held-out row, nats, by boosted trees as they were after the best number of rounds.

    Those rows choose the number, which flatters trees: what they measure is ruled out the less.

    ``y``: numbers, or whole ones from 0 for classes. Of numbers under the noise that explains what was missed best, Gaussian or
    Student's t of three degrees of freedom.

    >>> x = np.random.default_rng(0).uniform(size=(400, 2))
    >>> y = (x[:, 0] > 0.3).astype(int)
    >>> bool(foreseen(0, x[:300], y[:300], x[300:], y[300:]).mean() > -0.1)
    True
    """
    labels = np.issubdtype(y.dtype, np.integer)
    kind = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    each = max(1, len(np.unique(y)) // 2) if labels else 1  # trees of a round, of two classes one
    judged: list[np.ndarray] = []
    with threadpool_limits(1):  # of a few thousand rows, threads wait for one another
        for rate, rounds in COURSES:
            how = {"max_iter": max(10, rounds // each), "learning_rate": rate, "early_stopping": False, "random_state": seed}
            trees = kind(**how).fit(x, y)
            if labels:
                judged += [of_labels(p, trees.classes_, y_held) for p in trees.staged_predict_proba(x_held)]
            else:
                judged += [of_misses(y_held - mean) for mean in trees.staged_predict(x_held)]
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
