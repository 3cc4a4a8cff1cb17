"""Which law targets have where none is given: by a forest's errors, and by what the mean is like under it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float64

from bayesprune.data.scaling import Scaling
from bayesprune.model.likelihoods import NegativeBinomial, Normal, StudentT
from bayesprune.model.likelihoods.protocol import Likelihood
from bayesprune.sklearn import gaps, network
from bayesprune.sklearn.base import Tried
from bayesprune.sklearn.budget import Budget
from bayesprune.sklearn.tails import are_counts, costs_the_mean, is_heavy, is_tied

# Of the variance of y, that the mean may be foreseen worse under a law than without it: five points of R².
WORSE = 0.05


def law_of(
    y: Float64[np.ndarray, "rows outputs"], residuals: Float64[np.ndarray, "rows outputs"]
) -> NegativeBinomial | StudentT | Normal:
    """Counts, heavy tails or Gaussian noise, by a forest's residuals of the same rows."""
    if are_counts(y, residuals):
        return network.COUNTS
    heavy = is_heavy(residuals) and not is_tied(y) and not costs_the_mean(y, residuals, network.DEGREES)
    return network.HEAVY_NOISE if heavy else network.LEARNED_NOISE


def scaling_of(columns: np.ndarray, law: Likelihood) -> Scaling:
    """What targets are standardised by: robust where tails are heavy; not at all where the law is of numbers as they are."""
    if not isinstance(law, Normal | StudentT):
        return Scaling(np.zeros(columns.shape[1]), np.ones(columns.shape[1]))
    return gaps.scaling_of(columns, robust=law is network.HEAVY_NOISE)


def best_tried(
    tried: Callable[[Any], Tried],
    y: Float64[np.ndarray, "rows outputs"],
    residuals: Float64[np.ndarray, "rows outputs"],
    budget: Budget,
) -> Tried:
    """What is ``tried`` under the law of `law_of`; under Gaussian noise, where that law loses the mean and this does not.

    Where less than half of a time limit is left, nothing further is tried.
    """
    law = law_of(y, residuals)
    first = tried(law)
    if law is network.LEARNED_NOISE or not budget.has_half() or not loses_the_mean(first, y, residuals):
        return first
    left_out = dict(budget.left_out)
    budget.left_out.clear()
    other = tried(network.LEARNED_NOISE)
    if is_ahead(other, first):
        return other
    budget.left_out = left_out
    return first


def loses_the_mean(
    tried: Tried, y: Float64[np.ndarray, "rows outputs"], residuals: Float64[np.ndarray, "rows outputs"]
) -> bool:
    """Whether held-out rows are foreseen worse than by a forest, of these ``residuals`` of ``y``, by more than (21.39) allows.

      mean (y - m)² - mean (y - f)²  >  .05 Var(y)                                                         (21.39)

    for the networks' mean m and the forest's f, the mean over outputs of what each is of its variance. A t takes for outliers
    what a Gaussian would follow, and counts of hardly any concentration tell a mean of ten from one of a thousand by little:
    either may be much likelier, and foresee next to nothing of the variance of y.

    Of the same rows, or of all that the forest has where these are fewer than there are. Nothing is compared where y has gaps.
    """
    if tried.made.foreseen is None or np.isnan(tried.table.y).any():
        return False
    rows = np.concatenate(tried.made.held) if len(y) == len(tried.table.y) else slice(None)
    forest = np.mean(np.square(residuals[rows]), axis=0) / y.var(axis=0)
    return bool(np.mean(_missed(tried) - forest) > WORSE)


def is_ahead(other: Tried, first: Tried) -> bool:
    """Whether another law foresees the mean better by as much."""
    return other.made.foreseen is not None and bool(np.mean(_missed(first) - _missed(other)) > WORSE)


def _missed(tried: Tried) -> Float64[np.ndarray, " outputs"]:
    """Mean squares of what was missed of held-out rows, as shares of the variance of y."""
    rows, y = np.concatenate(tried.made.held), _columns(tried.table.y)
    assert tried.made.foreseen is not None
    return np.mean(np.square(y[rows] - tried.made.foreseen[..., 0]), axis=0) / y.var(axis=0)


def _columns(y: np.ndarray) -> Float64[np.ndarray, "rows outputs"]:
    return np.asarray(y, np.float64).reshape((len(y), -1))
