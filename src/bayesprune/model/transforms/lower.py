"""Run the convolutions of any net through :mod:`bayesprune.model.transforms.convolution`, without touching the net."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import quax
from jax import lax
from jax.extend.core import Primitive
from jaxtyping import Array, ArrayLike, Inexact

from bayesprune.core.types import PyTree
from bayesprune.model.transforms.convolution import conv_general_dilated

_plain: ContextVar[bool] = ContextVar("bayesprune_plain_convolutions", default=False)


class Lowered(quax.ArrayValue):
    """An array that asks for the quick convolution, and is in every other operation the plain array it holds.

    Casts, reshapes, transposes and broadcasts keep asking; arithmetic stops.

    Example:
        >>> import jax.numpy as jnp, quax
        >>> quax.quaxify(lambda w: w + 1.0)(Lowered(jnp.zeros(2)))
        Array([1., 1.], dtype=float32)
    """

    value: Inexact[Array, "..."]

    def aval(self) -> jax.core.ShapedArray:
        """Shape and dtype of the array inside."""
        return jax.core.ShapedArray(self.value.shape, self.value.dtype)

    def materialise(self) -> Array:
        """The plain array."""
        return self.value


@quax.register(lax.conv_general_dilated_p)
def _(lhs: ArrayLike, rhs: Lowered, **params: Any) -> Array:
    return conv_general_dilated(jnp.asarray(lhs), rhs.value, **params)


@quax.register(lax.conv_general_dilated_p)
def _(lhs: Lowered, rhs: ArrayLike, **params: Any) -> Array:
    return conv_general_dilated(lhs.value, jnp.asarray(rhs), **params)


@quax.register(lax.conv_general_dilated_p)
def _(lhs: Lowered, rhs: Lowered, **params: Any) -> Array:
    return conv_general_dilated(lhs.value, rhs.value, **params)


def _keep(primitive: Primitive) -> None:
    """Let one operation on one array hand its result on as ``Lowered``."""

    @quax.register(primitive)
    def _(value: Lowered, **params: Any) -> Lowered:
        return Lowered(primitive.bind(value.value, **params))


for _primitive in (lax.broadcast_in_dim_p, lax.convert_element_type_p, lax.reshape_p, lax.squeeze_p, lax.transpose_p):
    _keep(_primitive)


@contextlib.contextmanager
def plain_convolutions() -> Iterator[None]:
    """Leave the convolutions of lowered nets to JAX: for a trace to be read, whose reader does them the quick way."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def _wrap(leaf: object) -> Any:
    # A value under somebody's own `quax.quaxify` has rules of its own, or may have.
    # Quax does not export the type under which it hands such values to a function: its module tells it.
    if type(leaf).__module__.partition(".")[0] == "quax":
        return leaf
    return Lowered(leaf) if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf


def lower_convolutions(apply: Callable[..., Any]) -> Callable[..., Any]:
    """The function ``apply(params, *args)`` with every convolution of a parameter done by :func:`conv_general_dilated`.

    Args:
        apply: a function whose first argument is a tree of parameters, such as ``module.apply`` of Flax linen, or
            ``lambda net, x: jax.vmap(net)(x)`` for an Equinox net.

    Returns:
        A function of the same arguments and results; gradients, ``vmap`` and ``jit`` work as before. One that holds a
        `jax.custom_vjp` runs as it is.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from flax import linen
        >>> net = linen.Conv(features=4, kernel_size=(3, 3))
        >>> images = jnp.ones((2, 8, 8, 1))
        >>> params = net.init(jax.random.key(0), images)
        >>> lower_convolutions(net.apply)(params, images).shape
        (2, 8, 8, 4)
    """

    @functools.wraps(apply)
    def lowered(params: PyTree, *args: PyTree, **kwargs: PyTree) -> Any:
        if _plain.get():
            return apply(params, *args, **kwargs)
        try:
            out = quaxified(apply)(jax.tree.map(_wrap, params), *args, **kwargs)
        except NotImplementedError:  # Quax knows no function that brings its own derivative, `jax.custom_vjp`
            return apply(params, *args, **kwargs)
        is_lowered = lambda leaf: isinstance(leaf, Lowered)  # noqa: E731
        return jax.tree.map(lambda leaf: leaf.value if is_lowered(leaf) else leaf, out, is_leaf=is_lowered)

    return lowered


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
