"""Which law the errors of targets speak for, by what trees miss of rows that they have not seen: counts, or heavy tails.

A negative binomial law or Student's t, against the Gaussian, and what a t costs.
"""

import math

import numpy as np
from jaxtyping import Float64
from scipy import stats

from bayesprune.model.likelihoods.targets import LARGEST

LEAST_ROWS = 30
LEAST_GAIN = 0.05  # nats a row by which another law must be better than the usual one
# Of the rows that one number may have: a t about it has a density without bound, and all others are its outliers.
MOST_TIED = 1 / 3
# Of y, that the location may lie from the mean: at two hundredths a t is ahead of a Gaussian by R² and CRPS all the same
# (`wages_1985` of benchmarks/tabular_real.md), at five to eight it is behind (`mlb` of "Drawn at random" there).
MOST_OF_VARIANCE = 0.03
NEAR = 1e-10  # of two scales one after the other, as a share: the likelihood at its top does not tell them apart
DEGREES = (1.5, 2.0, 3.0, 4.0, 6.0)
MOST_ROWS = 5_000  # that are compared, evenly spaced: every gain has a standard error of a hundredth of a nat by then
SHRINKAGE = 0.05  # towards the mean of all: trees predict exactly 0 where all they have seen is
CONCENTRATIONS = np.geomspace(0.03, 3e3, 60)
SCALES = np.geomspace(0.02, 1.5, 60)  # of errors, in units of their root mean square


def is_tied(y: Float64[np.ndarray, "rows outputs"]) -> bool:
    """Whether one number is so frequent in a column of y that a law of its mode would foresee it everywhere.

    >>> is_tied(np.array([[0.0], [0.0], [1.5]])), is_tied(np.array([[0.0], [0.5], [1.5]]))
    (True, False)
    """
    return any(np.unique(column, return_counts=True)[1].max() > MOST_TIED * len(column) for column in y.T if len(column))


def is_heavy(residuals: Float64[np.ndarray, "rows outputs"]) -> bool:
    """Whether a t of at most six degrees of freedom explains the residuals better than a Gaussian, by more than chance gives.

      max_{df, s} mean log t_df(r / s) / s  -  max_s mean log N(r; 0, s²)  >  LEAST_GAIN + log(n) / n

    for the mean over the outputs; both with the mode 0. log(n) / n pays for the further parameter (Schwarz 1978, doubled).

    >>> rng = np.random.default_rng(0)
    >>> is_heavy(rng.standard_t(2, (400, 1))), is_heavy(rng.standard_normal((400, 1)))
    (True, False)
    """
    rows = len(residuals)
    if rows < LEAST_ROWS or not residuals.std(axis=0).all():
        return False
    gains = [_log_t(column) - _log_normal(column) for column in residuals.T]
    return bool(np.mean(gains) > LEAST_GAIN + math.log(rows) / rows)


def costs_the_mean(y: Float64[np.ndarray, "rows outputs"], residuals: Float64[np.ndarray, "rows outputs"], df: float) -> bool:
    """Whether a t about y would foresee something so far from its mean that R² loses more than three hundredths.

      (mean r - loc)² > .03 Var(y)                                                                         (21.36)

    in any output, loc the location of the t of ``df`` degrees of the highest likelihood of the residuals r. A t is symmetric:
    of skewed noise, as that of salaries, its location lies near the mode.

    >>> rng = np.random.default_rng(0)
    >>> skewed, straight = rng.lognormal(size=(400, 1)), rng.standard_t(3.0, (400, 1))
    >>> costs_the_mean(skewed, skewed - skewed.mean(), 3.0), costs_the_mean(straight, straight, 3.0)
    (True, False)
    """
    locations = np.array([stats.t.fit(column, fdf=df)[1] for column in residuals.T])
    return bool((np.square(residuals.mean(axis=0) - locations) > MOST_OF_VARIANCE * y.var(axis=0)).any())


def _log_normal(residuals: np.ndarray) -> float:
    return float(np.mean(stats.norm.logpdf(residuals, scale=math.sqrt(np.mean(np.square(residuals))))))


def _log_t(residuals: np.ndarray) -> float:
    return max(float(np.mean(stats.t.logpdf(residuals, df, scale=scale(residuals, df)))) for df in DEGREES)


def scale(residuals: np.ndarray, df: float) -> float:
    """The scale of a t of the highest likelihood: the fixed point of EM, from the residuals' median size; 0 of zeros."""
    if not np.any(residuals):
        return 0.0
    least, squares = 1e-12 * float(np.abs(residuals).max()), np.square(residuals)
    found = max(float(np.median(np.abs(residuals))), least)
    for _ in range(100):
        before, weights = found, (df + 1) / (df + np.square(residuals / found))
        found = max(math.sqrt(np.mean(weights * squares)), least)  # of nearly all zeros it falls for ever
        if abs(found - before) < NEAR * found:
            break
    return found


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

    Source: (21.33); log(n) / n pays for the further parameter, as in `is_heavy` (Schwarz 1978, doubled).
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
