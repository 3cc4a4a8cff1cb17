"""Knockoffs: copies as like the inputs as can be, with nothing of their own to say about the target, and the filter by them.

It asks which inputs beat their copies so often that few of them can be false, by one set of copies or more.
"""

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Real, Shaped

from bayesprune.core import checks
from bayesprune.core.numbers import is_constant
from bayesprune.report import inputs

SINGULAR = 1e-8  # smallest eigenvalue of a correlation matrix that leaves copies any room to differ, beyond rounding


def knockoffs(
    rng_key: Shaped[Array, "..."], x: Real[Array | np.ndarray, "rows features"], shrinkage: float = 0.0
) -> Float[np.ndarray, "rows features"]:
    """Second-order Gaussian knockoff copies, with mean and covariance estimated from the rows; see `gaussian_knockoffs`.

    Args:
        rng_key: a JAX random key.
        x: inputs, (rows, features); not the target.
        shrinkage: in [0, 1), share by which the correlations are drawn towards 0. With fewer rows than some multiple of the
            features take more than 0: the smallest eigenvalue of the sample's correlations then falls towards 0, and so does
            the room for copies to differ from the originals, which is what gives the filter its power.

    Returns:
        (rows, features) in the type of ``x``, of whole numbers float64. Fit a network to ``concatenate([x, copies], axis=1)``,
        take its importances, and give their differences to `knockoff_select`.

    Raises:
        TypeError: rng_key is no key.
        ValueError: values that are not finite, a constant column, linearly dependent columns, shrinkage outside [0, 1).

    Example:
        >>> import jax
        >>> x = np.random.default_rng(0).standard_normal((50, 3))
        >>> knockoffs(jax.random.key(0), x).shape
        (50, 3)

    Source: Candès, Fan, Janson & Lv (2018), section 3.4.1.
    """
    checks.check_within(shrinkage, "shrinkage", "[0, 1)")
    rows = inputs.finite(x, "x")
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"x must have shape (rows, features) with at least two rows, got {rows.shape}.")
    constant = np.flatnonzero(is_constant(rows))
    if constant.size:
        raise ValueError(
            f"columns {constant[:5].tolist()} of x are constant but for rounding ({constant.size} in all): leave them out."
        )
    return gaussian_knockoffs(rng_key, x, rows.mean(axis=0), shrunk_covariance(rows, shrinkage))


def shrunk_covariance(rows: Float[np.ndarray, "rows features"], shrinkage: float) -> Float[np.ndarray, "features features"]:
    """The sample's covariance, its correlations drawn towards 0 by a share.

    >>> shrunk_covariance(np.array([[0.0, 0.0], [2.0, 2.0]]), 0.5).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """
    covariance = np.atleast_2d(np.cov(rows, rowvar=False))
    return (1.0 - shrinkage) * covariance + shrinkage * np.diag(np.diag(covariance))


def gaussian_knockoffs(
    rng_key: Shaped[Array, "..."],
    x: Real[Array | np.ndarray, "rows features"],
    mean: Float[Array | np.ndarray, " features"],
    covariance: Float[Array | np.ndarray, "features features"],
) -> Float[np.ndarray, "rows features"]:
    """Model-X knockoff copies of normal inputs whose mean and covariance are known, equicorrelated.

    With the columns standardised to correlations R, and s = min(1, 2 λ_min(R)), copies are drawn from

        N( x - s R⁻¹ x,  2 s I - s² R⁻¹ )

    so that (x, copies) has covariance [[R, R - s I], [R - s I, R]]: swapping any inputs with their copies changes nothing.
    The covariance is singular where s = 2 λ_min and has no Cholesky factor, so its root comes from the eigenvalues of R.

    Args:
        rng_key: a JAX random key.
        x: inputs, (rows, features).
        mean, covariance: of the inputs' distribution, (features,) and (features, features).

    Returns:
        (rows, features) in the type of ``x``, of whole numbers float64.

    Raises:
        TypeError: rng_key is no key.
        ValueError: shapes that do not fit, values that are not finite, a covariance not symmetric and positive definite.

    Example:
        >>> import jax
        >>> x = np.random.default_rng(0).standard_normal((5, 2))
        >>> gaussian_knockoffs(jax.random.key(0), x, np.zeros(2), np.eye(2)).shape  # independent inputs: fresh draws
        (5, 2)

    Source: Candès, Fan, Janson & Lv (2018), section 3.4.1; Barber & Candès (2015), eq. 2.3, for the equal correlations.
    """
    key = checks.check_key(rng_key)
    rows, centre, cov = (inputs.finite(v, n) for v, n in ((x, "x"), (mean, "mean"), (covariance, "covariance")))
    size = rows.shape[-1]
    if rows.ndim != 2 or centre.shape != (size,) or cov.shape != (size, size):
        shapes = f"{rows.shape}, {centre.shape} and {cov.shape}"
        raise ValueError(f"x, mean and covariance must be (rows, features), (features,), (features, features), got {shapes}.")
    spread = np.sqrt(np.maximum(np.diag(cov), 0.0))
    if not np.allclose(cov, cov.T, rtol=1e-5) or (spread == 0).any():
        raise ValueError("covariance must be symmetric, with a diagonal above 0.")
    eigenvalues, axes = np.linalg.eigh(cov / np.outer(spread, spread))
    if eigenvalues[0] < SINGULAR:
        raise ValueError(
            f"covariance is singular (smallest eigenvalue of the correlations {eigenvalues[0]:.2g}): drop columns that others "
            "make up, or estimate it with knockoffs(..., shrinkage=0.1)."
        )
    s = min(1.0, 2.0 * eigenvalues[0])
    noise = np.asarray(jax.random.normal(key, rows.shape), np.float64)
    turned = ((rows - centre) / spread) @ axes  # in the eigenvectors' coordinates all matrices are diagonal
    root = np.sqrt(np.maximum(s * (2.0 - s / eigenvalues), 0.0))
    copies = (turned * (1.0 - s / eigenvalues) + (noise @ axes) * root) @ axes.T
    given = np.asarray(x).dtype
    return (copies * spread + centre).astype(np.float64 if given.kind in "iub" else given)


def knockoff_select(statistics: Real[ArrayLike, " features"], level: float, offset: int = 1) -> Bool[np.ndarray, " features"]:
    """The inputs whose statistic W_j reaches the knockoff threshold T, with the false discovery rate held at ``level``.

        T = min { t in {|W_j| > 0} : (offset + #{W_j <= -t}) / max(1, #{W_j >= t}) <= level }

    W_j = importance of input j - importance of its copy, from one fit to both. An irrelevant input is as likely to lose to its
    copy as to beat it, so the losers below -t estimate the false winners above t. The guarantee asks for exact copies; it
    asks nothing of the importance, nor of the network.

    Args:
        statistics: W, (features,), real and finite.
        level: the false discovery rate, in (0, 1). With offset 1 nothing can be selected unless 1/level inputs are.
        offset: 1 (knockoff+) holds E[false/selected] at the level; 0 holds E[false/(selected + 1/level)], which is weaker.

    Returns:
        (features,) booleans; none is True where no threshold will do.

    Raises:
        ValueError: statistics that are not finite or not one-dimensional, a level outside (0, 1), an offset other than 0 or 1.

    Example:
        >>> print(knockoff_select(np.array([5.0, 4.0, 3.0, -1.0, 0.5]), level=0.34))
        [ True  True  True False False]

    Source: Barber & Candès (2015), eq. 1.9; Candès, Fan, Janson & Lv (2018), eq. 3.11.
    """
    checks.check_integer(offset, "offset", minimum=0)
    if offset > 1:
        raise ValueError(f"offset must be 1 (knockoff+) or 0 (knockoff), got {offset}.")
    _check_level(level)
    w = inputs.finite(statistics, "statistics")
    if w.ndim != 1:
        raise ValueError(f"statistics must have shape (features,), got {w.shape}.")
    return w >= _threshold(w, level, offset)


def knockoff_e_values(statistics: Real[ArrayLike, "copies features"], level: float) -> Float[np.ndarray, " features"]:
    """E-values of the inputs from several sets of copies, so that the selection hangs on no single draw of them.

        E_j = mean over copies k of  p 1{W_kj >= T_k} / (1 + #{i: W_ki <= -T_k}),   T_k as of `knockoff_select`

    Of the useless inputs their sum is at most p in the mean, whatever the level of T is; give them to `select_by_e_values`.

    Args:
        statistics: W, (copies, features), real and finite.
        level: of the thresholds T_k, in (0, 1): half of the level of the selection is the authors' advice.

    Returns:
        (features,), not negative.

    Raises:
        ValueError: statistics that are not finite or not two-dimensional, a level outside (0, 1).

    Example:
        >>> print(knockoff_e_values(np.array([[5.0, 4.0, 3.0, -1.0], [5.0, 4.0, 3.0, 0.5]]), level=0.34))
        [4. 4. 4. 2.]

    Source: Ren & Barber (2024), Derandomised knockoffs: leveraging e-values for false discovery rate control, eq. 7.
    """
    _check_level(level)
    w = inputs.finite(statistics, "statistics")
    if w.ndim != 2:
        raise ValueError(f"statistics must have shape (copies, features), got {w.shape}.")
    limits = np.array([_threshold(row, level, 1) for row in w])[:, None]
    return np.mean(w.shape[1] * (w >= limits) / (1.0 + (w <= -limits).sum(axis=1, keepdims=True)), axis=0)


def select_by_e_values(e_values: Real[ArrayLike, " features"], level: float) -> Bool[np.ndarray, " features"]:
    """The e-BH rule: the k inputs of the largest e-values, for the largest k with the k-th at least p / (level k).

    Args:
        e_values: (features,), not negative: of a useless input 1 at most in the mean, or p for the sum over all.
        level: the false discovery rate that is held, in (0, 1), whatever the dependence of the e-values.

    Returns:
        (features,) booleans.

    Raises:
        ValueError: values below 0 or not finite, a level outside (0, 1).

    Example:
        >>> print(select_by_e_values(np.array([8.0, 0.0, 8.0, 1.0]), level=0.5))
        [ True False  True False]

    Source: Wang & Ramdas (2022), False discovery rate control with e-values.
    """
    _check_level(level)
    e = inputs.finite(e_values, "e_values").astype(np.float64)
    if e.ndim != 1 or (e < 0).any():
        raise ValueError(f"e_values must have shape (features,) and lie at or above 0, got {e.shape}.")
    ordered = np.sort(e)[::-1]
    # A bound that the e-value meets exactly must not fall to rounding: 40 / (0.2 10) is 20, 0.2 10 need not be 2.
    passing = np.flatnonzero(ordered * level * np.arange(1, len(e) + 1) >= len(e) * (1.0 - 1e-9))
    return e >= ordered[passing[-1]] if passing.size else np.zeros(len(e), bool)


def _check_level(level: float) -> None:
    checks.check_within(level, "level", "(0, 1)", "0.1 allows one wrong input in ten")


def _threshold(w: np.ndarray, level: float, offset: int) -> float:
    """T of `knockoff_select`; infinity where no threshold will do."""
    thresholds = np.unique(np.abs(w[w != 0]))
    ordered = np.sort(w)
    losers = np.searchsorted(ordered, -thresholds, side="right")
    winners = len(w) - np.searchsorted(ordered, thresholds, side="left")
    passing = thresholds[(offset + losers) / np.maximum(1, winners) <= level]
    return float(passing[0]) if passing.size else np.inf
