"""What quick models foresee rows with, of what a form sees and of y without columns; and what is said of a fit beside them."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from bayesprune.infer.end_of_fit import baseline
from bayesprune.sklearn import forms, lines, trees

CONSTANTS = "constants"
WORST = -20.0  # nats that a row counts at least: one that no form foresees must not decide alone


def by_constants(
    seed: int,
    x: Float64[np.ndarray, "rows columns"],
    y: Shaped[np.ndarray, " rows"],
    x_held: Float64[np.ndarray, "held columns"],
    y_held: Shaped[np.ndarray, " held"],
) -> Float64[np.ndarray, " held"]:
    """Log density of each held-out row, nats, by the shares of the labels or the mean of the numbers, whatever the columns.

    Arguments as of `lines.foreseen`: they are the same for all measures.

    >>> x = np.zeros((4, 1))
    >>> np.exp(by_constants(0, x, np.array([0, 0, 0, 1]), x[:2], np.array([0, 1]))).tolist()
    [0.75, 0.25]
    """
    if not np.issubdtype(y.dtype, np.integer):
        return trees.of_misses(y_held - y.mean())
    classes, counts = np.unique(y, return_counts=True)
    return trees.of_labels(np.tile(counts / len(y), (len(y_held), 1)), classes, y_held)


MEASURES = {forms.THRESHOLDS: trees.foreseen, forms.LINEAR: lines.foreseen, CONSTANTS: by_constants}


def is_behind(lead: Float64[np.ndarray, " rows"]) -> bool:
    """Whether the mean of leads is negative by more than one standard error.

    >>> is_behind(np.array([-0.3, -0.2, -0.4])), is_behind(np.array([-0.3, 0.2, -0.4])), is_behind(np.array([-1.0]))
    (True, False, False)
    """
    return len(lead) > 1 and bool(lead.mean() < -lead.std(ddof=1) / np.sqrt(len(lead)))


def warn_of_held_out(
    nats: Float64[np.ndarray, " held"], estimator: Any, x: np.ndarray, y: np.ndarray, folds: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    """Warn where held-out rows, foreseen with ``nats``, are foreseen better by the constants of the others."""
    measured = [estimator._measured(CONSTANTS, x, y, *fold) for fold in folds]
    if any(one is None for one in measured) or not np.ptp(y):
        return
    lead = nats - np.maximum(np.concatenate(measured), WORST)
    if is_behind(lead):
        _warn(f"held-out rows are foreseen worse than without X, by {-lead.mean():.2g} nats a row", len(y), stacklevel=6)


def warn_of_fitted(estimator: Any, x: np.ndarray, y: np.ndarray, said: str) -> None:
    """Warn where the fit's loss has said that it learnt nothing, and its own rows are foreseen no better than by constants.

    Of likelihoods that the measures do not know, by their own best constants; else what the loss has said.
    """
    rows = np.arange(len(y))
    constants = estimator._measured(CONSTANTS, x, y, rows, rows)
    if constants is None:
        floor = baseline(estimator.bnn_.likelihood, y)
        if floor is None:
            warnings.warn(said, UserWarning, stacklevel=4)
            return
        constants = np.full(len(y), -floor / len(y))
    lead = np.maximum(constants, WORST) - np.maximum(estimator._judged(x, y).nats, WORST)
    if np.ptp(y) and not is_behind(lead):
        _warn("the rows that were fitted are foreseen no better than without X", len(y), stacklevel=5)


def _warn(what: str, num_rows: int, stacklevel: int) -> None:
    """``stacklevel``: of the caller of ``fit``."""
    remedy = "Do the rows of X and y belong together? More rows, or fewer columns, may help."
    why = f"either X says nothing of y, or {num_rows} rows are too few to learn it from"
    warnings.warn(f"{what}: {why}. {remedy}", UserWarning, stacklevel=stacklevel)
