"""Variable selection against a known truth: which inputs did the sparse network keep, and which should it have kept?

A rate whose denominator is zero is undefined and comes out as NaN (no irrelevant input: no false-positive rate); the false
discovery rate of an empty selection is 0, by the usual convention.
"""

import math

import numpy as np
from jaxtyping import Bool

from bayesprune.report.inputs import ArrayLike, truth_values


def _both(selected: ArrayLike, relevant: ArrayLike) -> tuple[Bool[np.ndarray, "..."], Bool[np.ndarray, "..."]]:
    s, r = truth_values(selected, "selected"), truth_values(relevant, "relevant")
    if s.shape != r.shape or s.size == 0:
        raise ValueError(f"selected and relevant must have the same, not empty, shape, got {s.shape} and {r.shape}.")
    return s, r


def _rate(part: int | np.integer, whole: int | np.integer) -> float:
    return float(part / whole) if whole else math.nan


def fpr(selected: ArrayLike, relevant: ArrayLike) -> float:
    """False positive rate: the share of the irrelevant inputs that were selected.

    ``selected`` and ``relevant``: booleans of one shape, such as (inputs,). Raises ``ValueError`` for values that are not
    boolean or shapes that differ.

    >>> fpr(np.array([True, True, False]), np.array([True, False, False]))
    0.5
    """
    s, r = _both(selected, relevant)
    return _rate((s & ~r).sum(), (~r).sum())


def fnr(selected: ArrayLike, relevant: ArrayLike) -> float:
    """False negative rate: the share of the relevant inputs that were missed.

    >>> fnr(np.array([True, False]), np.array([True, True]))
    0.5
    """
    s, r = _both(selected, relevant)
    return _rate((~s & r).sum(), r.sum())


def power(selected: ArrayLike, relevant: ArrayLike) -> float:
    """Power: the share of the relevant inputs that were selected, 1 - `fnr`.

    >>> power(np.array([True, False]), np.array([True, True]))
    0.5
    """
    s, r = _both(selected, relevant)
    return _rate((s & r).sum(), r.sum())


def fdr(selected: ArrayLike, relevant: ArrayLike) -> float:
    """False discovery proportion: the share of the selected inputs that are irrelevant; its mean over replications is the FDR.

    >>> fdr(np.array([True, True, False]), np.array([True, False, False]))
    0.5

    Source: Benjamini and Hochberg 1995, section 2.1.
    """
    s, r = _both(selected, relevant)
    return _rate((s & ~r).sum(), s.sum()) if s.any() else 0.0


def selection_summary(selected: ArrayLike, relevant: ArrayLike) -> dict[str, float]:
    """All four: ``fpr``, ``fnr``, ``power``, ``fdr``.

    >>> selection_summary(np.array([True, False]), np.array([True, False]))
    {'fpr': 0.0, 'fnr': 0.0, 'power': 1.0, 'fdr': 0.0}
    """
    return {f.__name__: f(selected, relevant) for f in (fpr, fnr, power, fdr)}
