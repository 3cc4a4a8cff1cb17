"""Removal of weights from a correlated Gaussian posterior: what a row gains, and what is left of the others.

Derivation. With prior N(0, diag(prior_scale²)), removing weight i asks for the ratio of posterior and prior density at
w_i = 0 (Savage and Dickey), and those are the marginals: of N(loc_i, S_ii) and N(0, prior_scale_i²). The others' posterior is
that given w_i = 0; so for one weight (20.1) is (2.5) with the marginal sqrt(S_ii) as its scale. A row of a matrix-normal
posterior goes the same way, by its joint marginal N(M_r, U_rr V).
"""

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Integer, Real

from bayesprune.core.compiling import WHOLE_PRODUCTS


def row_removal_gains(
    whitened: Float[Array, "rows columns"],
    row_scale: Float[Array, " rows"],
    half_log_determinant: Float[ArrayLike, ""],
    prior_scale: Real[Array, "rows columns"],
    where: Bool[Array, " columns"] | bool = True,
) -> Float[Array, " rows"]:
    """Log evidence gained by removing each row alone of a matrix-normal posterior W ~ MN(M, U, V), (20.4).

      dF0_r = sum_j log prior_scale_rj - (n/2) log U_rr - log|V|/2 - M_r V^-1 M_r' / (2 U_rr),   n columns

    V is known by its factor, V = B B': ``whitened`` is M B'^-1, ``half_log_determinant`` log|V|/2, the sum of the logarithms of
    B's diagonal; ``row_scale`` is sqrt(U_rr) > 0. The prior is N(0, prior_scale²), independent. ``where``: the columns that are
    alive; of the others no prior has a say. Nats. Of one column it is (20.1).

    >>> print(row_removal_gains(jnp.array([[0.0, 0.0], [2.0, 0.0]]), jnp.array([0.5, 1.0]), 0.0, jnp.ones((2, 2))))
    [ 1.3862944 -2.       ]

    Source: Dickey 1971, for a matrix-normal posterior.
    """
    where = jnp.broadcast_to(where, prior_scale.shape[1:])
    spread = jnp.sum(where) * jnp.log(row_scale) + half_log_determinant
    return (
        jnp.sum(jnp.log(prior_scale), axis=1, where=where) - spread - jnp.sum((whitened / row_scale[:, None]) ** 2, axis=1) / 2
    )


def row_given_zero(
    factor: Float[Array, "rows rows"],
    by_rows: Float[Array, "rows columns"],
    by_columns: Float[Array, "columns rows"],
    index: Integer[ArrayLike, ""] | int,
) -> tuple[Float[Array, "rows rows"], Float[Array, "rows columns"], Float[Array, "columns rows"]]:
    """What is left of a matrix-normal posterior given that row ``index`` is zero: (20.3) for one row, by one reflection.

    Derivation. W = A (Z + E) B' with E standard normal has mean A Z B'. A reflection H that turns row r of A onto one
    coordinate k leaves that coordinate of H (Z + E) zero where row r is, and the others as they were: A becomes A H, Z becomes
    H Z, both without k. Nothing is subtracted from a variance, so that single precision does.

    ``factor`` is A, any square root of U; ``by_rows`` is A Z, the mean in units of the columns' deviations, ``by_columns`` is
    B Z', in units of the rows'. All three come back so, with row ``index`` of the first two and a coordinate of A exactly zero.
    A row of zeros leaves the others as they are.

    >>> factor, mean = jnp.array([[1.0, 0.0], [0.6, 0.8]]), jnp.array([[1.0], [1.0]])
    >>> left, moved, _ = row_given_zero(factor, mean, jnp.array([[1.0, 0.5]]), 1)
    >>> print(jnp.linalg.norm(left[0]).round(3), moved[:, 0].round(3))
    0.8 [0.4 0. ]

    Source: Golub & Van Loan, Matrix Computations, section 5.1, for the reflection; Hassibi & Stork 1993 for the removal.
    """
    row = factor[index]
    norm = jnp.linalg.norm(row)
    unit = row / jnp.where(norm > 0, norm, 1.0)
    at = jnp.argmax(jnp.abs(unit))
    sign = jnp.where(unit[at] < 0, -1.0, 1.0).astype(unit.dtype)
    normal = jnp.where(norm > 0, unit.at[at].add(sign), 0.0)  # its square is 2 (1 + |unit_at|)

    def turned(matrix: Array) -> Array:
        # By sums, not a product of matrices, which accelerators round to ten bits.
        along = jnp.sum(matrix * normal, axis=1) / (1.0 + jnp.abs(unit[at]))
        return matrix - along[:, None] * normal

    gone = (jnp.arange(len(row)) == at) & (norm > 0)
    left = turned(factor)
    slope = -sign * left[:, at] / jnp.where(norm > 0, norm, 1.0)
    stays = (jnp.arange(len(row)) != index)[:, None]
    left = jnp.where(stays & ~gone, left, 0.0)
    moved = jnp.where(stays, by_rows - slope[:, None] * by_rows[index], 0.0)
    return left, moved, jnp.where(gone, 0.0, turned(by_columns))


@WHOLE_PRODUCTS
def given_zero(
    loc: Float[Array, "rows columns"], factor: Float[Array, "rows rows"], alive: Bool[Array, " rows"]
) -> tuple[Float[Array, "rows columns"], Float[Array, "rows rows"]]:
    """Mean and row factor of N(loc, factor factor') given that all dead rows are zero: (20.2) for many at once, (20.3).

    Derivation. Turned into the order dead, alive, the factor is orthogonal to a lower triangle with blocks A, 0 and B, C:
    the dead are loc_D + A z, the alive loc_A + B z + C e. Zero dead rows fix z = -A^-1 loc_D and leave e as it was:

      loc_A - B A^-1 loc_D,   with factor C

    and nothing was subtracted from a variance, so that single precision does. ``factor`` is lower triangular, what comes back
    too; dead rows, and columns of the factor, are exactly zero. Rows that are zero already stay so.

    >>> mean, factor = given_zero(jnp.array([[1.0], [1.0]]), jnp.array([[1.0, 0.0], [0.6, 0.8]]), jnp.array([True, False]))
    >>> print(mean[:, 0].round(3), factor[0].round(3))
    [0.4 0. ] [0.8 0. ]

    Source: Hassibi & Stork 1993, equation 5, for several weights.
    """
    # The dead first. Rows that are zero already come last: they take no column of the triangle from the others.
    gone = ~alive & ~jnp.any(factor != 0, axis=1)
    order = jnp.argsort(jnp.where(gone, 2, alive), stable=True)
    first, last = (~alive & ~gone)[order], alive[order]
    lower = jnp.linalg.qr(factor[order].T, mode="r").T
    diagonal = jnp.diagonal(lower)
    lower = lower * jnp.where(diagonal < 0, -1.0, 1.0).astype(lower.dtype)
    eye = jnp.eye(len(alive), dtype=loc.dtype)
    z = solve_triangular(jnp.where(first & first[:, None], lower, eye), jnp.where(first[:, None], loc[order], 0.0), lower=True)
    mean = jnp.where(last[:, None], loc[order] - jnp.where(first, lower, 0.0) @ z, 0.0)
    rest = jnp.where(last & last[:, None], lower, 0.0)
    return jnp.zeros_like(mean).at[order].set(mean), jnp.zeros_like(rest).at[order[:, None], order].set(rest)
