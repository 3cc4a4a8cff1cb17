"""Standardising tables: every column by the mean and standard deviation of the training rows."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Shaped

from bayesprune.core.numbers import is_constant, without_mask
from bayesprune.core.types import Dataset

SQUARED = 1e150  # the largest number whose squares float64 holds, and sums of many of them


class Scaling(NamedTuple):
    """z = (v - loc) / scale, column by column. ``loc``, ``scale``: float64, of one row's shape or one number, in v's units."""

    loc: float | Float64[np.ndarray, "*row"]
    scale: float | Float64[np.ndarray, "*row"]

    def apply(self, values: Shaped[np.ndarray, "rows *row"]) -> Float32[np.ndarray, "rows *row"]:
        """Standardised values, float32."""
        return ((np.asarray(without_mask(values, "values"), dtype=np.float64) - self.loc) / self.scale).astype(np.float32)

    def undo(self, values: Float[np.ndarray, "rows *row"]) -> Float32[np.ndarray, "rows *row"]:
        """Values back in their own units, float32. A difference (an RMSE, say) needs only ``* scale``."""
        return (np.asarray(without_mask(values, "values"), dtype=np.float64) * self.scale + self.loc).astype(np.float32)


def fit_scaling(values: Shaped[np.ndarray, "rows *row"]) -> Scaling:
    """Mean and standard deviation (divisor: rows) of every column; a constant column gets the scale 1.

    Constant is also what varies by no more than its rounding, in its own dtype (`bayesprune.core.numbers`).

    Args:
        values: (rows, columns), or (rows,) for a single column.

    Raises:
        ValueError: there are no rows, or a value is not finite, or its square is not.

    Example:
        >>> import numpy as np
        >>> from bayesprune import data
        >>> scaling = data.fit_scaling(np.array([[1.0, 0.3], [3.0, 0.3], [5.0, 0.3]]))
        >>> scaling.apply(np.array([[3.0, 0.3]])).tolist()
        [[0.0, 0.0]]
    """
    given = np.asarray(without_mask(values, "values"))
    values = np.asarray(given, dtype=np.float64)
    if len(values) == 0 or not np.isfinite(values).all():
        raise ValueError(f"values must be finite and have at least one row, got shape {values.shape}.")
    if np.abs(values).max() > SQUARED:
        raise ValueError(
            f"values go up to {np.abs(values).max():.3g}, and squares of that are beyond float64: divide them by a power of "
            "ten, or look for a mark of missing values among them."
        )
    # Rounding, of the values or in the mean, can leave a standard deviation of 1e-16 in place of 0, and dividing by that would
    # make noise of size one. Taking a value itself as the mean makes a column whose values are equal exactly 0.
    constant = is_constant(given)
    # By a power of two, which rounds nothing: squares of very small values are 0.
    power = np.frexp(np.abs(values).max(axis=0))[1]
    spread = np.ldexp(np.ldexp(values, -power).std(axis=0), power)
    return Scaling(np.where(constant, values[0], values.mean(axis=0)), np.where(constant, 1.0, spread))


def silencing(values: Shaped[np.ndarray, "rows *row"]) -> Scaling:
    """As `fit_scaling`, but that a constant column's scale is infinite: whatever it is later, it becomes 0.

    >>> silencing(np.array([[1.0, 0.3], [3.0, 0.3]])).apply(np.array([[3.0, 7.0]])).tolist()
    [[1.0, 0.0]]
    """
    scaling = fit_scaling(values)
    return scaling._replace(scale=np.where(is_constant(values), np.inf, scaling.scale))


def standardise(train: Dataset, test: Dataset, targets: bool = False) -> tuple[Dataset, Dataset]:
    """Both parts of a table, with the inputs (and with ``targets`` the real targets too) in training-set units.

    Args:
        train, test: ``x`` (rows, columns), ``y`` (rows,) or (rows, outputs).
        targets: whether y is standardised too; not for class labels.

    Returns:
        (train, test) in float32. `fit_scaling` of the raw training targets takes predictions back to their units.

    Raises:
        ValueError: a value is not finite, there are no training rows, rows of the parts differ in shape, or ``targets`` is
            asked of integer labels.

    Example:
        >>> from bayesprune import data
        >>> raw = data.load("diabetes", standardise=False)
        >>> train, test = data.standardise(*raw, targets=True)
        >>> float(abs(train.y.mean())) < 1e-6
        True
    """
    if targets and not np.issubdtype(np.asarray(train.y).dtype, np.floating):
        raise ValueError(f"targets=True is for real targets, got y of dtype {np.asarray(train.y).dtype}: pass targets=False.")
    for name, one, other in (("x", train.x, test.x), *([("y", train.y, test.y)] if targets else [])):
        if (shape := np.shape(one)[1:]) != np.shape(other)[1:]:
            raise ValueError(f"rows of {name} must have one shape, got {shape} in train, {np.shape(other)[1:]} in test.")
        values = np.asarray(without_mask(other, f"test.{name}"))
        if values.dtype.kind not in "iub" and not np.isfinite(values.astype(np.float64)).all():  # bytes are, without a copy
            raise ValueError(f"test.{name} must be finite: drop those rows, or fill them in.")
    inputs = fit_scaling(train.x)
    outputs = fit_scaling(train.y) if targets else Scaling(np.zeros(()), np.ones(()))
    parts = [Dataset(inputs.apply(part.x), outputs.apply(part.y) if targets else part.y) for part in (train, test)]
    return parts[0], parts[1]
