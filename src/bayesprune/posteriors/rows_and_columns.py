"""A matrix normal by its rows and columns: its marginals, what a cut leaves of it, and removal by exact evidence (20.4)."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike

from bayesprune.core.types import Array
from bayesprune.formulas.removal import given_zero, row_given_zero, row_removal_gains


def as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of an array for the matrix normal: the last axis, a unit's weights in a column, is the columns.

    >>> as_matrix((5, 5, 3, 8)), as_matrix((8,)), as_matrix(())
    ((75, 8), (1, 8), (1, 1))
    """
    return math.prod(shape[:-1]), math.prod(shape[-1:])


def marginal(rows: ArrayLike, columns: ArrayLike, shape: tuple[int, ...]) -> jax.Array:
    """Standard deviations of single weights: sqrt(U_ii V_jj).

    >>> print(marginal(jnp.array([[1.0, 0.0], [0.6, 0.8]]), jnp.array([[2.0]]), (2,)))
    [2. 2.]
    """
    norms = [jnp.linalg.norm(factor, axis=1) for factor in (rows, columns)]
    return jnp.outer(*norms).reshape(shape)


# In one program: each of its steps would be compiled for by itself.
@jax.jit
def conditioned(
    loc: jax.Array, rows: jax.Array, columns: jax.Array, row_alive: jax.Array, column_alive: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """loc, scale and the two factors given that dead rows and columns are zero."""
    matrix, rows = given_zero(loc.reshape(len(rows), len(columns)), rows, row_alive)
    turned = matrix.T
    if len(columns) > 1:
        turned, columns = given_zero(turned, columns, column_alive)
    return turned.T.reshape(loc.shape), marginal(rows, columns, loc.shape), rows, columns


def check_whole(kept: Array) -> tuple[Any, Any]:
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


class _MatrixSide(NamedTuple):
    """Rows of a matrix normal, or its columns: a square root of their covariance, and which are alive.

    ``mean``: of the array with this side's rows, in units of the other side's deviations; ``half_log_determinant``: half the
    logarithm of the determinant of the living ones' covariance.
    """

    factor: jax.Array
    mean: jax.Array
    alive: jax.Array
    half_log_determinant: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RowRemoval:
    """What is left of a correlated array, as a matrix; its place is that of `posteriors.joint.Removal`.

    ``by_row``, ``by_column``: evidence gained by the removal of each, in parts of a weight, -inf for those that are gone.
    ``of_each``: of every weight, that of the better of its two; of one that is gone, that with which it went. ``scale``: of
    the prior, as a matrix; ``shape``: the array's own.
    """

    rows: _MatrixSide
    columns: _MatrixSide
    by_row: jax.Array
    by_column: jax.Array
    of_each: jax.Array
    scale: jax.Array
    shape: tuple[int, ...] = field(metadata={"static": True})

    @classmethod
    def start(cls, node: Any, alive: jax.Array) -> "RowRemoval":
        """Given that the dead weights are zero."""
        scale = jnp.broadcast_to(node.prior_scale, jnp.shape(node.loc)).reshape(node.matrix)
        node, shape = node.given_zero(alive), jnp.shape(node.loc)
        alive, loc = jnp.broadcast_to(alive, shape).reshape(node.matrix), jnp.asarray(node.loc).reshape(node.matrix)
        rows, columns = (
            _side(node.rows, node.columns, loc, alive.any(axis=1)), _side(node.columns, node.rows, loc.T, alive.any(axis=0)),
        )  # fmt: skip
        return cls(rows, columns, *_weighed(rows, columns, jnp.zeros_like(loc), scale), scale, shape)

    @property
    def gain(self) -> jax.Array:
        return self.of_each.reshape(self.shape)

    @property
    def alive(self) -> jax.Array:
        return _both(self.rows, self.columns).reshape(self.shape)

    def without_best(self, zeta: ArrayLike) -> tuple["RowRemoval", jax.Array]:
        """Without the row or column of the highest gain a weight, if that is above zeta; and whether there was one."""
        row, column = jnp.max(self.by_row), jnp.max(self.by_column)
        best = jnp.maximum(row, column)

        def without_row(_: None) -> tuple[_MatrixSide, _MatrixSide]:
            return _without(self.rows, self.columns, jnp.argmax(self.by_row))

        def without_column(_: None) -> tuple[_MatrixSide, _MatrixSide]:
            columns, rows = _without(self.columns, self.rows, jnp.argmax(self.by_column))
            return rows, columns

        moved = best > zeta
        branches = (lambda _: (self.rows, self.columns), without_row, without_column)
        rows, columns = jax.lax.switch(jnp.where(moved, 1 + (row < column), 0), branches, None)
        went = _both(self.rows, self.columns) & ~_both(rows, columns)
        by_row, by_column, of_each = _weighed(rows, columns, jnp.where(went, best, self.of_each), self.scale)
        return replace(self, rows=rows, columns=columns, by_row=by_row, by_column=by_column, of_each=of_each), moved


def _both(rows: _MatrixSide, columns: _MatrixSide) -> jax.Array:
    return rows.alive[:, None] & columns.alive


def _side(factor: jax.Array, other: jax.Array, loc: jax.Array, alive: jax.Array) -> _MatrixSide:
    """One side, from the triangular factors of both; dead rows of either are zero."""
    mean = solve_triangular(other + jnp.diag(jnp.where(jnp.diagonal(other) == 0, 1.0, 0.0)), loc.T, lower=True).T
    diagonal = jnp.abs(jnp.diagonal(factor))
    return _MatrixSide(factor, mean, alive, jnp.sum(jnp.log(jnp.where(diagonal > 0, diagonal, 1.0))))


def _weighed(
    rows: _MatrixSide, columns: _MatrixSide, gain: jax.Array, scale: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The evidence of what is alive, by row, by column and of each weight; ``gain``: of what is gone."""
    by_row = _gains(rows, columns, scale)
    # The one column of a full covariance is the whole array, whose rows are the weights.
    by_column = jnp.full(1, -jnp.inf, gain.dtype) if scale.shape[1] == 1 else _gains(columns, rows, scale.T)
    better = jnp.maximum(by_row[:, None], by_column)
    return by_row, by_column, jnp.where(_both(rows, columns), better, gain)


def _gains(side: _MatrixSide, other: _MatrixSide, scale: jax.Array) -> jax.Array:
    """Evidence gained by removing each row, given what is gone already, a weight."""
    spread = jnp.linalg.norm(side.factor, axis=1)
    # What has no spread left has no density at zero: it stays.
    weighed = side.alive & jnp.any(other.alive) & (spread > 0)
    gains = row_removal_gains(side.mean, jnp.where(weighed, spread, 1.0), other.half_log_determinant, scale, other.alive)
    return jnp.where(weighed, gains / jnp.maximum(jnp.sum(other.alive), 1), -jnp.inf)


def _without(side: _MatrixSide, other: _MatrixSide, index: jax.Array) -> tuple[_MatrixSide, _MatrixSide]:
    """Both sides given that row ``index`` of the first is zero, (20.3)."""
    factor, mean, of_other = row_given_zero(side.factor, side.mean, other.mean, index)
    left = side.half_log_determinant - jnp.log(jnp.linalg.norm(side.factor[index]))
    return _MatrixSide(factor, mean, side.alive.at[index].set(False), left), other._replace(mean=of_other)
