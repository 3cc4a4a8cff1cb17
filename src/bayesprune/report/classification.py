"""Scores of class probabilities: accuracy, negative log likelihood, Brier score."""

import numpy as np

from bayesprune.report.inputs import ArrayLike, probabilities_and_labels

SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)
"""Where probabilities are clipped inside a logarithm: below it float32 knows only zero."""


def accuracy(probs: ArrayLike, y: ArrayLike) -> float:
    """Share of rows whose most probable class is the true one; ties go to the lower class.

    ``probs``: (rows, classes), rows summing to 1, or (rows,), the probability of class 1 of two. ``y``: (rows,) labels
    counted from 0. Result between 0 and 1. Raises ``ValueError`` for NaN, wrong shapes, rows not summing to 1, labels out of
    range.

    >>> accuracy(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]))
    0.5
    """
    probs, y = probabilities_and_labels(probs, y)
    return float(np.mean(probs.argmax(axis=1) == y))


def nll(probs: ArrayLike, y: ArrayLike) -> float:
    """Negative log likelihood of the averaged prediction, -mean_i log probs[i, y_i], in nats per row.

    ``probs`` (rows, classes) is already averaged over draws, so this scores the predictive mixture and not the mean of the
    draws' scores. A probability below float32's smallest normal number, 1.2e-38, is read as that number: an impossible row
    costs 87.3 nats instead of turning the mean into infinity. Raises ``ValueError`` as `accuracy` does.

    >>> round(nll(np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 1])), 4)
    0.4904
    """
    probs, y = probabilities_and_labels(probs, y)
    return float(0.0 - np.log(probs[np.arange(len(y)), y].clip(SMALLEST_PROBABILITY)).mean())


def brier(probs: ArrayLike, y: ArrayLike) -> float:
    """Brier score, mean_i sum_c (probs[i, c] - [y_i = c])², between 0 and 2.

    The sum runs over all classes, as in the original; with two classes it is twice the one-class score. Shapes and errors
    as in `accuracy`.

    >>> brier(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 0]))
    0.25

    Source: Brier 1950, "Verification of forecasts expressed in terms of probability", eq. 2.
    """
    probs, y = probabilities_and_labels(probs, y)
    return float(((probs - np.eye(probs.shape[1])[y]) ** 2).sum(axis=1).mean())
