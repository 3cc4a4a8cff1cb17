"""An array of independent Gaussian weights, and what an operation makes of it: another one, or noisy outputs."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from bayesprune.core.checks import check_key
from bayesprune.model.transforms.convolution import conv_general_dilated
from bayesprune.model.transforms.entries import NoiseOfEntries, noise_after
from bayesprune.model.transforms.noise import Noise, after, exact, of_outputs
from bayesprune.model.transforms.parts import bind as plainly_bound
from bayesprune.structure.jaxprs import Equation


@jax.tree_util.register_pytree_node_class
class GaussianArray:
    """An array of independent Gaussian weights, w ~ N(loc, scale²) element by element; ``scale = 0`` is a plain array.

    Shapes: ``loc`` any; ``scale`` broadcastable to it; ``rng_key`` one random key. A dead weight has loc = scale = 0. The
    sign of ``scale`` does not matter. Raises `TypeError` for what is not a random key. `local_noise` takes it to functions.

    >>> weight = GaussianArray(jnp.ones((3, 2)), 0.5, jax.random.key(0))
    >>> weight.shape, weight.materialise().shape
    ((3, 2), (3, 2))
    """

    def __init__(self, loc: ArrayLike, scale: ArrayLike, rng_key: Array | int, noise: Noise = exact) -> None:
        self.loc = jnp.asarray(loc)
        self.scale = jnp.broadcast_to(jnp.asarray(scale, self.loc.dtype), self.loc.shape)
        self.rng_key: PRNGKeyArray = check_key(rng_key)
        self.noise = noise

    @property
    def shape(self) -> tuple[int, ...]:
        return self.loc.shape

    def materialise(self) -> Array:
        """The weight, drawn once: the same draw every time."""
        return self.loc + self.scale * self.noise(jax.random.fold_in(self.rng_key, 0), self.shape).astype(self.loc.dtype)

    def seen(self, value: Any) -> Any:
        """The data that this weight meets, as their squares enter the variance of what comes of it."""
        return value

    def noisy(self, mean: Array, variance: Array, number: int, noise: Noise) -> Array:
        """Outputs of this mean and this variance, the ``number``-th of this weight: here, one draw of them."""
        return add_noise(mean, variance, jax.random.fold_in(self.rng_key, number), noise)

    def replace(self, loc: Array, scale: Array, noise: Noise | None = None) -> "GaussianArray":
        """Other numbers under the same key."""
        return self.tree_unflatten(self.noise if noise is None else noise, (loc, scale, self.rng_key))

    def tree_flatten(self) -> tuple[tuple[Any, ...], Noise]:
        return (self.loc, self.scale, self.rng_key), self.noise

    @classmethod
    def tree_unflatten(cls, noise: Noise, children: tuple[Any, ...]) -> "GaussianArray":
        new = object.__new__(cls)  # JAX puts more than arrays into trees: nothing is checked
        new.loc, new.scale, new.rng_key = children
        new.noise = noise
        return new


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


def bind(equation: Equation, values: list[Any]) -> Any:
    """The operation on other values, convolutions done the quick way: one result, or a list of them."""
    if equation.primitive.name == "conv_general_dilated":
        return conv_general_dilated(*map(jnp.asarray, values), **equation.params)
    return plainly_bound(equation, values)


def image(equation: Equation, values: list[Any], place: int) -> GaussianArray:
    """An operation that leaves the weight in ``values[place]`` Gaussian, the other values being constants."""
    weight = values[place]
    loc = bind(equation, _put(values, place, weight.loc))
    own = isinstance(weight.noise, NoiseOfEntries)
    noise = noise_after(weight.noise, equation) if own else after(weight.noise, equation)
    if equation.primitive.name in ("add", "sub"):
        return weight.replace(loc, weight.scale, noise)
    if equation.primitive.name == "select_n":  # the scale is zero where the constant is chosen
        values = [values[0], *map(jnp.zeros_like, _put(values, place, weight.loc)[1:])]
    if equation.primitive.name == "scatter":  # and where no weight is put
        values = [jnp.zeros_like(values[0]), *values[1:]]
    return weight.replace(loc, bind(equation, _put(values, place, weight.scale)), noise)


def outputs(equation: Equation, values: list[Any], place: int, number: int) -> Array:
    """Sample an operation of data with the weight in ``values[place]``, one noise per output, from mean and variance (4.2).

    sum w x:  sum loc x + sqrt(sum scale² x²) eps,    x + w:  x + loc + scale eps,    eps ~ N(0, 1) for each output
    """
    weight = values[place]
    mean = bind(equation, _put(values, place, weight.loc))
    if equation.primitive.name in ("add", "sub"):
        variance = jnp.broadcast_to(jnp.square(weight.scale), mean.shape)
    else:
        squares = [value if i == place else jnp.square(weight.seen(value)) for i, value in enumerate(values)]
        variance = bind(equation, _put(squares, place, jnp.square(weight.scale)))
    noise = of_outputs(weight.noise, equation, place)
    return weight.noisy(mean, variance, number, noise)


def _put(values: list[Any], place: int, value: ArrayLike) -> list[Any]:
    return [*values[:place], value, *values[place + 1 :]]
