"""The most important inputs, a stated share of them."""

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Real

from bayesprune.core import checks
from bayesprune.prune import choose


def top_fraction(importance: Real[ArrayLike, " features"], fraction: float) -> Bool[np.ndarray, " features"]:
    """The most important inputs, exactly round(fraction * features) of them and at least one; ties go to the lower index.

    A cut at a quantile, as in the paper, keeps every input that ties with the last one; this keeps the count.

    Args:
        importance: (features,), any order-preserving scale; -inf is the least.
        fraction: share kept, in (0, 1]; the paper's fixed choice is 0.2.

    Returns:
        (features,) booleans.

    Raises:
        ValueError: a NaN importance, another shape, no features, or a fraction outside (0, 1].

    Example:
        >>> print(top_fraction(np.array([0.1, 0.9, 0.5, 0.9]), 0.5))
        [False  True False  True]

    Source: Saha, Liu & Liang (2024), Algorithm 2.
    """
    checks.check_share(fraction, "fraction", "it is the share of the inputs that is kept, so 0.2 keeps a fifth")
    values = np.asarray(importance, np.float64)
    if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
        raise ValueError(f"importance must be of shape (features,), without NaN, got {values.shape}: is the fit finite?")
    keep = np.zeros(values.size, bool)
    keep[np.argsort(-values, kind="stable")[: int(choose.kept(float(fraction), values.size))]] = True
    return keep
