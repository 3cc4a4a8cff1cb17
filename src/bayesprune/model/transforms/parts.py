"""Arrays of which only slices are there: all others hold one number, zero as a rule, and are neither stored nor computed.

Along an axis that was cut short a `Part` says which slices it holds. Of a network whose dead weights leave whole slices of
zeros, every operation can be done on what is left; `part_rules` says how.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Int

Index = Int[np.ndarray, " kept"]
Kept = tuple[tuple[int, ...] | None, ...]  # by axis: the slices that are there, in order; None: all


class UnfitError(ValueError):
    """A network cannot be computed from these slices of its weights."""


def short_shape(sizes: Sequence[int], kept: Sequence[Sequence[int] | np.ndarray | None]) -> tuple[int, ...]:
    """The shape of the slices.

    >>> short_shape((4, 3), ((0, 2), None))
    (2, 3)
    """
    return tuple(size if index is None else len(index) for size, index in zip(sizes, kept, strict=True))


class Part(NamedTuple):
    """``value``: the array without its missing slices, or with size 1 along an axis along which it is constant.

    ``sizes``: of the whole array. ``kept``: by axis the slices that are there; None: all of them. ``rest``: what every entry of
    the others is. ``of_weights``: it is made of weights alone. ``number``: what every entry is, where that is known.
    """

    value: Any
    sizes: tuple[int, ...]
    kept: tuple[Index | None, ...]
    of_weights: bool = False
    number: float | None = None
    rest: float = 0.0

    @classmethod
    def whole(cls, value: ArrayLike, of_weights: bool = False, number: float | None = None) -> "Part":
        shape = tuple(jnp.shape(value))
        return cls(value, shape, (None,) * len(shape), of_weights, number)

    @property
    def cut_short(self) -> bool:
        return any(index is not None for index in self.kept)

    def constant_along(self, axis: int) -> bool:
        """Whether it holds one slice that stands for all."""
        return self.kept[axis] is None and bool(jnp.shape(self.value)[axis] != self.sizes[axis])

    def holds(self, axis: int, index: Index | None) -> bool:
        here = self.kept[axis]
        if here is None or index is None:
            return here is None and index is None
        return bool(np.array_equal(here, index))


def spread_out(part: Part) -> Part:
    """The same with its constant axes at the size of the slices that are there."""
    shape = short_shape(part.sizes, part.kept)
    return part if jnp.shape(part.value) == shape else part._replace(value=jnp.broadcast_to(part.value, shape))


def moved(part: Part, axis: int, index: Index | None, strict: bool) -> Part:
    """The part with the slices ``index`` along an axis: with those that it had not, and without those that are not among them.

    The latter are lost: what the result is used for must not depend on them. ``strict``: weights stay as they are, or
    `UnfitError`.
    """
    if part.holds(axis, index):
        return part
    if strict and part.of_weights:
        raise UnfitError("an operation needs slices of a weight array that are not there, or others than it has.")
    part, here = spread_out(part), part.kept[axis]
    wanted = np.arange(part.sizes[axis]) if index is None else index
    held = np.arange(part.sizes[axis]) if here is None else here
    kept = tuple(index if a == axis else old for a, old in enumerate(part.kept))
    place = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    there = held[place] == wanted
    if there.all():
        return part._replace(value=jnp.take(part.value, place, axis, mode="clip"), kept=kept)
    return part._replace(value=_filled(part.value, axis, place, there, part.rest), kept=kept)


def _filled(value: jax.Array, axis: int, place: np.ndarray, there: np.ndarray, rest: float) -> jax.Array:
    """Slices at ``place`` where they are there, else ``rest``. A product with zeros and ones: its gradient is one too, where
    that of a gather would be a scatter, slow on CPUs."""
    if rest or not jnp.issubdtype(value.dtype, jnp.floating):
        shape = [1] * value.ndim
        shape[axis] = len(there)
        taken = jnp.take(value, place, axis, mode="clip")
        return jnp.where(there.reshape(shape), taken, jnp.asarray(rest, value.dtype))
    choice = np.zeros((value.shape[axis], len(there)), value.dtype)
    choice[place[there], np.flatnonzero(there)] = 1
    product = jnp.tensordot(jnp.moveaxis(value, axis, -1), choice, 1, precision=jax.lax.Precision.HIGHEST)
    return jnp.moveaxis(product, -1, axis)


def whole(part: Part, strict: bool = False) -> Part:
    """The whole array."""
    for axis in range(len(part.sizes)):
        part = moved(part, axis, None, strict)
    return spread_out(part)
