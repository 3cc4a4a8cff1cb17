"""Knockoff copies of the inputs: as like the originals as can be, and with nothing of their own to say about the target."""

import jax
import numpy as np
from jaxtyping import Array, Float, Real, Shaped

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
