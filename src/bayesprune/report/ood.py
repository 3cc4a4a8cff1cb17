"""Out of distribution: does the model know what it has not seen?"""

import numpy as np
from jaxtyping import Float64
from scipy.special import xlogy

from bayesprune.report.inputs import ArrayLike, class_probabilities


def predictive_entropy(probs: ArrayLike) -> Float64[np.ndarray, " rows"]:
    """Entropy of each row's predictive distribution, -sum_c p_c log p_c, in nats: 0 when sure, log(classes) at most.

    ``probs``: (rows, classes), averaged over draws, so that disagreement among draws counts. Result: (rows,). Raises
    ``ValueError`` for NaN, wrong shapes or rows that do not sum to 1.

    >>> predictive_entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4).tolist()
    [0.0, 0.6931]
    """
    p = class_probabilities(probs)
    return np.abs(xlogy(p, p).sum(axis=1))


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
