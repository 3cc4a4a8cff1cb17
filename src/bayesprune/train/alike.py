"""Settings known by what they compute.

Compiled loops are found by their recipe, and ``optax.adam(1e-3)`` written where it is used is a new object at every call; so
is a lambda.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import PyTreeDef

from bayesprune.core import same
from bayesprune.core.keys import abstract_key
from bayesprune.core.traced import OpaqueError, fingerprint, of_jaxpr, without_idle
from bayesprune.core.types import PyTree
from bayesprune.train.kernel import Kernel, asks_value, begun
from bayesprune.train.kernels.lookahead import Lookahead, takes_pairs
from bayesprune.train.kernels.optimizer import Optax


def as_kernel(optimizer: optax.GradientTransformation | Kernel) -> Kernel:
    """A kernel as it is; an optax transformation as one."""
    if isinstance(optimizer, Kernel):
        return optimizer
    return Lookahead(optimizer) if takes_pairs(optimizer) else Optax(optimizer)


def trace_key(fn: Callable[..., PyTree], *args: PyTree) -> Hashable:
    """Equal for functions that compute the same of ``args``, abstract arrays; of one that calls back to Python, itself."""
    try:
        return fingerprint(fn, *args)
    except OpaqueError:
        return same.Itself(fn)


def kernel_key(kernel: Kernel, params: dict[str, Any]) -> Hashable:
    """Equal for kernels of one class that move ``params``, abstract arrays, alike."""
    digest = kernel_digest(kernel, params)
    return (type(kernel), digest) if digest else same.Itself(kernel)


def kernel_digest(kernel: Kernel, params: dict[str, Any]) -> str | None:
    """What the kernel computes, spelled alike in every process; None where it calls back to Python."""
    return _digest(kernel, *_abstract(params))


def state_law(kernel: Kernel, params: dict[str, Any]) -> str:
    """By what law the numbers of the kernel's state come about, whatever it then makes of them: JAX's version, and a digest.

    Decay rates of moments are in it, learning rates and schedules are not. "" where the kernel calls back to Python.

    >>> import optax
    >>> law = lambda made: state_law(Optax(made), {"w": jax.ShapeDtypeStruct((3,), "float32")})
    >>> adam = law(optax.adam(1e-3))
    >>> adam == law(optax.adam(0.1)), adam == law(optax.adam(1e-3, b1=0.5)), adam == law(optax.adamax(1e-3))
    (True, False, False)
    """
    return _law(kernel, *_abstract(params))


def _abstract(params: dict[str, Any]) -> tuple[PyTreeDef, tuple[jax.ShapeDtypeStruct, ...]]:
    """Shapes and types of parameters, as something that hashes."""
    leaves, structure = jax.tree.flatten(params)
    return structure, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)


def _step(kernel: Kernel) -> Callable[..., Any]:
    """The kernel's step, of some loss where it asks for one; where it does not look at it, nothing of that is in a trace."""

    def some_loss(params: dict[str, Any]) -> jax.Array:
        return sum((jnp.sum(leaf) for leaf in jax.tree.leaves(params)), start=jnp.zeros(()))

    loss: dict[str, Any] = {"value": np.float32(1.0), "value_fn": some_loss} if asks_value(kernel) else {}
    return functools.partial(kernel.step, **loss)


@functools.lru_cache(maxsize=64)
def _law(kernel: Kernel, structure: PyTreeDef, leaves: tuple[jax.ShapeDtypeStruct, ...]) -> str:
    params = jax.tree.unflatten(structure, leaves)
    state, rng_key = jax.eval_shape(kernel.init, params), abstract_key()
    after = jax.make_jaxpr(lambda *args: _step(kernel)(*args)[1])(rng_key, params, params, state)
    try:
        return f"{jax.__version__} {of_jaxpr(without_idle(after))[:16]}"
    except OpaqueError:
        return ""


def same_law(one: str, other: str) -> bool:
    """Whether two laws agree; those of different versions of JAX, and unknown ones, are taken to."""
    (version, digest), (second, found) = one.split() or ("", ""), other.split() or ("", "")
    return version != second or digest == found


@functools.lru_cache(maxsize=64)  # one that is used again is not traced again
def _digest(kernel: Kernel, structure: PyTreeDef, leaves: tuple[jax.ShapeDtypeStruct, ...]) -> str | None:
    params = jax.tree.unflatten(structure, leaves)
    state, rng_key = jax.eval_shape(kernel.init, params), abstract_key()
    try:
        first = fingerprint(lambda params: kernel.init(begun(kernel, params)), params)
        start = fingerprint(functools.partial(begun, kernel), params)
        return same.digest((first, start, fingerprint(_step(kernel), rng_key, params, params, state)))
    except OpaqueError:
        return None
