"""Removal by evidence: of independent weights at once, of those that vary together one after the other, exactly.

Derivation. The evidence of removing a set of weights is, by the chain rule, the sum of what each removal gains given that those
before it are zero. Of independent weights the others do not matter; of correlated ones a second of two twins loses all that the
first had to lose, and a cut by gains that were taken at the start would remove both.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from bayesprune.core.types import PyTree
from bayesprune.formulas.removal import row_removal_gains
from bayesprune.posteriors.correlated import Correlated
from bayesprune.prune.scores import check_evidence, evidence


class _Side(NamedTuple):
    """Rows of a matrix normal, or its columns: their covariance, and which are alive."""

    covariance: jax.Array
    alive: jax.Array


class _Left(NamedTuple):
    """What is left of a correlated array, as a matrix.

    ``by_row``, ``by_column``: evidence gained by the removal of each, in parts of a weight, -inf for those that are gone.
    ``gain``: of every weight, that of the better of its two; of one that is gone, that with which it went.
    """

    loc: jax.Array
    rows: _Side
    columns: _Side
    by_row: jax.Array
    by_column: jax.Array
    gain: jax.Array


Zetas = Callable[[dict[str, jax.Array]], dict[str, jax.Array]]


def one_by_one(posterior: PyTree, alive: PyTree, zetas: Zetas) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Evidence gained by every weight's removal, and the mask without those where it exceeds zeta.

    ``zetas``: the gains, site -> array -> a threshold by site, in nats a weight; asked anew after every removal. The sum of the
    gains over what is cut is the evidence that the cut gains, exact where the posterior is.
    """
    check_evidence(posterior)
    joint = {site: node for site, node in posterior.items() if isinstance(node, Correlated)}
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
    kept = {site: alive[site] & (gain[site] <= zeta[site]) for site in posterior if site not in joint}
    kept |= {site: alive[site] & _alive(part).reshape(shapes[site]) for site, part in left.items()}
    return gain, {site: kept[site] for site in posterior}


def _start(node: Correlated, alive: jax.Array, scale: jax.Array) -> _Left:
    """A node given that its dead weights are zero."""
    node = node.given_zero(alive)
    alive = jnp.broadcast_to(alive, jnp.shape(node.loc)).reshape(node.matrix)
    rows, columns = _Side(node.rows @ node.rows.T, alive.any(axis=1)), _Side(node.columns @ node.columns.T, alive.any(axis=0))
    loc = jnp.asarray(node.loc).reshape(node.matrix)
    return _weighed(loc, rows, columns, jnp.zeros_like(loc), scale)


def _alive(left: _Left) -> jax.Array:
    return left.rows.alive[:, None] & left.columns.alive


def _weighed(loc: jax.Array, rows: _Side, columns: _Side, gain: jax.Array, scale: jax.Array) -> _Left:
    """The array with the evidence of what is alive taken anew; ``gain``: of what is gone."""
    by_row = _gains(loc, rows, columns, scale)
    # The one column of a full covariance is the whole array, whose rows are the weights.
    by_column = jnp.full(1, -jnp.inf, loc.dtype) if loc.shape[1] == 1 else _gains(loc.T, columns, rows, scale.T)
    better = jnp.maximum(by_row[:, None], by_column)
    return _Left(loc, rows, columns, by_row, by_column, jnp.where(rows.alive[:, None] & columns.alive, better, gain))


def _gains(loc: jax.Array, side: _Side, other: _Side, scale: jax.Array) -> jax.Array:
    """Evidence gained by removing each row, given what is gone already, a weight."""
    variance = jnp.where(side.alive, jnp.diagonal(side.covariance), 1.0)  # of the dead any number that has a logarithm
    gains = row_removal_gains(loc, variance, other.covariance, scale, other.alive)
    return jnp.where(side.alive, gains / jnp.maximum(jnp.sum(other.alive), 1), -jnp.inf)


def _remove_best(left: _Left, scale: jax.Array, zeta: jax.Array) -> tuple[_Left, jax.Array]:
    """Without the row or column of the highest gain a weight, if that is above zeta; and whether there was one."""
    row, column = jnp.max(left.by_row), jnp.max(left.by_column)
    moved = jnp.maximum(row, column) > zeta
    loc, rows, gone = _without(left.loc, left.rows, jnp.argmax(left.by_row), moved & (row >= column))
    turned, columns, other = _without(loc.T, left.columns, jnp.argmax(left.by_column), moved & (row < column))
    gain = jnp.where(_alive(left), jnp.where(gone[:, None], row, jnp.where(other, column, left.gain)), left.gain)
    return _weighed(turned.T, rows, columns, gain, scale), moved


def _without(loc: jax.Array, side: _Side, index: jax.Array, goes: jax.Array) -> tuple[jax.Array, _Side, jax.Array]:
    """Rows of a matrix given that row ``index`` is zero, (20.2), if it ``goes``; and which rows do."""
    gone = goes & (jnp.arange(len(side.alive)) == index)
    slope = jnp.where(goes, side.covariance[:, index] / jnp.where(goes, side.covariance[index, index], 1.0), 0.0)
    rest = side.covariance - jnp.outer(slope, side.covariance[index])
    stays = ~gone
    loc = jnp.where(stays[:, None], loc - slope[:, None] * loc[index], 0.0)
    return loc, _Side(jnp.where(stays & stays[:, None], rest, 0.0), side.alive & stays), gone
