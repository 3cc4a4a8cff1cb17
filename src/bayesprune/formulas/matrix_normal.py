"""Evidence for matrix-normal posteriors: weights W (rows, columns) with covariance rows (x) columns, a Kronecker case of (2.2).

The reduced precision Pq + P1 - P0 of three Kronecker products is in general none itself, so the general case goes through the
full covariance, exactly. Where the reduced prior is the full one times theta², everything is diagonal in the product of the
two eigenbases, and rows³ + columns³ operations are enough.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from bayesprune.core.products import WHOLE_PRODUCTS
from bayesprune.formulas import gaussian, gaussian_full


class MatrixNormal(NamedTuple):
    """W ~ MN(loc, row_covariance, column_covariance): Cov(W_ij, W_kl) = row_covariance_ik column_covariance_jl.

    Shapes: ``loc`` (rows, columns), ``row_covariance`` (rows, rows), ``column_covariance`` (columns, columns).
    """

    loc: Float[Array, "rows columns"]
    row_covariance: Float[Array, "rows rows"]
    column_covariance: Float[Array, "columns columns"]


def _full(q: MatrixNormal) -> tuple[Float[Array, "dim"], Float[Array, "dim dim"]]:
    return q.loc.reshape(-1), jnp.kron(q.row_covariance, q.column_covariance)


def log_evidence_gain(posterior: MatrixNormal, prior: MatrixNormal, reduced: MatrixNormal) -> Float[Array, ""]:
    """Log evidence gained by exchanging one matrix-normal prior for another, exactly, (2.2).

    Memory (rows columns)². The reduced prior's covariances may be singular: a zero row of ``row_covariance`` removes a row.
    Returns nats, a scalar.

    >>> q = MatrixNormal(jnp.zeros((1, 2)), 0.25 * jnp.eye(1), jnp.eye(2))
    >>> prior = MatrixNormal(jnp.zeros((1, 2)), jnp.eye(1), jnp.eye(2))
    >>> print(log_evidence_gain(q, prior, prior._replace(row_covariance=jnp.zeros((1, 1)))))
    1.3862944

    Source: Marković et al. 2024, section II-D, for a Kronecker covariance.
    """
    return gaussian_full.log_evidence_gain(*_full(posterior), *_full(prior), *_full(reduced))


def reduced_posterior(
    posterior: MatrixNormal, prior: MatrixNormal, reduced: MatrixNormal
) -> tuple[Float[Array, "rows columns"], Float[Array, "dim dim"]]:
    """Mean (rows, columns) and full covariance (rows columns, rows columns) under the reduced prior, (2.3).

    The covariance runs over W.reshape(-1); it is in general no Kronecker product, so it is not returned as one.

    >>> prior = MatrixNormal(jnp.zeros((1, 2)), jnp.eye(1), jnp.eye(2))
    >>> mean, _ = reduced_posterior(prior._replace(loc=jnp.ones((1, 2))), prior, prior)
    >>> print(mean)
    [[1. 1.]]

    Source: Marković et al. 2024, section II-D, for a Kronecker covariance.
    """
    mean, covariance = gaussian_full.reduced_posterior(*_full(posterior), *_full(prior), *_full(reduced))
    return mean.reshape(posterior.loc.shape), covariance


@WHOLE_PRODUCTS
def log_evidence_gain_of_shrinkage(
    posterior: MatrixNormal, prior: MatrixNormal, shrinkage: Real[ArrayLike, ""]
) -> Float[Array, ""]:
    """Log evidence gained by narrowing MN(M0, U0, V0) to MN(M0, theta² U0, V0), (2.4); theta = 0 removes the matrix, (2.5).

    Whitening rows and columns by the prior and turning into the posterior's eigenbases leaves rows x columns independent
    weights of prior N(0, 1), each with its own (2.4). ``prior`` positive definite. Returns nats, a scalar.

    >>> q = MatrixNormal(jnp.zeros((1, 2)), 0.25 * jnp.eye(1), jnp.eye(2))
    >>> prior = MatrixNormal(jnp.zeros((1, 2)), jnp.eye(1), jnp.eye(2))
    >>> print(log_evidence_gain_of_shrinkage(q, prior, 0.0))
    1.3862944

    Source: Marković et al. 2024, section II-D, for a Kronecker covariance.
    """
    rows, columns = jnp.linalg.cholesky(prior.row_covariance), jnp.linalg.cholesky(prior.column_covariance)
    row_values, row_basis = jnp.linalg.eigh(gaussian_full.whiten(rows, posterior.row_covariance))
    column_values, column_basis = jnp.linalg.eigh(gaussian_full.whiten(columns, posterior.column_covariance))
    left = solve_triangular(rows, posterior.loc - prior.loc, lower=True)
    whitened = solve_triangular(columns, left.T, lower=True).T
    loc = row_basis.T @ whitened @ column_basis
    scale = jnp.sqrt(row_values[:, None] * column_values[None, :])
    return jnp.sum(gaussian.log_evidence_gain_of_shrinkage(loc, scale, shrinkage))
