"""Arrays of which only slices are there: all others hold one number, zero as a rule, and are neither stored nor computed.

Along an axis that was cut short a `Part` says which slices it holds. Of a network whose dead weights leave whole slices of
zeros, every operation can be done on what is left; `part_rules` says how.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Int

from bayesprune.core.send import send
from bayesprune.structure.jaxprs import Equation

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


_EITHER = frozenset(("mul", "and"))  # zero where one factor is
_OVER = frozenset(("div", "rem"))  # zero where the first is


def bind(equation: Equation, values: list[Any], **changed: Any) -> Any:
    """The operation on other values, some of its parameters changed."""
    with equation.ctx.manager:
        return equation.primitive.bind(*values, **(equation.params | changed))


def entry_by_entry(equation: Equation, parts: list[Part], strict: bool) -> Part | None:
    """On the slices where the result is not one number; None where it is no such number elsewhere."""
    sizes = tuple(equation.outvars[0].aval.shape)
    if len(equation.outvars) > 1 or any(part.sizes and len(part.sizes) != len(sizes) for part in parts):
        return None
    left = [_left(equation, parts, axis) for axis in range(len(sizes))]
    rests = {rest for index, rest in left if index is not None}
    if len(rests) > 1:
        return None
    done = []
    for part in parts:
        for axis, (index, _) in enumerate(left):
            if part.sizes and not part.constant_along(axis) and part.sizes[axis] == sizes[axis]:
                part = moved(part, axis, index, strict)
        done.append(part)
    values = [part.value for part in done]
    if len(values) > 2:  # a choice among arrays, which have one shape
        shape = np.broadcast_shapes(*map(jnp.shape, values))
        values = [value if not jnp.ndim(value) else jnp.broadcast_to(value, shape) for value in values]
    kept = tuple(index for index, _ in left)
    number = _number(equation, parts)
    return Part(bind(equation, values), sizes, kept, number=number, rest=next(iter(rests), 0.0))


def _left(equation: Equation, parts: list[Part], axis: int) -> tuple[Index | None, float]:
    """The slices along an axis outside of which the result is one number, and that; None: all."""
    name = equation.primitive.name
    index = [part.kept[axis] if part.sizes else None for part in parts]
    zeros = [one if part.rest == 0 else None for one, part in zip(index, parts, strict=True)]
    there, empty = [one for one in index if one is not None], [one for one in zeros if one is not None]
    if not there:
        return None, 0.0
    if name in _EITHER and empty:
        return one_at_least(functools.reduce(np.intersect1d, empty), empty[0]), 0.0
    if name in _OVER and zeros[0] is not None and index[1] is None:
        return zeros[0], 0.0
    if name == "select_n":
        cases = [one for one, part in zip(zeros[1:], parts[1:], strict=True) if part.number != 0]
        if cases and all(one is not None for one in cases):
            return functools.reduce(np.union1d, [one for one in cases if one is not None]), 0.0
    rests = [part.number if one is None else part.rest for one, part in zip(index, parts, strict=True)]
    if any(rest is None for rest in rests):
        return None, 0.0
    rest = _value(equation, rests)
    return (functools.reduce(np.union1d, there), rest) if np.isfinite(rest) else (None, 0.0)


def _value(equation: Equation, numbers: list[Any]) -> float:
    """What an operation makes of numbers."""
    with jax.core.eval_context():  # whatever traces it
        values = [send(n, v.aval.dtype) for n, v in zip(numbers, equation.invars, strict=True)]
        return float(jax.device_get(equation.primitive.bind(*values, **equation.params)))


def _number(equation: Equation, parts: list[Part]) -> float | None:
    single = equation.primitive.name in ("convert_element_type", "neg", "copy")
    return _value(equation, [parts[0].number]) if single and parts[0].number is not None else None


def one_at_least(index: Index, other: Index) -> Index:
    """``index``, or the first of ``other`` where it is empty: no array is made of nothing."""
    return index if len(index) else other[:1]
