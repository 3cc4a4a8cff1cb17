"""Laplace's approximation: what a prior precision of each weight leaves to gain, and the matrix normal nearest to a posterior.

Derivation. About a maximum w of log p(D | w) with the negative second derivatives H, and a prior N(0, 1/delta) of each weight,
the log joint density is a parabola of precision P = H + delta, whose integral is the evidence. All of it is in units of the
network's own weights.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Integer, Real


def gain_at_own_precision(ratio: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """The evidence gained by the removal of a weight whose prior precision is best for itself alone, (25.7): never above 0.

      dF0 = -(k - 1 - log k)/2,   k = H w² > 1;   0 where k <= 1, for then the best precision is infinite

    ``ratio``: k, of the w that has the highest likelihood. So a prior of its own for every weight leaves nothing to remove.

    >>> print(gain_at_own_precision(1.0))
    -0.0

    Source: the maximum of (25.1) over delta, 1/delta = w² - 1/H, in (2.5); Tipping & Faul 2003 for the maximum.
    """
    k = jnp.maximum(jnp.asarray(ratio), 1.0)
    return -0.5 * (k - 1.0 - jnp.log(k))


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
