"""The covariance of the inputs, from their rows, by which knockoff copies are made."""

import warnings

import numpy as np
from jaxtyping import Float64
from sklearn.covariance import graphical_lasso, ledoit_wolf_shrinkage
from sklearn.exceptions import ConvergenceWarning

from bayesprune.features.copies import shrunk_covariance

AUTO = "auto"
LEAST, MOST = 1e-3, 0.999  # share by which correlations are drawn towards 0, so that dependent columns have room to differ
PENALTY = 0.5  # of the graphical lasso, in units of sqrt(log columns / rows)
LARGEST = 500  # columns for it: five seconds, and half a minute for twice as many


def covariance(rows: Float64[np.ndarray, "rows columns"], shrinkage: float | str) -> Float64[np.ndarray, "columns columns"]:
    """The sample's, its correlations drawn towards 0 by the share ``shrinkage``; of "auto" by that of Ledoit & Wolf (2004).

    Where columns are as many as rows, "auto" estimates sparse partial correlations instead, by the graphical lasso. To draw all
    correlations towards 0 makes copies of correlated columns that are too unlike their neighbours: at a level of .2 the false
    discovery rate was then .29 to .35 (`benchmarks/selection.md`). Of more than `LARGEST` columns that is all there is, with
    a warning; and of columns that share a factor, whose partial correlations are not sparse and which the lasso cannot fit.

    Raises `ValueError` for another ``shrinkage``.

    >>> rows = np.random.default_rng(0).standard_normal((50, 60))
    >>> bool(np.abs(covariance(rows, "auto") - np.eye(60)).max() < 0.7)
    True

    Source: Friedman, Hastie & Tibshirani (2008); Ravikumar et al. (2011) for the order of the penalty.
    """
    number, columns = rows.shape
    if shrinkage != AUTO and (isinstance(shrinkage, str) or not 0.0 <= shrinkage < 1.0):
        raise ValueError(f"shrinkage must be a number in [0, 1) or 'auto', got {shrinkage!r}.")
    if shrinkage == AUTO and number <= columns <= LARGEST:
        sparse = _sparse(shrunk_covariance(rows, 0.0), PENALTY * np.sqrt(np.log(columns) / number))
        if sparse is not None:
            return sparse
    if shrinkage == AUTO and columns > max(LARGEST, number - 1):
        warnings.warn(
            f"copies of {columns:,} columns by {number:,} rows are rough: the false discovery rate may be above its level "
            f"where columns are correlated. Give more rows, or at most {LARGEST} columns.",
            UserWarning,
            stacklevel=6,
        )
    share = float(np.clip(ledoit_wolf_shrinkage(rows), LEAST, MOST)) if isinstance(shrinkage, str) else float(shrinkage)
    return shrunk_covariance(rows, share)


def _sparse(covariance: np.ndarray, penalty: float) -> np.ndarray | None:
    """Of the graphical lasso, variances as they are; None where it finds none that is positive definite."""
    spread = np.sqrt(np.diag(covariance))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # as near as it is, it is positive definite
            found, _ = graphical_lasso(covariance / np.outer(spread, spread), min(penalty, 0.99), tol=1e-3)
    except FloatingPointError:
        return None
    scale = spread / np.sqrt(np.diag(found))
    return found * np.outer(scale, scale)  # type: ignore[no-any-return]
