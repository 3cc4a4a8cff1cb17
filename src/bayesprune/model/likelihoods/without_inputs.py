"""The best prediction that knows no inputs: what the likelihoods' ``baseline`` methods have in common."""

from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike
from scipy.special import xlogy

from bayesprune.core.numbers import is_constant


def columns(y: ArrayLike) -> np.ndarray:
    """Targets in float64, (entries, outputs): one constant is predicted for each place along the last axis.

    >>> columns(np.zeros(5)).shape, columns(np.zeros((5, 2))).shape, columns(np.zeros((5, 7, 2))).shape
    ((5, 1), (5, 2), (35, 2))
    """
    return _columns(y).astype(np.float64)


def varies(y: ArrayLike) -> bool:
    """Whether there is anything to predict: under targets that are all the same no network is better than a constant.

    >>> varies(np.array([0.1, 0.1, 0.1])), varies(np.array([[0, 1], [0, 1]])), varies(np.array([0, 1]))
    (False, False, True)
    """
    return not bool(is_constant(_columns(y)).all())


def variances(y: ArrayLike) -> np.ndarray:
    """The variance of each output, (outputs,); exactly 0 of one that is constant but for its rounding."""
    return np.where(is_constant(_columns(y)), 0.0, columns(y).var(0))


def of_shares(masses: ArrayLike | Sequence[float | int]) -> float:
    """-sum_c m_c log(m_c / sum m), nats: classes of these masses, each predicted by its share of them (21.11).

    >>> bool(np.isclose(of_shares([3, 3]), 6 * np.log(2)))
    True
    """
    masses = np.asarray(masses, np.float64)
    return float(xlogy(masses.sum(), masses.sum()) - xlogy(masses, masses).sum())


def _columns(y: ArrayLike) -> np.ndarray:
    """Targets in their own dtype, whose rounding is theirs."""
    values = np.asarray(y)
    return values.reshape(-1, 1 if values.ndim == 1 else values.shape[-1])


def labels(y: ArrayLike, classes: int = 0) -> np.ndarray:
    """How many labels there are of each class, of at least so many classes."""
    return np.bincount(np.ravel(np.asarray(y)).astype(int), minlength=classes)
