"""Decision trees: an operation of our own, which JAX has not, so that files and engines walk them as each does best."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive as JaxPrimitive
from jax.interpreters import batching, mlir
from jaxtyping import ArrayLike, Float, Integer

from bayesprune.structure.graph import CONSTANT, Shape, Signals, Value
from bayesprune.structure.jaxprs import Equation
from bayesprune.structure.primitive import Params, Primitive, Walk


def walked(
    x: Float[ArrayLike, "rows columns"],
    column: Integer[ArrayLike, " nodes"],
    at: Float[ArrayLike, " nodes"],
    below: Integer[ArrayLike, " nodes"],
    values: Float[ArrayLike, "nodes targets"],
    roots: Integer[ArrayLike, " trees"],
    turns: int,
    depth: int,
) -> Float[jax.Array, "rows numbers"]:
    """What trees add up to for each row, (rows, turns x targets).

    A row goes from each root, ``depth`` times, to the node after ``below`` where its number in ``column`` is more than ``at``,
    else to ``below``; in a leaf, where that is 0, it stays. Trees add the ``values`` of their leaves to one group of numbers
    after the other, by turns.

    >>> column, at, below = np.zeros(3, int), np.array([0.5, 0.0, 0.0]), np.array([1, 0, 0])
    >>> walked(np.array([[0.2], [0.7]]), column, at, below, np.array([[0.0], [-1.0], [1.0]]), np.array([0]), 1, 1).tolist()
    [[-1.0], [1.0]]
    """
    nodes = [jnp.asarray(array) for array in (column, at, below, values, roots)]
    return trees_p.bind(jnp.asarray(x), *nodes, turns=turns, depth=depth)  # type: ignore[no-any-return]


def follows(below: Integer[np.ndarray, " nodes"], roots: Integer[np.ndarray, " trees"]) -> bool:
    """Whether trees stand one after the other, and every node leads to later ones of its own: a walk without a limit ends.

    >>> follows(np.array([1, 0, 0, 4, 0, 0]), np.array([0, 3])), follows(np.array([1, 0, 0, 2, 0, 0]), np.array([0, 3]))
    (True, False)
    """
    ends, inner = np.append(roots[1:], len(below)), np.flatnonzero(below)
    if not len(roots) or roots[0] != 0 or not (roots < ends).all():
        return False
    last = ends[np.searchsorted(roots, inner, side="right") - 1]
    return bool(((below[inner] > inner) & (below[inner] + 1 < last)).all())


def by_gathers(x: jax.Array, *nodes: jax.Array, turns: int, depth: int) -> jax.Array:
    """The same by operations that JAX has."""
    column, at, below, values, roots = nodes
    rows, numbers = x.shape[0], turns * values.shape[1]

    def one_down(_: object, node: jax.Array) -> jax.Array:
        own = jnp.take_along_axis(x, column[node], axis=1, mode="clip")
        following = below[node]
        return jnp.where(following > 0, following + (own > at[node]).astype(following.dtype), node)

    node = jax.lax.fori_loop(0, depth, one_down, jnp.broadcast_to(roots, (rows, roots.shape[0])))
    return jnp.sum(values[node].reshape((rows, -1, numbers)), axis=1)


trees_p = JaxPrimitive("trees")
trees_p.def_impl(jax.jit(by_gathers, static_argnames=("turns", "depth")))
trees_p.def_abstract_eval(
    lambda x, column, at, below, values, roots, *, turns, depth: jax.core.ShapedArray(
        (x.shape[0], turns * values.shape[1]), values.dtype
    )
)
mlir.register_lowering(trees_p, mlir.lower_fun(by_gathers, multiple_results=False))


def _batched(operands: Any, axes: Any, **params: Any) -> tuple[jax.Array, int]:
    """Of several sets of rows those of all together; trees are never batched."""
    (x, *nodes), (axis, *others) = operands, axes
    assert not any(isinstance(one, int) for one in others)
    x = jnp.moveaxis(x, axis, 0)
    made = trees_p.bind(x.reshape((-1, x.shape[-1])), *nodes, **params)
    return made.reshape((*x.shape[:2], -1)), 0


batching.primitive_batchers[trees_p] = _batched


def _read(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value] | None:
    """Numbers of the rows that are always there; not followed where weights have a part in them."""
    x = inputs[0]
    if not isinstance(x, Signals) or x.upstream:
        return None
    return [x.labelled(np.full((1, 1), CONSTANT))]


def _axis(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    return 0 if operand == axis == 0 else None


RECORDS = [Primitive("trees", read=_read, axis=_axis, plan="trees")]
