"""Zeros that cannot come back: a pruned network handed on to a training loop of the user's own, or merged with an update."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import KeyPath, keystr

from bayesprune.core.checks import as_booleans
from bayesprune.core.types import Array, PyTree


class KeepZerosState(NamedTuple):
    """``alive``: the tree of the parameters, True = alive. ``inner``: the state of the transformation within."""

    alive: Any
    inner: Any


def keep_zeros(
    optimizer: optax.GradientTransformation | optax.GradientTransformationExtraArgs, mask: PyTree = None
) -> optax.GradientTransformationExtraArgs:
    """Any optax transformation, by which dead weights stay at exactly zero: weight decay, momentum and noise cannot move them.

      g' = m g,    u = optimizer(g'),    w <- m (w + u),    m = [w_0 != 0], or ``mask``

    Args:
        optimizer: an optax transformation.
        mask: True = alive, in the tree of the parameters; one entry may stand for an array or a branch. None: what is exactly
            zero where ``init`` meets it is dead, and everything else alive.

    Returns:
        An optax transformation, whose ``update`` needs ``params``. Its state holds the mask, one byte for each weight, and is
        saved and loaded with it.

    Raises:
        ValueError: in ``init`` without a mask, an array that is zero throughout, dead or new as a bias is, and arrays that are
            traced, as under jit, vmap and eval_shape; a mask of another tree or shape. In ``update``: ``params`` are missing.

    Example:
        >>> import optax, bayesprune as bp
        >>> params = {"kernel": jnp.array([1.0, 0.0]), "bias": jnp.zeros(1)}
        >>> tx = bp.keep_zeros(optax.adamw(0.1), mask={"kernel": params["kernel"] != 0, "bias": True})
        >>> state = tx.init(params)
        >>> updates, state = tx.update(jax.tree.map(jnp.ones_like, params), state, params)
        >>> print(optax.apply_updates(params, updates)["kernel"][1])
        0.0

    Source: Zhu & Gupta (2018), To prune, or not to prune, section 2: masks on weights and on their gradients.
    """
    inner = optax.with_extra_args_support(optimizer)

    def init(params: PyTree) -> KeepZerosState:
        return KeepZerosState(_alive(params) if mask is None else _as_tree(mask, params), inner.init(params))

    def update(updates: PyTree, state: KeepZerosState, params: PyTree = None, **more: Any) -> tuple[PyTree, KeepZerosState]:
        if params is None:
            raise ValueError("update of keep_zeros needs the parameters: update(gradients, state, params).")
        moves, within = inner.update(where_alive(state.alive, updates), state.inner, params, **more)
        # From a weight that is no zero although it is dead, the step leads there.
        moves = jax.tree.map(lambda alive, move, weight: jnp.where(alive, move, -weight), state.alive, moves, params)
        return moves, KeepZerosState(state.alive, within)

    return optax.GradientTransformationExtraArgs(init, update)


def restore_zeros(params: PyTree, pruned: PyTree) -> PyTree:
    """The parameters with a zero wherever ``pruned``, of the same tree, is exactly zero: after an update that knew no mask.

      w <- [w_pruned != 0] w

    As of a low-rank update that is merged, W + B A, which has no zeros of its own.

    Args:
        params: arrays; ``pruned``: the network as it was, dead weights zero.

    Raises:
        ValueError: another tree, or an array of another shape.

    Example:
        >>> import bayesprune as bp
        >>> pruned = {"kernel": jnp.array([[1.0, 0.0], [0.0, 2.0]])}
        >>> merged = {"kernel": pruned["kernel"] + jnp.ones((2, 1)) @ jnp.ones((1, 2))}
        >>> print(bp.restore_zeros(merged, pruned)["kernel"])
        [[2. 0.]
         [0. 3.]]
    """
    _same_tree(pruned, params)
    return where_alive(jax.tree.map(lambda weight: jnp.asarray(weight) != 0, pruned), params)


def where_alive(alive: PyTree, tree: PyTree) -> Any:
    """The arrays of a tree, 0 where they are not alive."""
    return jax.tree.map(lambda kept, value: jnp.where(kept, value, jnp.zeros_like(value)), alive, tree)


def _alive(params: PyTree) -> Any:
    """What is no zero."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        if isinstance(leaf, jax.core.Tracer):
            raise ValueError(
                f"params{keystr(path)} is traced, as in a jitted init, where nobody sees whether it is zero throughout, as new "
                "biases are, which would then be dead for ever: give mask=, or call init outside of jit."
            )
        if np.size(leaf) and not np.any(np.asarray(leaf)):
            raise ValueError(
                f"params{keystr(path)} is zero throughout: dead, or new, as biases are at first? Say so by mask=, a tree as "
                "params, True for what is to train, such as jax.tree.map(lambda w: (w != 0) | (w.ndim < 2), params)."
            )
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) != 0, params)


def _as_tree(mask: PyTree, params: PyTree) -> Any:
    """The mask with an array of booleans for each parameter; a single one stands for an array, or for a branch of them."""

    def full(path: KeyPath, kept: object, branch: PyTree) -> Any:
        alive = as_booleans(kept, f"mask{keystr(path)}")
        return jax.tree.map(lambda leaf: jnp.broadcast_to(jnp.asarray(alive, bool), _same_shape(path, alive, leaf)), branch)

    try:
        return jax.tree_util.tree_map_with_path(full, mask, params)
    except ValueError as error:
        raise ValueError(
            f"mask must have the tree and the shapes of the parameters, or entries for whole branches: {error}"
        ) from error


def _same_shape(path: KeyPath, alive: Array, leaf: Any) -> tuple[int, ...]:
    """The shape of a parameter; of another one a mask would be broadcast, and rows taken for columns."""
    if np.ndim(alive) and np.shape(alive) != np.shape(leaf):
        raise ValueError(f"mask{keystr(path)} has shape {np.shape(alive)}, and its parameters {np.shape(leaf)}.")
    return np.shape(leaf)


def _same_tree(pruned: PyTree, params: PyTree) -> None:
    """Refuse arrays of other names or shapes."""
    shapes = [jax.tree_util.tree_flatten_with_path(tree)[0] for tree in (pruned, params)]
    theirs, ours = ({keystr(path): np.shape(leaf) for path, leaf in one} for one in shapes)
    if theirs != ours:
        name = next(name for name in [*theirs, *ours] if theirs.get(name) != ours.get(name))
        what = " and ".join(f"{who} {tree.get(name, 'none')}" for who, tree in (("pruned", theirs), ("params", ours)))
        raise ValueError(f"pruned must have the arrays of params: of {name} the shapes are {what}.")
