"""A matrix of targets with gaps, NaN where a row's output was not measured."""

import warnings
from typing import Any

import numpy as np

from bayesprune.data.scaling import Scaling, fit_scaling
from bayesprune.model.likelihoods import Masked
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.model.likelihoods.protocol import Likelihood
from bayesprune.sklearn.bends import NORMAL_QUARTILES

FARTHEST = 1e15  # robust deviations from the median


def gaps_in(y: object, likelihood: object = None) -> np.ndarray | None:
    """Where a matrix of targets has NaN, or what a masked likelihood takes for missing; None where it has neither.

    Of a single column nothing is missing that could not be left out with its row: a gap there raises `ValueError`.
    """
    try:
        values = floats_of(y)
    except (TypeError, ValueError):
        return None
    gaps, sign = np.isnan(values), "NaN"
    if isinstance(likelihood, Masked) and not likelihood.takes_nan:
        gaps, sign = gaps | (values == likelihood.missing), f"NaN or {likelihood.missing}"
    if not gaps.any():
        return None
    if values.ndim == 1 or values.shape[1:] == (1,):  # without a mask the sign of a gap would count as a number
        raise ValueError(
            f"y is one column, and {gaps.sum()} of its {len(values)} targets are missing ({sign}): leave these rows out of X "
            "and y."
        )
    return gaps if values.ndim == 2 else None


def check_targets(y: object) -> None:
    """Refuse targets that are texts or dates; say it where all are the same."""
    values = np.asarray(y)
    if values.dtype.kind in "USmM" or (values.dtype == object and any(isinstance(value, str) for value in values.flat)):
        what = "dates" if values.dtype.kind in "mM" else "texts"
        raise ValueError(
            f"y holds {what}, and a regressor needs numbers: of written numbers give np.asarray(y, float), of labels fit a "
            "BayesianSparseClassifier."
        )
    if values.ndim == 1 and len(values) > 1 and (values == values[0]).all():
        warnings.warn(f"y is {values.tolist()[0]!r} in every row: there is nothing to learn.", UserWarning, stacklevel=3)


def without(y: object, gaps: np.ndarray | None) -> Any:
    """Targets that scikit-learn's checks take: zeros in the gaps."""
    return y if gaps is None else np.where(gaps, 0.0, floats_of(y))


def floats_of(y: Any) -> np.ndarray:
    """Targets as float64, NaN for whatever a frame has in its gaps. `TypeError` or `ValueError` for what holds no numbers."""
    try:
        return np.asarray(y, np.float64)
    except TypeError:
        if not hasattr(y, "iloc"):
            raise
    values = np.array(y, object)
    values[y.isna().to_numpy()] = np.nan
    return values.astype(np.float64)


def masked(likelihood: Likelihood, gaps: np.ndarray | None) -> Any:
    """The likelihood of targets with such gaps; of whole ones the likelihood of what is observed."""
    return of_observed(likelihood) if gaps is None else Masked(of_observed(likelihood))


def with_gaps(columns: np.ndarray, gaps: np.ndarray | None) -> np.ndarray:
    """The columns, NaN in the gaps. `ValueError` for a column of which fewer than two targets are left."""
    if gaps is None:
        return columns
    seen = (~gaps).sum(axis=0)
    if (seen < 2).any():
        place = int(np.argmin(seen))
        raise ValueError(
            f"column {place} of y has {seen[place]} target(s), all others missing: give two or more, or leave it out."
        )
    return np.where(gaps, np.nan, columns.astype(np.float64))


def scaling_of(columns: np.ndarray, robust: bool = False) -> Scaling:
    """Mean and deviation of what is there, column by column.

    ``robust``: median and quartiles, which outliers do not move; but the deviation where half of a column is one number, or
    some of it lies so far out that single precision has no square of it.
    """
    if robust:
        low, loc, high = np.nanquantile(np.asarray(columns, np.float64), (0.25, 0.5, 0.75), axis=0)
        plain, wide = scaling_of(columns), (high - low) / NORMAL_QUARTILES
        return Scaling(loc, np.where(np.nanmax(np.abs(columns - loc), axis=0) < FARTHEST * wide, wide, plain.scale))
    if not np.issubdtype(columns.dtype, np.floating) or not np.isnan(columns).any():
        return fit_scaling(columns)
    parts = [fit_scaling(column[~np.isnan(column)]) for column in columns.T]
    return Scaling(*(np.array(values) for values in zip(*parts, strict=True)))
