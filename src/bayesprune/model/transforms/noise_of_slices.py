"""Noise of an array of which only slices are there: the numbers that they have in the whole array, and no others drawn."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry2x32_p
from jaxtyping import Array, UInt32

from bayesprune.core.keys import is_key
from bayesprune.model.transforms import noise as noises
from bayesprune.model.transforms.noise import Noise
from bayesprune.model.transforms.parts import Kept, short_shape
from bayesprune.structure.jaxprs import Equation

_LARGEST = 2**32  # numbers of an array that one 32-bit counter tells apart
# Entry by entry a number takes 3.3 times as long as one of a whole array (51,200 on a CPU: .82 ms and .25): a word for each
# number in place of each two, and no counting on.
_FEW = 0.3


@dataclass(frozen=True)
class NoiseOfSlices:
    """The entries of ``noise(rng_key, sizes)`` that slices hold, called as a `noise.Noise` for the array of those slices.

    Of few entries `noise.quantile` of a counter-based generator is asked for each by its place; else the whole is drawn.

    ``sizes``: of the whole array. ``kept``: by axis the slices that are there, None for all.

    >>> part = NoiseOfSlices(noises.quantile, (4, 3), ((1, 3), None))
    >>> whole = noises.quantile(jax.random.key(0), (4, 3))
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
    return noise is noises.quantile and number <= _FEW * size and size < _LARGEST and _counts(rng_key)


def noise_at(rng_key: jax.Array, place: UInt32[Array, "..."], sizes: tuple[int, ...]) -> jax.Array:
    """What `noise.quantile` gives at these places of an array, counted row by row.

    >>> whole = noises.quantile(jax.random.key(0), (4, 3))
    >>> bool(noise_at(jax.random.key(0), jnp.array([7], jnp.uint32), (4, 3))[0] == whole[2, 1])
    True
    """
    half = (int(np.prod(sizes)) + 1) // 2
    first = place < half
    words = _words(rng_key, jnp.where(first, place, place - half))
    return noises.quantiles()[jnp.where(first, words & 0xFFFF, words >> 16)]


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
