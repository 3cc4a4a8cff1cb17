"""Removal by evidence: of independent weights at once, of those that vary together one after the other, exactly.

Derivation. The evidence of removing a set of weights is, by the chain rule, the sum of what each removal gains given that those
before it are zero. Of independent weights the others do not matter; of correlated ones a second of two twins loses all that the
first had to lose, and a cut by gains that were taken at the start would remove both.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from bayesprune.core.types import PyTree, varies_together
from bayesprune.formulas.removal import row_given_zero, row_removal_gains
from bayesprune.posteriors.correlated import Correlated
from bayesprune.prune.scores import check_evidence, evidence


class _Side(NamedTuple):
    """Rows of a matrix normal, or its columns: a square root of their covariance, and which are alive.

    ``mean``: of the array with this side's rows, in units of the other side's deviations; ``half_log_determinant``: half the
    logarithm of the determinant of the living ones' covariance.
    """

    factor: jax.Array
    mean: jax.Array
    alive: jax.Array
    half_log_determinant: jax.Array


class _Left(NamedTuple):
    """What is left of a correlated array, as a matrix.

    ``by_row``, ``by_column``: evidence gained by the removal of each, in parts of a weight, -inf for those that are gone.
    ``gain``: of every weight, that of the better of its two; of one that is gone, that with which it went.
    """

    rows: _Side
    columns: _Side
    by_row: jax.Array
    by_column: jax.Array
    gain: jax.Array


Zetas = Callable[[dict[str, jax.Array]], dict[str, jax.Array]]


def one_by_one(posterior: PyTree, alive: PyTree, zetas: Zetas) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Evidence gained by every weight's removal, and the mask without those where it exceeds zeta.

    ``zetas``: the gains, site -> array -> a threshold by site, in nats a weight; asked anew after every removal. The sum of the
    gains over what is cut is the evidence that the cut gains, exact where the posterior is. NaN exceeds nothing, and nothing
    exceeds NaN.
    """
    check_evidence(posterior)
    joint = {site: node for site, node in posterior.items() if varies_together(node)}
    # Weights by themselves: their gains stay, whatever else goes.
    gain = {site: -value for site, value in evidence({s: n for s, n in posterior.items() if s not in joint}).items()}
    scales = {site: jnp.broadcast_to(n.prior_scale, jnp.shape(n.loc)).reshape(n.matrix) for site, n in joint.items()}
    left = {site: _start(node, alive[site], scales[site]) for site, node in joint.items()}
    shapes = {site: jnp.shape(node.loc) for site, node in posterior.items()}

    def gains(left: dict[str, _Left]) -> dict[str, jax.Array]:
        found = gain | {site: part.gain.reshape(shapes[site]) for site, part in left.items()}
        return {site: found[site] for site in posterior}

    def remove(carry: tuple[dict[str, _Left], jax.Array]) -> tuple[dict[str, _Left], jax.Array]:
        zeta = zetas(gains(carry[0]))
        done = {site: _remove_best(part, scales[site], zeta[site]) for site, part in carry[0].items()}
        return {site: part for site, (part, _) in done.items()}, jnp.any(jnp.stack([moved for _, moved in done.values()]))

    if left:
        left, _ = jax.lax.while_loop(lambda carry: carry[1], remove, (left, jnp.array(True)))
    gain = gains(left)
    zeta = zetas(gain)
    kept = {site: alive[site] & ~(gain[site] > zeta[site]) for site in posterior if site not in joint}
    kept |= {site: alive[site] & _alive(part).reshape(shapes[site]) for site, part in left.items()}
    return gain, {site: kept[site] for site in posterior}


def _start(node: Correlated, alive: jax.Array, scale: jax.Array) -> _Left:
    """A node given that its dead weights are zero."""
    node = node.given_zero(alive)
    alive = jnp.broadcast_to(alive, jnp.shape(node.loc)).reshape(node.matrix)
    loc = jnp.asarray(node.loc).reshape(node.matrix)
    sides = _side(node.rows, node.columns, loc, alive.any(axis=1)), _side(node.columns, node.rows, loc.T, alive.any(axis=0))
    return _weighed(*sides, jnp.zeros_like(loc), scale)


def _side(factor: jax.Array, other: jax.Array, loc: jax.Array, alive: jax.Array) -> _Side:
    """One side, from the triangular factors of both; dead rows of either are zero."""
    mean = solve_triangular(other + jnp.diag(jnp.where(jnp.diagonal(other) == 0, 1.0, 0.0)), loc.T, lower=True).T
    diagonal = jnp.abs(jnp.diagonal(factor))
    return _Side(factor, mean, alive, jnp.sum(jnp.log(jnp.where(diagonal > 0, diagonal, 1.0))))


def _alive(left: _Left) -> jax.Array:
    return left.rows.alive[:, None] & left.columns.alive


def _weighed(rows: _Side, columns: _Side, gain: jax.Array, scale: jax.Array) -> _Left:
    """The array with the evidence of what is alive taken anew; ``gain``: of what is gone."""
    by_row = _gains(rows, columns, scale)
    # The one column of a full covariance is the whole array, whose rows are the weights.
    by_column = jnp.full(1, -jnp.inf, gain.dtype) if scale.shape[1] == 1 else _gains(columns, rows, scale.T)
    better = jnp.maximum(by_row[:, None], by_column)
    return _Left(rows, columns, by_row, by_column, jnp.where(rows.alive[:, None] & columns.alive, better, gain))


def _gains(side: _Side, other: _Side, scale: jax.Array) -> jax.Array:
    """Evidence gained by removing each row, given what is gone already, a weight."""
    spread = jnp.linalg.norm(side.factor, axis=1)
    # What has no spread left has no density at zero: it stays.
    weighed = side.alive & jnp.any(other.alive) & (spread > 0)
    gains = row_removal_gains(side.mean, jnp.where(weighed, spread, 1.0), other.half_log_determinant, scale, other.alive)
    return jnp.where(weighed, gains / jnp.maximum(jnp.sum(other.alive), 1), -jnp.inf)


def _remove_best(left: _Left, scale: jax.Array, zeta: jax.Array) -> tuple[_Left, jax.Array]:
    """Without the row or column of the highest gain a weight, if that is above zeta; and whether there was one."""
    row, column = jnp.max(left.by_row), jnp.max(left.by_column)
    best = jnp.maximum(row, column)

    def without_row(_: None) -> tuple[_Side, _Side]:
        return _without(left.rows, left.columns, jnp.argmax(left.by_row))

    def without_column(_: None) -> tuple[_Side, _Side]:
        columns, rows = _without(left.columns, left.rows, jnp.argmax(left.by_column))
        return rows, columns

    moved = best > zeta
    branches = (lambda _: (left.rows, left.columns), without_row, without_column)
    rows, columns = jax.lax.switch(jnp.where(moved, 1 + (row < column), 0), branches, None)
    went = _alive(left) & ~(rows.alive[:, None] & columns.alive)
    return _weighed(rows, columns, jnp.where(went, best, left.gain), scale), moved


def _without(side: _Side, other: _Side, index: jax.Array) -> tuple[_Side, _Side]:
    """Both sides given that row ``index`` of the first is zero, (20.3)."""
    factor, mean, of_other = row_given_zero(side.factor, side.mean, other.mean, index)
    left = side.half_log_determinant - jnp.log(jnp.linalg.norm(side.factor[index]))
    return _Side(factor, mean, side.alive.at[index].set(False), left), other._replace(mean=of_other)
