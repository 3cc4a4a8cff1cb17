"""Standard normal noise for millions of weights at every step: drawn exactly, or by a table; and that of slices alone."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry2x32_p
from jaxtyping import Array, UInt32
from scipy.special import ndtri

from bayesprune.core.keys import is_key
from bayesprune.model.transforms.parts import Kept, short_shape
from bayesprune.structure.jaxprs import Equation

Noise = Callable[[jax.Array, tuple[int, ...]], jax.Array]

_BITS = 16


def exact(rng_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """`jax.random.normal`: one 32-bit word and an inverse error function for each number."""
    return jax.random.normal(rng_key, shape)


def none(rng_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """No noise: every weight at its mean."""
    return jnp.zeros(shape)


def quantile(rng_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Normal noise from a table of 65,536 equally likely quantiles: two numbers for each 32-bit word.

    Each number is Phi^-1((i + 1/2) / 65536) for a uniform 16-bit i, scaled so that the variance is exactly one: mean 0,
    variance 1, fourth moment within 0.1 % of the normal's, largest value 4.32. Meant for the noise of a training step, where
    a million draws by `exact` cost more than the layers that use them: several times quicker on a CPU.

    Args:
        rng_key: a typed key.
        shape: shape of the result.

    Example:
        >>> noise = quantile(jax.random.key(0), (1000, 10))
        >>> bool(abs(noise.mean()) < 0.05), bool(abs(noise.std() - 1) < 0.05)
        (True, True)
    """
    size = int(np.prod(shape))
    words = jax.random.bits(rng_key, ((size + 1) // 2,), jnp.uint32)
    index = jnp.concatenate([words & 0xFFFF, words >> _BITS])[:size]
    return quantiles()[index].reshape(shape)


def quantiles() -> jax.Array:
    """The table of `quantile`."""
    return jnp.asarray(_table())


@functools.cache
def _table() -> np.ndarray:
    """The quantiles, float32; the upper half mirrors the lower, so that the mean is exactly zero."""
    lower = ndtri((np.arange(2 ** (_BITS - 1)) + 0.5) / 2**_BITS)
    lower /= np.sqrt(np.mean(lower**2))
    return np.concatenate([lower, -lower[::-1]]).astype(np.float32)


# Arrays from here on have a draw of their own: with slices of one long draw a sampler's step of a million weights took more
# than twice as long on a CPU. A draw for every bias would make the program long instead.
_LARGE = 2**15


def normal_like(rng_key: jax.Array, params: Any) -> Any:
    """Standard normal numbers of the parameters' shapes and types; see `quantile`.

    >>> import jax.numpy as jnp
    >>> noise = normal_like(jax.random.key(0), {"a": jnp.zeros((2, 3)), "b": jnp.zeros(())})
    >>> noise["a"].shape, noise["b"].shape
    ((2, 3), ())
    """
    leaves, structure = jax.tree.flatten(params)
    is_large = [leaf.size >= _LARGE for leaf in leaves]
    shared, *own = jax.random.split(rng_key, 1 + sum(is_large)) if any(is_large) else [rng_key]
    keys, small = iter(own), _parts(shared, [leaf.size for leaf, large in zip(leaves, is_large, strict=True) if not large])
    drawn = [quantile(next(keys), (leaf.size,)) if large else next(small) for leaf, large in zip(leaves, is_large, strict=True)]
    shaped = [noise.reshape(leaf.shape).astype(leaf.dtype) for noise, leaf in zip(drawn, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


def _parts(rng_key: jax.Array, sizes: list[int]) -> Iterator[jax.Array]:
    """So many numbers each, of one draw."""
    flat, ends = quantile(rng_key, (sum(sizes),)), np.cumsum([0, *sizes])
    return (flat[first:last] for first, last in itertools.pairwise(ends))


_LARGEST = 2**32  # numbers of an array that one 32-bit counter tells apart
# Entry by entry a number takes 3.3 times as long as one of a whole array (51,200 on a CPU: .82 ms and .25): a word for each
# number in place of each two, and no counting on.
_FEW = 0.3


@dataclass(frozen=True)
class NoiseOfSlices:
    """The entries of ``noise(rng_key, sizes)`` that slices hold, called as a `noise.Noise` for the array of those slices.

    Of few entries `noise.quantile` of a counter-based generator is asked for each by its place; else the whole is drawn.

    ``sizes``: of the whole array. ``kept``: by axis the slices that are there, None for all.

    >>> part = NoiseOfSlices(quantile, (4, 3), ((1, 3), None))
    >>> whole = quantile(jax.random.key(0), (4, 3))
    >>> bool((part(jax.random.key(0), (2, 3)) == whole[jnp.array([1, 3])]).all())
    True
    """

    noise: Noise
    sizes: tuple[int, ...]
    kept: Kept

    @property
    def shape(self) -> tuple[int, ...]:
        return short_shape(self.sizes, self.kept)

    def __call__(self, rng_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        if shape != self.shape:
            raise ValueError(f"slices of shape {self.shape} were asked for noise of shape {shape}.")
        if by_place(self.noise, rng_key, self.sizes, int(np.prod(shape))):
            return noise_at(rng_key, self._places(), self.sizes)
        drawn = self.noise(rng_key, self.sizes)
        for axis, index in enumerate(self.kept):
            drawn = drawn if index is None else jnp.take(drawn, np.array(index), axis)
        return drawn

    def _places(self) -> UInt32[Array, "..."]:
        """Every entry's place in the whole array, row by row."""
        place = jnp.zeros((1,) * len(self.sizes), jnp.uint32)
        for axis, (size, index) in enumerate(zip(self.sizes, self.kept, strict=True)):
            along = np.arange(size) if index is None else np.array(index)
            shape = [1] * len(self.sizes)
            shape[axis] = len(along)
            place = place * np.uint32(size) + jnp.asarray(along.astype(np.uint32).reshape(shape))
        return place


def by_place(noise: Noise, rng_key: jax.Array, sizes: tuple[int, ...], number: int) -> bool:
    """Whether `noise_at` should draw the noise of so many entries alone, of an array of these sizes."""
    size = int(np.prod(sizes))
    return noise is quantile and number <= _FEW * size and size < _LARGEST and _counts(rng_key)


def noise_at(rng_key: jax.Array, place: UInt32[Array, "..."], sizes: tuple[int, ...]) -> jax.Array:
    """What `noise.quantile` gives at these places of an array, counted row by row.

    >>> whole = quantile(jax.random.key(0), (4, 3))
    >>> bool(noise_at(jax.random.key(0), jnp.array([7], jnp.uint32), (4, 3))[0] == whole[2, 1])
    True
    """
    half = (int(np.prod(sizes)) + 1) // 2
    first = place < half
    words = _words(rng_key, jnp.where(first, place, place - half))
    return quantiles()[jnp.where(first, words & 0xFFFF, words >> 16)]


def _counts(rng_key: jax.Array) -> bool:
    """Whether the generator makes word number n from n alone."""
    by_counting = bool(jax.config.values["jax_threefry_partitionable"])
    return by_counting and is_key(rng_key) and str(jax.random.key_impl(rng_key)) == "threefry2x32"


def _words(rng_key: jax.Array, numbers: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """The words of these numbers among those that `jax.random.bits` makes of the key."""
    keys = (jnp.broadcast_to(word, numbers.shape) for word in jax.random.key_data(rng_key))
    high, low = threefry2x32_p.bind(*keys, jnp.zeros_like(numbers), numbers)
    return high ^ low  # type: ignore[no-any-return]


def after(noise: Noise, equation: Equation) -> Noise:
    """The noise of a weight after an operation that leaves it a weight: its slices along the axes where they then are."""
    if not isinstance(noise, NoiseOfSlices):
        return noise
    name, new = equation.primitive.name, tuple(equation.outvars[0].aval.shape)
    if name == "transpose":
        order = equation.params["permutation"]
        return NoiseOfSlices(noise.noise, tuple(noise.sizes[a] for a in order), tuple(noise.kept[a] for a in order))
    added = len(new) - len(noise.shape)
    if new == (1,) * added + noise.shape:
        return NoiseOfSlices(noise.noise, (1,) * added + noise.sizes, (None,) * added + noise.kept)
    return noise.noise  # of the same law


def of_outputs(noise: Noise, equation: Equation, place: int) -> Noise:
    """The noise of an operation's outputs, whose axes of the weight in operand ``place`` have its slices."""
    if not isinstance(noise, NoiseOfSlices):
        return noise
    name, shape = equation.primitive.name, tuple(equation.outvars[0].aval.shape)
    axes = dict[int, int]()  # of the weight -> of the outputs
    rank = len(noise.sizes)
    if name == "dot_general":
        contract, batch = equation.params["dimension_numbers"]
        free = [axis for axis in range(rank) if axis not in (*contract[place], *batch[place])]
        first = len(batch[0]) if place == 0 else len(shape) - len(free)
        axes = {axis: first + number for number, axis in enumerate(free)}
    elif name == "conv_general_dilated":
        numbers = equation.params["dimension_numbers"]
        axes = {numbers.rhs_spec[0]: numbers.out_spec[1]}
    else:  # entry by entry
        axes = {axis: axis + len(shape) - rank for axis in range(rank)}
    sizes: list[int] = list(shape)
    kept: list[tuple[int, ...] | None] = [None] * len(shape)
    for axis, out in axes.items():
        if noise.kept[axis] is not None:
            sizes[out], kept[out] = noise.sizes[axis], noise.kept[axis]
    return NoiseOfSlices(noise.noise, tuple(sizes), tuple(kept))
