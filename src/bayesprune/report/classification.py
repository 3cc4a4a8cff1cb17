"""Scores of class probabilities: accuracy, negative log likelihood, Brier score; and the entropy that tells foreign rows."""

import numpy as np
from jaxtyping import Float64
from scipy.special import xlogy

from bayesprune.report.inputs import ArrayLike, class_probabilities, probabilities_and_labels

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


def predictive_entropy(probs: ArrayLike) -> Float64[np.ndarray, " rows"]:
    """Entropy of each row's predictive distribution, -sum_c p_c log p_c, in nats: 0 when sure, log(classes) at most.

    ``probs``: (rows, classes), averaged over draws, so that disagreement among draws counts. Result: (rows,). Raises
    ``ValueError`` for NaN, wrong shapes or rows that do not sum to 1.

    >>> predictive_entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4).tolist()
    [0.0, 0.6931]
    """
    p = class_probabilities(probs)
    # In the order of their sizes: whatever the classes are called, equal laws have equal entropies, to the last digit.
    return np.abs(np.sort(xlogy(p, p), axis=1).sum(axis=1))


def ood_auroc(probs_in: ArrayLike, probs_out: ArrayLike) -> float:
    """Area under the ROC curve of the predictive entropy as a detector of foreign rows; 0.5 is chance, 1 perfect.

    The probability that a row of ``probs_out`` (foreign data) has a larger entropy than one of ``probs_in`` (the test set),
    ties counted half. Both (rows, classes), with rows of their own. Raises ``ValueError`` as `predictive_entropy` does.

    >>> ood_auroc(np.array([[0.99, 0.01], [0.9, 0.1]]), np.array([[0.6, 0.4], [0.95, 0.05]]))
    0.75

    Source: the area in its Mann-Whitney form. Usual pairs: Fashion-MNIST against MNIST or KMNIST, CIFAR-10 against SVHN or
    CIFAR-100.
    """
    inside = predictive_entropy(class_probabilities(probs_in, "probs_in"))
    outside = predictive_entropy(class_probabilities(probs_out, "probs_out"))
    # `scipy.stats` has it as a test of ranks, and takes longer to import than all that is imported here.
    below, up_to = (np.searchsorted(np.sort(inside), outside, side) for side in ("left", "right"))
    return float(np.mean(below + up_to) / (2 * len(inside)))
