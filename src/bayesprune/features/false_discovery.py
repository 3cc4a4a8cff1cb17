"""The Bayesian false discovery rate: how many of a selection's members are expected to be wrong, given their probabilities."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Float64, Shaped

from bayesprune.core.checks import check_within
from bayesprune.core.numbers import without_mask
from bayesprune.report import inputs


def control_fdr(probabilities: Float[ArrayLike, "..."], level: float) -> Bool[np.ndarray, "..."]:
    """The largest selection whose expected share of false members is at most ``level``.

        max |S|  such that  (1/|S|) Σ_{i in S} (1 - p_i) <= level,  S the most probable ones

    The promise is as good as the probabilities: it holds on average if they are calibrated, and mean-field posteriors are
    often too sure. Members of equal probability enter by their index, lowest first. Shares that are equal up to the precision
    of the probabilities' dtype count as equal, so that p = 1 - level is within the level.

    Args:
        probabilities: p that a member belongs, in [0, 1], of any shape (inputs, or weights).
        level: allowed expected share, in (0, 1).

    Returns:
        Booleans of the same shape; none is True where even the most probable one exceeds the level.

    Raises:
        ValueError: probabilities that are not finite or outside [0, 1], or a level outside (0, 1).

    Example:
        >>> print(control_fdr(np.array([0.5, 0.99, 0.9, 0.9]), level=0.1))
        [False  True  True  True]

    Source: Newton, Noueiry, Sarkar & Ahlquist (2004); Müller, Parmigiani, Robert & Rousseau (2004).
    """
    check_within(level, "level", "(0, 1)", "0.1 allows one wrong member in ten")
    p = _probabilities(probabilities)
    order = np.argsort(-p, axis=None, kind="stable")
    # Sorted so, the running mean never falls: the members below the level are a beginning of the order.
    running = np.cumsum(1.0 - p.ravel()[order]) / np.arange(1, p.size + 1)
    chosen = np.zeros(p.size, bool)
    chosen[order[: np.searchsorted(running, level + _resolution(probabilities, level), side="right")]] = True
    return chosen.reshape(p.shape)


def _resolution(probabilities: ArrayLike, level: float) -> float:
    """What two shares may differ by and be equal: float32's 0.9 is 0.89999998, and ten of float64's 0.1 are not 1.

    Never more than a thousandth of the level, so that one below the resolution of the probabilities still means something.
    """
    dtype = jnp.asarray(without_mask(probabilities, "probabilities")).dtype
    return min(float(jnp.finfo(dtype if jnp.issubdtype(dtype, jnp.floating) else np.float64).eps), 1e-3 * level)


def expected_fdr(probabilities: Float[ArrayLike, "..."], selected: Shaped[ArrayLike, "..."]) -> float:
    """Expected share of false members of a selection, the mean of 1 - p over it; 0 for an empty one.

    Args:
        probabilities: p that a member belongs, in [0, 1], of any shape.
        selected: booleans of the same shape.

    Raises:
        ValueError: probabilities that are not finite or outside [0, 1], a selection that is not boolean or of another shape.

    Example:
        >>> round(expected_fdr(np.array([0.9, 0.7, 0.1]), np.array([True, True, False])), 3)
        0.2

    Source: as `control_fdr`.
    """
    p, chosen = _probabilities(probabilities), inputs.truth_values(selected, "selected")
    if p.shape != chosen.shape:
        raise ValueError(f"selected must have the shape of probabilities, {p.shape}, got {chosen.shape}.")
    return float(np.mean(1.0 - p[chosen])) if chosen.any() else 0.0


def _probabilities(values: Float[ArrayLike, "..."]) -> Float64[np.ndarray, "..."]:
    p = inputs.finite(values, "probabilities")
    if p.size and (p.min() < 0.0 or p.max() > 1.0):
        raise ValueError(f"probabilities must lie in [0, 1], got values from {p.min():.4g} to {p.max():.4g}.")
    return p
