"""Every metric by name, with its definition in its docstring; the public face is ``bayesprune.metrics``.

Predictions and targets may be NumPy or JAX arrays; the arithmetic is done in float64 on the host, and results are plain floats.
"""

from bayesprune.report.calibration import calibration_marginal, ece, ece_quantile, top_label_bins
from bayesprune.report.classification import accuracy, brier, nll, ood_auroc, predictive_entropy
from bayesprune.report.connected import weights_in_use
from bayesprune.report.crps import crps, gaussian_crps, ranked_probability_score
from bayesprune.report.flops import flops, training_flops
from bayesprune.report.inputs import ArrayLike
from bayesprune.report.regression import (
    coverage,
    gaussian_nll,
    interval_width,
    predictive_interval,
    regression_summary,
    rmse,
)
from bayesprune.report.selection import fdr, fnr, fpr, power, selection_summary
from bayesprune.report.sparsity import sparsity_report

__all__ = [
    "accuracy",
    "brier",
    "calibration_marginal",
    "classification_summary",
    "coverage",
    "crps",
    "ece",
    "ece_quantile",
    "fdr",
    "flops",
    "fnr",
    "fpr",
    "gaussian_crps",
    "gaussian_nll",
    "interval_width",
    "nll",
    "ood_auroc",
    "power",
    "predictive_entropy",
    "predictive_interval",
    "ranked_probability_score",
    "regression_summary",
    "rmse",
    "selection_summary",
    "sparsity_report",
    "summary",
    "top_label_bins",
    "training_flops",
    "weights_in_use",
]
__dir__ = __all__.copy  # what completion offers


def summary(probs: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """The four usual scores of class probabilities: ``accuracy``, ``nll`` (nats per row), ``ece``, ``brier``.

    ``probs``: (rows, classes), averaged over draws, or (rows,) for the probability of class 1 of two. ``y``: (rows,)
    labels counted from 0. Of (rows, tokens, classes) with y (rows, tokens) each token counts as a row, in every score of class
    probabilities. Here ``ece`` is the top-label error over 15 equal-width bins. Raises ``ValueError`` for NaN, wrong shapes,
    rows that do not sum to 1, and labels out of range.

    >>> import numpy as np
    >>> summary(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1]))
    {'accuracy': 1.0, 'nll': 0.0, 'ece': 0.0, 'brier': 0.0}
    """
    return {"accuracy": accuracy(probs, y), "nll": nll(probs, y), "ece": ece(probs, y), "brier": brier(probs, y)}


def classification_summary(probs: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """`summary`, and two calibration errors that look at more: ``ece_quantile``, ``calibration_marginal``.

    Arguments and errors are those of `summary`.

    >>> import numpy as np
    >>> list(classification_summary(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])))
    ['accuracy', 'nll', 'ece', 'brier', 'ece_quantile', 'calibration_marginal']
    """
    more = {"ece_quantile": ece_quantile(probs, y), "calibration_marginal": calibration_marginal(probs, y)}
    return summary(probs, y) | more
