"""Whether targets are counts: a negative binomial law against Gaussian and Student's t errors, by what a forest predicts."""

import math

import numpy as np
from jaxtyping import Float64
from scipy import stats

from bayesprune.model.likelihoods.targets import LARGEST
from bayesprune.sklearn.tails import LEAST_GAIN, LEAST_ROWS

MOST_ROWS = 5_000  # that are compared, evenly spaced: every gain has a standard error of a hundredth of a nat by then
SHRINKAGE = 0.05  # towards the mean of all: trees predict exactly 0 where all they have seen is
CONCENTRATIONS = np.geomspace(0.03, 3e3, 60)
SCALES = np.geomspace(0.02, 1.5, 60)  # of errors, in units of their root mean square


def are_counts(y: Float64[np.ndarray, "rows outputs"], residuals: Float64[np.ndarray, "rows outputs"]) -> bool:
    """Whether whole numbers from 0 or 1 on are likelier as counts than as numbers with errors, by more than chance gives.

      max_r mean log NB(y; m, r)  -  max_{law, s} mean log P(y - 1/2 < m + s e < y + 1/2)  >  LEAST_GAIN + log(n) / n

    for the mean over the outputs; m: what trees that had not seen a row predict of it, y - ``residuals``, drawn a twentieth
    towards the mean; e: Gaussian, or of Student's t of three degrees of freedom. Both sides are probabilities of the number
    itself, so that ties, of zeros above all, are no infinite densities. Rounded amounts from 0 or 1 on whose errors grow with
    their size as those of counts do are likelier as counts, too.

    >>> rng = np.random.default_rng(0)
    >>> counts, rounded = rng.poisson(1.0, (400, 1)) * 1.0, np.round(rng.normal(9.0, 2.0, (400, 1)))
    >>> are_counts(counts, counts - 1.0), are_counts(rounded, rounded - 9.0)
    (True, False)

    Source: (21.33); log(n) / n pays for the further parameter, as in `tails.is_heavy` (Schwarz 1978, doubled).
    """
    rows = len(y)
    if (
        rows < LEAST_ROWS
        or y.max() > LARGEST
        or np.any(y != np.round(y))
        or not all(least in (0.0, 1.0) for least in y.min(axis=0))
    ):
        return False
    some = slice(None, None, -(-rows // MOST_ROWS))
    pairs = zip(y[some].T, (y - residuals)[some].T, strict=True)
    return bool(np.mean([_gain(column, predicted) for column, predicted in pairs]) > LEAST_GAIN + math.log(rows) / rows)


def _gain(y: np.ndarray, predicted: np.ndarray) -> float:
    means = np.maximum((1 - SHRINKAGE) * predicted, 0.0) + SHRINKAGE * y.mean()
    if not y.any():
        return 0.0
    return _log_counts(y, means) - _log_numbers(y, predicted)


def _log_counts(y: np.ndarray, means: np.ndarray) -> float:
    laws = (stats.nbinom(r, r / (r + means)) for r in CONCENTRATIONS)
    return max(float(np.mean(law.logpmf(y))) for law in laws)


def _log_numbers(y: np.ndarray, means: np.ndarray) -> float:
    """Of the better law of errors, at its best scale."""
    errors, size = np.abs(y - means), math.sqrt(float(np.mean(np.square(y - means))))
    if not size:
        return 0.0
    found = []
    for law in (stats.norm, stats.t(3.0)):
        for scale in SCALES * size:
            nearer, farther = (law.logsf((errors + side) / scale) for side in (-0.5, 0.5))
            found.append(float(np.mean(nearer + np.log1p(-np.exp(farther - nearer)))))
    return max(found)
