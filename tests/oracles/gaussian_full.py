"""Gaussian evidence with full covariance: (2.2) and (2.3) with matrices.

Derivation. Whiten by the Cholesky factor of the prior's covariance, prior mean at the origin: the prior becomes N(0, I), the
posterior N(l, S), the reduced prior N(m, A). With e = l - m and W = A + S (I - A), whose determinant is
det(S) det(A) det(S^-1 + A^-1 - I), the precision form of (2.2), (2.3) turns into

    dF   = -0.5 log det W - 0.5 [ e' (I - A) W^-1 e - 2 m' A W^-1 e - m' A W^-1 S m - m' m ]
    mean = m + A W^-1 (e + S m),    covariance = A W^-1 S

so neither S nor A is inverted: a singular A removes weights exactly, and strong data cost no digits.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from bayesprune.core.compiling import WHOLE_PRODUCTS

Vector = Float[Array, "dim"]
Matrix = Float[Array, "dim dim"]


class _Whitened(NamedTuple):
    """The letters of the derivation above: S, A, l - m, m, W, and the prior's Cholesky factor."""

    posterior: Matrix
    reduced: Matrix
    e: Vector
    m: Vector
    w: Matrix
    factor: Matrix


def whiten(factor: Matrix, covariance: Matrix) -> Matrix:
    """Covariance (dim, dim) seen in coordinates where ``factor @ factor.T`` is the identity; ``factor`` lower triangular.

    >>> print(whiten(jnp.array([[2.0]]), jnp.array([[8.0]])))
    [[2.]]
    """
    half = solve_triangular(factor, covariance, lower=True)
    return solve_triangular(factor, half.T, lower=True)


@WHOLE_PRODUCTS
def _whitened(
    loc: Vector,
    covariance: Matrix,
    prior_loc: Vector,
    prior_covariance: Matrix,
    reduced_loc: Vector,
    reduced_covariance: Matrix,
) -> _Whitened:
    factor = jnp.linalg.cholesky(prior_covariance)
    posterior, reduced = whiten(factor, covariance), whiten(factor, reduced_covariance)
    m = solve_triangular(factor, reduced_loc - prior_loc, lower=True)
    e = solve_triangular(factor, loc - reduced_loc, lower=True)
    return _Whitened(posterior, reduced, e, m, reduced + posterior - posterior @ reduced, factor)


@WHOLE_PRODUCTS
def log_evidence_gain(
    loc: Vector,
    covariance: Matrix,
    prior_loc: Vector,
    prior_covariance: Matrix,
    reduced_loc: Vector,
    reduced_covariance: Matrix,
) -> Float[Array, ""]:
    """Log evidence under the reduced prior minus that under the full one, for a Gaussian posterior of any covariance, (2.2).

    Shapes: locations (dim,), covariances (dim, dim), symmetric; the prior's must be positive definite, the reduced prior's may
    be singular and must leave P = Pq + P1 - P0 positive definite (every narrowing of the prior does). Returns nats, a scalar.

    >>> zero, eye = jnp.zeros(2), jnp.eye(2)
    >>> print(log_evidence_gain(zero, 0.25 * eye, zero, eye, zero, 0 * eye))  # 2 log 2: both weights removed
    1.3862944

    Source: Marković et al. 2024, section II-D; Friston & Penny 2011. The factor 1/2 on log |prior covariance| is kept.
    """
    posterior, reduced, e, m, w, _ = _whitened(loc, covariance, prior_loc, prior_covariance, reduced_loc, reduced_covariance)
    solved = jnp.linalg.solve(w, jnp.column_stack([e, posterior @ m]))
    we, wsm = solved[:, 0], solved[:, 1]
    square = e @ (we - reduced @ we) - 2.0 * m @ (reduced @ we) - m @ (reduced @ wsm) - m @ m
    return -0.5 * jnp.linalg.slogdet(w)[1] - 0.5 * square


@WHOLE_PRODUCTS
def reduced_posterior(
    loc: Vector,
    covariance: Matrix,
    prior_loc: Vector,
    prior_covariance: Matrix,
    reduced_loc: Vector,
    reduced_covariance: Matrix,
) -> tuple[Vector, Matrix]:
    """Mean and covariance of the posterior under the reduced prior, (2.3).

    Arguments as for `log_evidence_gain`. Returns (mean (dim,), covariance (dim, dim), symmetric). Directions in which the
    reduced prior has no variance keep its mean and none of their own.

    >>> zero, eye = jnp.zeros(2), jnp.eye(2)
    >>> mean, covariance = reduced_posterior(zero + 1, 0.25 * eye, zero, eye, zero, eye)
    >>> print(mean, covariance[0])  # the same prior: the same posterior
    [1. 1.] [0.25 0.  ]

    Source: Marković et al. 2024, section II-D.
    """
    posterior, reduced, e, m, w, factor = _whitened(
        loc, covariance, prior_loc, prior_covariance, reduced_loc, reduced_covariance
    )
    solved = reduced @ jnp.linalg.solve(w, jnp.column_stack([e + posterior @ m, posterior]))
    spread = factor @ solved[:, 1:] @ factor.T
    return reduced_loc + factor @ solved[:, 0], 0.5 * (spread + spread.T)
