"""Forms of a curvature: a Kronecker product for each array, or all of it; each a sum over rows' gradients.

Its diagonal needs no gradients of rows: see `once.squares_over_rows`.

A form has ``start(weights)``, zeros, and ``add(sums, gradients)`` with gradients site -> (rows, *shape).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bayesprune.infer.curvature.over_rows import Arrays
from bayesprune.posteriors.rows_and_columns import as_matrix

# Of products of gradients, which accelerators would round to ten bits.
EXACT = jax.lax.Precision.HIGHEST


class Factors(NamedTuple):
    """The partial traces of an array's curvature: over its columns, (rows, rows), and over its rows, (columns, columns)."""

    rows: jax.Array
    columns: jax.Array


def start_kronecker(weights: Arrays) -> dict[str, Factors]:
    """Zeros for the two factors of each array, seen as a matrix whose last axis is its columns."""
    sizes = {site: as_matrix(leaf.shape) for site, leaf in weights.items()}
    return {site: Factors(*(jnp.zeros((size, size), weights[site].dtype) for size in sizes[site])) for site in weights}


def add_kronecker(sums: dict[str, Factors], gradients: Arrays) -> dict[str, Factors]:
    """Partial traces, (25.5): G G' and G' G of the rows' gradients G as matrices.

    Of a curvature that is a Kronecker product A x B they are A tr(B) and B tr(A), so that their product over tr(A) tr(B), the
    trace of either, is the curvature.
    """
    added = {}
    for site, total in sums.items():
        g = gradients[site].reshape((-1, len(total.rows), len(total.columns)))
        rows = jnp.einsum("nij,nkj->ik", g, g, precision=EXACT)
        added[site] = Factors(total.rows + rows, total.columns + jnp.einsum("nij,nik->jk", g, g, precision=EXACT))
    return added


def start_full(weights: Arrays) -> jax.Array:
    """Zeros for all weights together, array after array in the order of ``weights``."""
    size = sum(leaf.size for leaf in weights.values())
    return jnp.zeros((size, size), jnp.result_type(*weights.values()))


def add_full(sums: jax.Array, gradients: Arrays) -> jax.Array:
    """Outer products of the rows' gradients."""
    flat = jnp.concatenate([g.reshape((len(g), -1)) for g in gradients.values()], axis=1)
    return sums + jnp.einsum("ni,nj->ij", flat, flat, precision=EXACT)
