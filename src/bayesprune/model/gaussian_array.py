"""Local reparameterisation as a program transformation: an array of independent Gaussian weights that samples its outputs.

A `Gaussian` goes through a network in the place of a weight array. Where it meets data in a matrix product or a
convolution, mean and variance of every output are computed and one noise is drawn per output, (4.2). Reshapes,
transposes, casts, masks and products with plain arrays keep it Gaussian. Everything else draws the weight once.

What is exact and what is customary. Every output has exactly the law it has under sampled weights, and so have the
outputs of one row jointly where each weight reaches only one of them (a dense layer on a matrix of rows). Where a weight
reaches several outputs of one row (positions of a convolution, tokens, two uses of a shared weight), those share their
noise under sampled weights and have noises of their own here, as is common practice.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import quax
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.extend.core import primitives as prims
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from bayesprune.core.checks import check_key
from bayesprune.model.convolution import conv_general_dilated
from bayesprune.model.noise import Noise, exact
from bayesprune.model.quaxified import quaxified

# Numbers the uses of weights within one call of a `local_noise` function, so that no two uses share a noise and the same
# call gives the same noises however often it is traced.
_uses: ContextVar[Iterator[int]] = ContextVar("bayesprune_gaussian_uses")


class Gaussian(quax.ArrayValue):
    """An array of independent Gaussian weights, w ~ N(loc, scale²) element by element; ``scale = 0`` is a plain array.

    Shapes: ``loc`` any; ``scale`` broadcastable to it; ``rng_key`` one random key. A dead weight has loc = scale = 0. The
    sign of ``scale`` does not matter. Raises `TypeError` for what is not a random key. Functions see it through
    `local_noise`.

    >>> weight = Gaussian(jnp.ones((3, 2)), 0.5, jax.random.key(0))
    >>> weight.shape, weight.materialise().shape
    ((3, 2), (3, 2))
    """

    loc: Array
    scale: Array
    rng_key: PRNGKeyArray
    noise: Noise = eqx.field(static=True)

    def __init__(self, loc: ArrayLike, scale: ArrayLike, rng_key: Any, noise: Noise = exact):
        self.loc = jnp.asarray(loc)
        self.scale = jnp.broadcast_to(jnp.asarray(scale, self.loc.dtype), self.loc.shape)
        self.rng_key = check_key(rng_key)
        self.noise = noise

    def aval(self) -> jax.core.ShapedArray:
        return jax.core.ShapedArray(jnp.shape(self.loc), jnp.result_type(self.loc))

    def materialise(self) -> Array:
        """The weight, drawn once: the same draw every time, for reading the same weight twice must not change it."""
        if not jnp.issubdtype(self.rng_key.dtype, jax.dtypes.prng_key):  # a derivative's tangent: Quax leaves no key in it
            raise TypeError(
                "a function with a custom derivative (jax.nn.relu, jax.nn.softmax, ...) was applied to a Gaussian weight "
                "itself, which local reparameterisation cannot differentiate: use weight sampling for this network."
            )
        return self.loc + self.scale * self.noise(jax.random.fold_in(self.rng_key, 0), self.shape).astype(self.dtype)


def local_noise(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``fn`` take `Gaussian` arrays, anywhere in its arguments, where it takes arrays.

    y = loc x + sqrt(scale² x²) eps, one eps per element of y (4.2). Pure: the same arguments give the same noises. Every
    use of a weight has noise of its own. To be the outermost transformation inside `jax.grad` and `jax.jit`: a
    `jax.vmap` over examples belongs into ``fn``, where each example gets its own noise. Quax refuses, with
    `NotImplementedError`, an ``fn`` that contains a `jax.custom_vjp` function.

    >>> weight = Gaussian(jnp.ones((3, 2)), 0.5, jax.random.key(0))
    >>> local_noise(jnp.dot)(jnp.ones((5, 3)), weight).shape
    (5, 2)

    Source: Kingma, Salimans and Welling (2015), Variational dropout and the local reparameterization trick, eq. 6.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        token = _uses.set(itertools.count(1))
        try:
            out = quaxified(fn)(*args, **kwargs)
        finally:
            _uses.reset(token)
        return jax.tree.map(_draw, out, is_leaf=lambda leaf: isinstance(leaf, Gaussian))

    return run


def _draw(value: Any) -> Any:
    return value.materialise() if isinstance(value, Gaussian) else value


def add_noise(
    mean: Float[Array, "..."], variance: Float[Array, "..."], rng_key: PRNGKeyArray, noise: Noise = exact
) -> Float[Array, "..."]:
    """mean + sqrt(variance) eps, one eps ~ N(0, 1) per element, with no noise and no gradient where the variance is 0.

    >>> add_noise(jnp.ones(2), jnp.zeros(2), jax.random.key(0)).tolist()
    [1.0, 1.0]
    """
    # sqrt has an infinite slope at 0: the inner `where` keeps it out of the backward pass, without an epsilon.
    noisy = variance > 0
    std = jnp.where(noisy, jnp.sqrt(jnp.where(noisy, variance, 1)), 0)
    return mean + std * noise(rng_key, mean.shape).astype(mean.dtype)


def _fresh_key(weight: Gaussian) -> PRNGKeyArray:
    try:
        return jax.random.fold_in(weight.rng_key, next(_uses.get()))
    except LookupError:
        raise RuntimeError(
            "a Gaussian array met data outside local_noise: use local_noise(fn), not quax.quaxify(fn)."
        ) from None


def _carry(weight: Gaussian, loc: Array, scale: Array) -> Gaussian:
    """The same weight in other clothes; its key stays, so that a mask or a factor does not change what is drawn."""
    return jax.tree.unflatten(jax.tree.structure(weight), (loc, scale, weight.rng_key))


# --- linear maps: one noise per output ---------------------------------------------------------------------------------


def _linear(bilinear: Callable[..., Array], lhs: Any, rhs: Any) -> Array:
    """Sample a product, sum over products of distinct weights with data, from its mean and its variance."""
    if isinstance(lhs, Gaussian):
        mean, variance = bilinear(lhs.loc, rhs), bilinear(jnp.square(lhs.scale), jnp.square(rhs))
        return add_noise(mean, variance, _fresh_key(lhs), lhs.noise)
    mean, variance = bilinear(lhs, rhs.loc), bilinear(jnp.square(lhs), jnp.square(rhs.scale))
    return add_noise(mean, variance, _fresh_key(rhs), rhs.noise)


def _convolve(lhs: Array, rhs: Array, **params: Any) -> Array:
    return conv_general_dilated(jnp.asarray(lhs), jnp.asarray(rhs), **params)


@quax.register(lax.dot_general_p)
def _(lhs: Gaussian, rhs: ArrayLike, **params: Any) -> Array:
    return _linear(lambda x, y: lax.dot_general_p.bind(x, y, **params), lhs, rhs)


@quax.register(lax.dot_general_p)
def _(lhs: ArrayLike, rhs: Gaussian, **params: Any) -> Array:
    return _linear(lambda x, y: lax.dot_general_p.bind(x, y, **params), lhs, rhs)


@quax.register(lax.conv_general_dilated_p)
def _(lhs: Gaussian, rhs: ArrayLike, **params: Any) -> Array:
    return _linear(lambda x, y: _convolve(x, y, **params), lhs, rhs)


@quax.register(lax.conv_general_dilated_p)
def _(lhs: ArrayLike, rhs: Gaussian, **params: Any) -> Array:
    return _linear(lambda x, y: _convolve(x, y, **params), lhs, rhs)


# --- element by element: scaling keeps the Gaussian; spreading over data, as a bias does, samples ---------------------


def _spreads(weight: Gaussian, other: ArrayLike) -> bool:
    return jnp.broadcast_shapes(weight.shape, jnp.shape(other)) != weight.shape


def _rescale(weight: Gaussian, apply: Callable[[Array], Array], other: ArrayLike) -> Gaussian | Array:
    """A product or quotient: loc and scale alike."""
    loc, scale = apply(weight.loc), apply(weight.scale)
    if _spreads(weight, other):
        return add_noise(loc, jnp.square(scale), _fresh_key(weight), weight.noise)
    return _carry(weight, loc, scale)


def _shift(weight: Gaussian, apply: Callable[[Array], Array], other: ArrayLike) -> Gaussian | Array:
    """A sum or difference: loc alone."""
    if jnp.ndim(other) == 0:
        return _carry(weight, apply(weight.loc), weight.scale)
    if _spreads(weight, other):
        loc = apply(weight.loc)
        variance = jnp.broadcast_to(jnp.square(weight.scale), loc.shape)
        return add_noise(loc, variance, _fresh_key(weight), weight.noise)
    # The other may be one example's activations: left Gaussian, they would go on as if no two later outputs shared them.
    return apply(weight.materialise())


def _register_left(primitive: Any, rule: Callable[..., Any]) -> None:
    @quax.register(primitive)
    def _(weight: Gaussian, other: ArrayLike, **params: Any) -> Any:
        return rule(weight, lambda x: primitive.bind(x, other, **params), other)


def _register_right(primitive: Any, rule: Callable[..., Any]) -> None:
    @quax.register(primitive)
    def _(other: ArrayLike, weight: Gaussian, **params: Any) -> Any:
        return rule(weight, lambda x: primitive.bind(other, x, **params), other)


_register_left(lax.mul_p, _rescale)
_register_right(lax.mul_p, _rescale)
_register_left(lax.div_p, _rescale)
_register_left(lax.add_p, _shift)
_register_right(lax.add_p, _shift)
_register_left(lax.sub_p, _shift)


@quax.register(lax.sub_p)
def _(other: ArrayLike, weight: Gaussian, **params: Any) -> Any:
    return _shift(_carry(weight, -weight.loc, -weight.scale), lambda x: lax.add_p.bind(other, x, **params), other)


@quax.register(lax.select_n_p)
def _(which: ArrayLike, false_case: Gaussian, true_case: ArrayLike) -> Gaussian:
    zero = jnp.zeros_like(true_case)
    return _carry(false_case, lax.select_n(which, false_case.loc, true_case), lax.select_n(which, false_case.scale, zero))


@quax.register(lax.select_n_p)
def _(which: ArrayLike, false_case: ArrayLike, true_case: Gaussian) -> Gaussian:
    zero = jnp.zeros_like(false_case)
    return _carry(true_case, lax.select_n(which, false_case, true_case.loc), lax.select_n(which, zero, true_case.scale))


# --- structure: every element moves as a whole ---------------------------------------------------------------------------


def _register_structural(primitive: Any) -> None:
    @quax.register(primitive)
    def _(weight: Gaussian, **params: Any) -> Gaussian:
        return _carry(weight, primitive.bind(weight.loc, **params), primitive.bind(weight.scale, **params))


for _primitive in (lax.reshape_p, lax.transpose_p, lax.squeeze_p, lax.neg_p, prims.copy_p):
    _register_structural(_primitive)


@quax.register(lax.convert_element_type_p)
def _(weight: Gaussian, **params: Any) -> Gaussian | Array:
    if not jnp.issubdtype(params["new_dtype"], jnp.floating):
        return lax.convert_element_type_p.bind(weight.materialise(), **params)
    return _carry(weight, *(lax.convert_element_type_p.bind(x, **params) for x in (weight.loc, weight.scale)))


@quax.register(lax.broadcast_in_dim_p)
def _(weight: Gaussian, **params: Any) -> Gaussian | Array:
    if weight.size != math.prod(params["shape"]):  # it repeats weights, and repeated weights are not independent
        return lax.broadcast_in_dim_p.bind(weight.materialise(), **params)
    return _carry(weight, *(lax.broadcast_in_dim_p.bind(x, **params) for x in (weight.loc, weight.scale)))


# --- programs within the program ----------------------------------------------------------------------------------------
# A jitted part is unrolled, for a cached trace of it would repeat its noises. A loop's body is traced once for all its
# turns: there the weight is drawn before, and stays the same through time. Branches must agree in kind: they return arrays.


@quax.register(prims.jit_p)
def _(*args: ArrayLike | Gaussian, jaxpr: Any, **params: Any) -> Any:
    if not any(isinstance(x, Gaussian) for x in args):
        return prims.jit_p.bind(*args, jaxpr=jaxpr, **params)
    return quax.quaxify(jaxpr_as_fun(jaxpr))(*args)


@quax.register(prims.remat_p)
def _(*args: ArrayLike | Gaussian, jaxpr: Any, prevent_cse: Any, policy: Any, **params: Any) -> Any:
    return jax.checkpoint(quax.quaxify(jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))), prevent_cse=prevent_cse, policy=policy)(*args)


def _register_loop(primitive: Any) -> None:
    @quax.register(primitive)
    def _(*args: ArrayLike | Gaussian, **params: Any) -> Any:
        return primitive.bind(*map(_draw, args), **params)


_register_loop(lax.scan_p)
_register_loop(lax.while_p)


@quax.register(lax.cond_p)
def _(index: ArrayLike, *args: ArrayLike | Gaussian, branches: Any, **params: Any) -> Any:
    if not any(isinstance(x, Gaussian) for x in args):
        return lax.cond_p.bind(index, *args, branches=branches, **params)
    leaves, structure = jax.tree.flatten(args)

    def inside(branch: Any) -> Any:
        run = quax.quaxify(jaxpr_as_fun(branch))
        return jax.make_jaxpr(lambda *leaves: [_draw(x) for x in run(*jax.tree.unflatten(structure, leaves))])(*leaves)

    return lax.cond_p.bind(index, *leaves, branches=tuple(inside(branch) for branch in branches), **params)
