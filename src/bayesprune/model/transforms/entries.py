"""Arrays of which only single entries are there, as vectors: their places, their noise, how they are laid out.

Of an array that is mostly dead a step need not move, weigh or draw the dead: only products have to see them, as zeros.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from bayesprune.core.types import PyTree
from bayesprune.model.transforms.noise import Noise, NoiseOfSlices, by_place, noise_at
from bayesprune.model.transforms.parts import Kept, short_shape
from bayesprune.structure.jaxprs import Equation

_ONE_EACH = jax.lax.ScatterDimensionNumbers


@dataclass(frozen=True)
class Entries:
    """Some entries of an array of ``sizes``, in order. ``packed``: int32, their places, counted row by row.

    ``kept``: by axis the slices of the array that hold them, None for all; `laid_out` gives an array of those.

    >>> Entries.at([1, 5], (4, 3), ((0, 1), None)).indices().tolist()
    [[0, 1], [1, 2]]
    """

    packed: bytes
    sizes: tuple[int, ...]
    kept: Kept

    @classmethod
    def at(cls, places: np.ndarray | Sequence[int], sizes: tuple[int, ...], kept: Kept) -> "Entries":
        return cls(np.asarray(places, np.int32).tobytes(), sizes, kept)

    @classmethod
    def living(cls, array: np.ndarray) -> "Entries":
        """Those of an array that are not zero.

        >>> Entries.living(np.array([[0.0, 2.0], [3.0, 0.0]])).places.tolist()
        [1, 2]
        """
        return cls.at(np.flatnonzero(array), np.shape(array), (None,) * np.ndim(array))

    def __len__(self) -> int:
        return len(self.packed) // 4

    def __repr__(self) -> str:
        return f"Entries({len(self)} of {self.sizes})"

    @property
    def places(self) -> Int[np.ndarray, " entries"]:
        return np.frombuffer(self.packed, np.int32)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the slices."""
        return short_shape(self.sizes, self.kept)

    def indices(self) -> Int[np.ndarray, "entries axes"]:
        """Their places among the slices, axis by axis."""
        along = np.unravel_index(self.places, self.sizes)
        held = (one if index is None else np.searchsorted(index, one) for one, index in zip(along, self.kept, strict=True))
        return np.stack(list(held), -1).astype(np.int32)

    def taken(self, array: jax.Array) -> jax.Array:
        """These entries of a whole array."""
        return jnp.reshape(array, -1)[self.places]

    def put(self, array: jax.Array, values: jax.Array) -> jax.Array:
        """A whole array with values in their place."""
        flat = jnp.reshape(array, -1).at[self.places].set(values, unique_indices=True, indices_are_sorted=True)
        return flat.reshape(array.shape)

    def laid_out(self, values: jax.Array) -> jax.Array:
        """The slices that hold them, zero elsewhere: an entry goes as a whole to one place."""
        axes = tuple(range(len(self.sizes)))
        numbers = _ONE_EACH(update_window_dims=(), inserted_window_dims=axes, scatter_dims_to_operand_dims=axes)
        return jax.lax.scatter(
            jnp.zeros(self.shape, values.dtype),
            self.indices(),
            values,
            numbers,
            indices_are_sorted=True,
            unique_indices=True,
            mode=jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS,
        )


@dataclass(frozen=True)
class NoiseOfEntries:
    """The numbers of ``noise(rng_key, sizes)`` at some entries, called as a `noise.Noise` for the vector of them.

    >>> from bayesprune.model.transforms.noise import quantile
    >>> some = NoiseOfEntries(quantile, Entries.at([1, 5], (4, 3), (None, None)))
    >>> whole = quantile(jax.random.key(0), (4, 3)).reshape(-1)
    >>> bool((some(jax.random.key(0), (2,)) == whole[jnp.array([1, 5])]).all())
    True
    """

    noise: Noise
    entries: Entries

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.entries),)

    def __call__(self, rng_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        if shape != self.shape:
            raise ValueError(f"{self.entries} were asked for noise of shape {shape}.")
        if by_place(self.noise, rng_key, self.entries.sizes, len(self.entries)):
            return noise_at(rng_key, jnp.asarray(self.entries.places.astype(np.uint32)), self.entries.sizes)
        return self.entries.taken(self.noise(rng_key, self.entries.sizes))


def noise_after(noise: NoiseOfEntries, equation: Equation) -> Noise:
    """The noise of the entries after an operation that leaves them weights: that of the slices, once they are laid out."""
    shape = tuple(equation.outvars[0].aval.shape)
    if equation.primitive.name == "scatter" and shape == noise.entries.shape:
        return NoiseOfSlices(noise.noise, noise.entries.sizes, noise.entries.kept)
    return noise if shape == noise.shape else noise.noise


def of_entries(apply: Callable[..., Any], entries: Mapping[str, Entries]) -> Callable[..., Any]:
    """``apply(params, *args)`` for params of which some are vectors of entries.

    >>> net = of_entries(lambda params, x: x @ params["w"], {"w": Entries.at([1, 2], (2, 2), (None, None))})
    >>> net({"w": jnp.array([3.0, 4.0])}, jnp.array([[1.0, 1.0]])).tolist()
    [[4.0, 3.0]]
    """

    def run(params: Mapping[str, Any], *args: PyTree) -> Any:
        return apply({n: entries[n].laid_out(v) if n in entries else v for n, v in params.items()}, *args)

    return run
