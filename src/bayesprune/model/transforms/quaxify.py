"""Quax on any tree of arguments, those included whose nodes must know the transformation that they are made in."""

from collections.abc import Callable
from typing import Any

import jax
import quax

from bayesprune.core.types import PyTree


def quaxified(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``quax.quaxify(fn)``, which is handed leaves instead of trees: every node is built inside of ``fn`` or after it.

    Quax takes trees apart and together at a moment at which JAX is in no transformation at all, and a Flax nnx variable asks
    for the one that it is made in: newer JAX refuses to answer then.

    >>> import jax.numpy as jnp
    >>> quaxified(lambda tree: {"sum": tree["a"] + tree["b"]})({"a": jnp.ones(2), "b": jnp.ones(2)})
    {'sum': Array([2., 2.], dtype=float32)}
    """

    def run(*args: PyTree, **kwargs: PyTree) -> Any:
        leaves, inside = jax.tree.flatten((fn, args, kwargs), is_leaf=lambda node: isinstance(node, quax.Value))
        outside: list[Any] = []

        def of_leaves(leaves: list[Any]) -> list[Any]:
            function, args, kwargs = jax.tree.unflatten(inside, leaves)
            results, tree = jax.tree.flatten(function(*args, **kwargs))
            outside.append(tree)
            return results

        results = quax.quaxify(of_leaves)(leaves)
        return jax.tree.unflatten(outside[-1], results)

    return run
