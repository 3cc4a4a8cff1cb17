"""Calibration errors. Three different numbers go by the name ECE; each has its own name here, and they do not compare."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from bayesprune.core.checks import check_integer
from bayesprune.report.inputs import ArrayLike, probabilities_and_labels

Values = Float64[np.ndarray, " rows"]
PerBin = Float64[np.ndarray, " bins"]


@dataclass(frozen=True, eq=False)
class Bins:
    """Rows grouped by predicted probability: how many, their mean prediction, how often the event came (NaN where empty)."""

    count: PerBin
    predicted: PerBin
    observed: PerBin


def equal_mass_edges(predicted: Values, num_bins: int) -> PerBin:
    """The inner edges of ``num_bins`` bins that hold the same number of rows, but for ties, which are never parted."""
    return np.quantile(predicted, np.arange(1, num_bins) / num_bins)


def group(predicted: Values, event: Values, index: Int64[np.ndarray, " rows"], num_bins: int) -> Bins:
    """Average prediction and event over the rows of each bin."""
    count = np.bincount(index, minlength=num_bins).astype(np.float64)
    with np.errstate(invalid="ignore"):  # an empty bin is 0/0: NaN, by intent
        return Bins(
            count,
            np.bincount(index, predicted, num_bins) / count,
            np.bincount(index, event, num_bins) / count,
        )


def top_label_bins(probs: ArrayLike, y: ArrayLike, num_bins: int = 15, equal_mass: bool = False) -> Bins:
    """Confidence, the largest probability of each row, against how often that class was right, bin by bin.

    ``probs`` (rows, classes), ``y`` (rows,). Equal-width bins are open below and closed above; equal-mass bins the other way
    round. Raises ``ValueError`` as `bayesprune.report.classification.accuracy` does, and for ``num_bins`` below 1.

    >>> top_label_bins(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]), num_bins=2).count.tolist()
    [0.0, 2.0]
    """
    check_integer(num_bins, "num_bins")
    probs, y = probabilities_and_labels(probs, y)
    confidence, hit = probs.max(axis=1), (probs.argmax(axis=1) == y).astype(np.float64)
    if equal_mass:
        index = np.searchsorted(equal_mass_edges(confidence, num_bins), confidence, side="right")
    else:
        index = np.searchsorted(np.linspace(0.0, 1.0, num_bins + 1)[1:-1], confidence, side="left")
    return group(confidence, hit, index, num_bins)


def mean_gap(bins: Bins) -> float:
    """sum_b (n_b / n) |predicted_b - observed_b| over the bins that are not empty."""
    gap = np.abs(bins.predicted - bins.observed)
    return float(np.sum(bins.count * np.nan_to_num(gap)) / bins.count.sum())


def ece(probs: ArrayLike, y: ArrayLike, num_bins: int = 15) -> float:
    """Expected calibration error of the top label: 15 bins of equal width, mean absolute gap, weighted by rows.

    sum_b (n_b / n) |confidence_b - accuracy_b|, between 0 and 1. Shapes and errors as in `top_label_bins`. It is biased
    upwards: a perfectly calibrated model scores above zero by the noise of its bins.

    >>> round(ece(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 0])), 4)
    0.15

    Source: Guo et al. 2017, "On calibration of modern neural networks", eq. 3.
    """
    return mean_gap(top_label_bins(probs, y, num_bins))


def ece_quantile(probs: ArrayLike, y: ArrayLike, num_bins: int = 20) -> float:
    """Expected calibration error of the top label over 20 bins of equal mass, as the Bayesian-model-reduction paper reports.

    The same sum as `ece`; the bins end at quantiles of the confidence, and rows of the same confidence stay together.

    >>> round(ece_quantile(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]), num_bins=2), 4)
    0.45

    Source: Markovic et al. 2024, figures 1 and 5; the bins as in TensorFlow Probability's quantile variant.
    """
    return mean_gap(top_label_bins(probs, y, num_bins, equal_mass=True))


def debiased_squared_error(predicted: Values, event: Values, num_bins: int = 15) -> float:
    """Squared calibration error of one event's probability, the noise of the bins taken off; may come out negative.

    sum_b (n_b / n) [(predicted_b - observed_b)² - observed_b (1 - observed_b) / (n_b - 1)] over equal-mass bins; a bin with
    fewer than two rows counts as zero. ``predicted`` and ``event`` (0 or 1): (rows,). Zero on average for a calibrated
    prediction that is constant within each bin, and a shade below where it varies.

    >>> debiased_squared_error(np.array([0.5, 0.5, 0.5, 0.5]), np.array([0.0, 1.0, 0.0, 0.0]), num_bins=1)
    0.0

    Source: Kumar et al. 2019, "Verified uncertainty calibration", section 5, the debiased estimator.
    """
    index = np.searchsorted(equal_mass_edges(predicted, num_bins), predicted, side="right")
    bins = group(predicted, event, index, num_bins)
    usable = bins.count >= 2
    count, p, o = bins.count[usable], bins.predicted[usable], bins.observed[usable]
    return float(np.sum(count * ((p - o) ** 2 - o * (1.0 - o) / (count - 1.0))) / len(predicted))


def calibration_marginal(probs: ArrayLike, y: ArrayLike, num_bins: int = 15) -> float:
    """Calibration error of every class's probability: debiased, root mean square over rows and classes, 15 equal-mass bins.

    sqrt(mean_c max(0, `debiased_squared_error` of class c)), between 0 and 1. With ten classes most of these
    probabilities are close to 0 and well calibrated, so the number is far below `ece`: never compare the two. Shapes and
    errors as in `top_label_bins`.

    >>> probs = np.tile([0.5, 0.5], (8, 1))
    >>> calibration_marginal(probs, np.array([0, 1] * 4)), round(calibration_marginal(probs, np.zeros(8, int)), 4)
    (0.0, 0.5)

    Source: Kumar et al. 2019, "Verified uncertainty calibration", definition 2.3 and section 5.
    """
    check_integer(num_bins, "num_bins")
    probs, y = probabilities_and_labels(probs, y)
    event = np.eye(probs.shape[1])[y]
    squared = [debiased_squared_error(probs[:, c], event[:, c], num_bins) for c in range(probs.shape[1])]
    return float(np.sqrt(np.mean(np.maximum(squared, 0.0))))
