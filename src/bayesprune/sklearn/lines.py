"""Linear models as a measure: where they foresee rows worse than a net does, a linear network will not help."""

import warnings

import numpy as np
from jaxtyping import Float64, Shaped
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from threadpoolctl import threadpool_limits

from bayesprune.data.scaling import fit_scaling
from bayesprune.sklearn.trees import of_labels, of_misses

RIDGES = 10.0 ** np.arange(-2.0, 5.0)  # of which the rows that are fitted choose one
STRENGTHS = (1.0, 0.01)  # of logistic slopes' prior variances; the held-out rows take one, which flatters lines


def foreseen(
    seed: int,
    x: Float64[np.ndarray, "rows columns"],
    y: Shaped[np.ndarray, " rows"],
    x_held: Float64[np.ndarray, "held columns"],
    y_held: Shaped[np.ndarray, " held"],
) -> Float64[np.ndarray, " held"]:
    """Log density of each held-out row, nats, by logistic or ridge regression of standardised columns.

    ``y``: as of `trees.foreseen`, whose noise of numbers it takes. ``seed``: nothing is drawn; all measures have it.

    >>> x = np.random.default_rng(0).standard_normal((400, 2))
    >>> y = 2.0 * x[:, 0] + 0.1 * x[:, 1]
    >>> bool(foreseen(0, x[:300], y[:300], x[300:], y[300:]).mean() > 2.0)
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
