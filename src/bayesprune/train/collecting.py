"""Moments of the parameters along a path of gradient descent, collected by an optax transformation."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from bayesprune.core.trees import of_kind
from bayesprune.core.types import Array, PyTree
from bayesprune.formulas import swag as formula
from bayesprune.formulas.swag import PathMoments


class Collected(NamedTuple):
    """``step``: of the path; ``points``: how many there were; ``moments``: theirs, by the parameter's name."""

    step: jax.Array
    points: jax.Array
    moments: Any


def collecting(every: int, rank: int) -> optax.GradientTransformation:
    """The last of an optax chain: moments of the parameters after every so many steps; it moves nothing.

    >>> import optax
    >>> optimizer = optax.chain(optax.sgd(1.0), collecting(every=1, rank=0))
    >>> params, gradient = {"w": jnp.zeros(())}, {"w": jnp.ones(())}
    >>> state = optimizer.init(params)
    >>> for _ in range(3):
    ...     updates, state = optimizer.update(gradient, state, params)
    ...     params = optax.apply_updates(params, updates)
    >>> print(state[1].moments["w"].mean, state[1].moments["w"].squares)
    -2.0 2.0
    """

    def start(leaf: Array) -> PathMoments:
        zeros = jnp.zeros_like(leaf)
        return PathMoments(zeros, zeros, jnp.zeros((rank, *jnp.shape(leaf)), zeros.dtype))

    def init(params: PyTree) -> Collected:
        zero = jnp.zeros((), jnp.int32)
        return Collected(zero, zero, jax.tree.map(start, params))

    def update(updates: PyTree, state: Collected, params: PyTree = None) -> tuple[Any, Collected]:
        step, count = state.step + 1, state.points + 1
        moved = optax.apply_updates(params, updates)
        add = lambda: jax.tree.map(  # noqa: E731
            lambda leaf, m: formula.after_point(m, leaf, count), moved, state.moments
        )
        due = step % every == 0
        moments = jax.lax.cond(due, add, lambda: state.moments)
        return updates, Collected(step, jnp.where(due, count, state.points), moments)

    return optax.GradientTransformation(init, update)


def collected(opt_state: PyTree) -> Collected:
    """What was collected on the way, in an optimiser's state."""
    return of_kind(opt_state, Collected)[0]
