"""What correlated Gaussian posteriors share: the node, how it is cut and drawn from, and which masks go with it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.types import MeanField, varies_together
from bayesprune.formulas.removal import given_zero
from bayesprune.posteriors.family import Named


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Correlated(MeanField):
    """Gaussian weights of one array that vary together, q(W) = MN(loc, U, V) with U = rows rows', V = columns columns'.

    Seen as a matrix whose last axis is the array's own. ``rows`` and ``columns``: lower triangular, the Cholesky factors of
    Cov(W_ij, W_kl) = U_ik V_jl. A full covariance is one column, every weight a row, with ``columns`` = 1. ``scale``: the
    marginal standard deviations, what single weights are scored by; the evidence that (2.5) reads from them is exact for each
    weight alone, (20.1).
    """

    rows: Any = None
    columns: Any = None

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of the array as its covariance sees it."""
        return jnp.shape(self.rows)[0], jnp.shape(self.columns)[0]

    def given_zero(self, alive: Any) -> "Correlated":
        """The posterior of the others given that the dead weights are zero, (20.3).

        Raises `ValueError` for dead weights that are no whole rows and columns: their posterior is no matrix normal.
        """
        alive = jnp.broadcast_to(alive, jnp.shape(self.loc))
        if _all_alive(alive):
            return self
        row_alive, column_alive = _check_whole(alive.reshape(self.matrix))
        loc, scale, rows, columns = _given_zero(jnp.asarray(self.loc), self.rows, self.columns, row_alive, column_alive)
        return replace(self, loc=loc, scale=scale, rows=rows, columns=columns)


# In one program: each of its steps would be compiled for by itself.
@jax.jit
def _given_zero(
    loc: jax.Array, rows: jax.Array, columns: jax.Array, row_alive: jax.Array, column_alive: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """loc, scale and the two factors given that dead rows and columns are zero."""
    matrix, rows = given_zero(loc.reshape(len(rows), len(columns)), rows, row_alive)
    turned = matrix.T
    if len(columns) > 1:
        turned, columns = given_zero(turned, columns, column_alive)
    return turned.T.reshape(loc.shape), marginal(rows, columns, loc.shape), rows, columns


def marginal(rows: jax.Array, columns: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Standard deviations of single weights: sqrt(U_ii V_jj).

    >>> print(marginal(jnp.array([[1.0, 0.0], [0.6, 0.8]]), jnp.array([[2.0]]), (2,)))
    [2. 2.]
    """
    norms = [jnp.linalg.norm(factor, axis=1) for factor in (rows, columns)]
    return jnp.outer(*norms).reshape(shape)


@dataclass(frozen=True)
class CorrelatedNames(Named):
    """Parameters of a `Correlated` by name: the files of its two kinds say which."""

    stem: str = "auto"
    hidden: str = "dense"
    fields: tuple[str, ...] = ("loc",)

    def draw(self, rng_key: jax.Array, node: Correlated) -> jax.Array:
        """One draw of the network's weights."""
        z = jax.random.normal(rng_key, node.matrix, jnp.result_type(node.loc))
        return (node.loc + (node.rows @ z @ node.columns.T).reshape(jnp.shape(node.loc))) * node.unit

    def moments(self, node: Correlated) -> tuple[jax.Array, jax.Array]:
        """Mean and marginal variance of the network's weights."""
        return node.loc * node.unit, jnp.square(node.scale * node.unit)


def as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of an array for the matrix normal: the last axis, a unit's weights in a column, is the columns.

    >>> as_matrix((5, 5, 3, 8)), as_matrix((8,))
    ((75, 8), (1, 8))
    """
    return math.prod(shape[:-1]), shape[-1]


def _all_alive(alive: jax.Array) -> bool:
    """Whether it is known that nothing is to be cut: then nothing is computed."""
    return not isinstance(alive, jax.core.Tracer) and bool(np.all(alive))


def check_given(nodes: Mapping[str, Any], mask: Mapping[str, Any]) -> None:
    """Refuse a mask, site -> booleans, that a matrix normal cannot be cut by, or that is traced, so that nobody can say."""
    for site, alive in mask.items():
        if not varies_together(nodes[site]) or nodes[site].matrix[1] == 1:
            continue
        if isinstance(alive, jax.core.Tracer):
            raise ValueError(
                f"mask of {site!r} has to be known where a matrix normal is cut, for it has to be of whole rows and columns, "
                "and within jax.jit it is not: close over it, or leave it out, for weights at loc = scale = 0 are dead anyway."
            )
        _check_whole(np.reshape(alive, nodes[site].matrix))


def check_conditioned(nodes: Mapping[str, Any], mask: Mapping[str, Any]) -> None:
    """Refuse a mask, site -> booleans, that cuts weights whose absence the others' posterior does not know of."""
    for site, alive in mask.items():
        node = nodes[site]
        if varies_together(node) and bool(jnp.any(~jnp.asarray(alive) & (node.scale != 0))):
            cut = any(bool(jnp.any(one.scale == 0)) for one in nodes.values() if varies_together(one))
            raise ValueError(
                f"mask cuts weights of {site!r} that params keep, and the others' posterior is another without them: "
                + ("params are those of another mask, which cuts fewer; " if cut else "")
                + "give the parameters and the mask of one pruning, pruned.params and pruned.mask of bp.bmr_prune"
                + (", not bp.connected's: what it cuts beyond changes no output." if cut else ".")
            )


def _check_whole(kept: Any) -> tuple[Any, Any]:
    """Which rows and which columns of a matrix of booleans are alive. Refuses what is no matrix of whole ones."""
    rows, columns = kept.any(axis=1), kept.any(axis=0)
    if kept.shape[1] == 1 or isinstance(kept, jax.core.Tracer):  # what is traced was checked where its values were known
        return rows, columns
    known = np.asarray(kept)  # by NumPy: within `jax.jit` JAX would trace what is known
    if (known != (known.any(axis=1, keepdims=True) & known.any(axis=0))).any():
        raise ValueError(
            "a matrix-normal posterior stays one only where whole rows or columns are cut, and this mask cuts single weights: "
            "give one of whole rows and columns (the last axis is the columns), such as bp.bmr_prune(params) finds without a "
            "mask, or fit with posterior='full'."
        )
    return rows, columns
