"""Laplace's approximation: the matrix normal nearest to a posterior."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Integer, Real

TURNS = 50  # after which it has long settled


def nearest_matrix_normal(
    rows: Float[Array, " rows"], columns: Float[Array, " columns"], precision: Real[ArrayLike, ""]
) -> tuple[Float[Array, " rows"], Float[Array, " columns"]]:
    """The variances u_i v_j nearest to those of precisions rows_i columns_j + delta, (25.6).

      u_i = n / sum_j v_j p_ij,   v_j = m / sum_i u_i p_ij,   p_ij = rows_i columns_j + delta

    in turns: the least KL(q || p) over matrix normals q, where p has the Kronecker product and the prior's precision in one
    basis. Without a prior it is exact. ``rows``, (m,), and ``columns``, (n,): eigenvalues, not negative; delta > 0.

    >>> u, v = nearest_matrix_normal(jnp.array([0.0, 3.0]), jnp.array([1.0, 1.0]), 1.0)
    >>> print(jnp.outer(u, v).round(3).tolist())
    [[1.0, 1.0], [0.25, 0.25]]

    Source: the stationary points of KL(q || p), as of Louizos & Welling 2016 for a matrix-normal q.
    """
    product = rows[:, None] * columns + precision
    # From the precisions' own scale: with v = 1 the first u would be far off where columns are far from 1.
    v = 1.0 / jnp.sqrt(jnp.mean(product, axis=0))
    u = 1.0 / jnp.mean(product * v, axis=1)

    def turn(_: Integer[ArrayLike, ""], pair: tuple[Array, Array]) -> tuple[Array, Array]:
        v = 1.0 / jnp.mean(product * pair[0][:, None], axis=0)
        return 1.0 / jnp.mean(product * v, axis=1), v

    found: tuple[Array, Array] = jax.lax.fori_loop(0, TURNS, turn, (u, v))
    return found
