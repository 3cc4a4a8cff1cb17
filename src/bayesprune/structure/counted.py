"""Arithmetic of places and of how many rows there are, as far as what two traces show holds for every number of rows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import Literal

from bayesprune.structure.jaxprs import Atom, Equation

# Of numbers that are the same however many rows there are, any function is.
_OF_ALIKE: dict[str, Callable[..., Any]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "not": np.invert, "max": np.maximum, "min": np.minimum,
    "abs": np.abs, "sign": np.sign, "rem": np.fmod,
    "clamp": lambda least, value, most: np.minimum(np.maximum(value, least), most),
}  # fmt: skip
# Of others only what is a straight line in their number: where two of its points agree, all do. A comparison is none:
# what holds of two rows and of three need not hold of one, or of thousands.
_STRAIGHT: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "neg": np.negative,
    "mul": np.multiply,
    "convert_element_type": np.asarray,
    "select_n": lambda which, *cases: cases[int(which)],
}
Pair = tuple[Any, Any]


def folded(one: Equation, other: Equation, known: dict[Any, Pair]) -> Pair | None:
    """What an equation of known single numbers gives in either trace, noted in ``known``; None where it cannot be said.

    ``one``, ``other``: the same equation for two numbers of rows. ``x[:, i]`` asks whether the place 0 of the rows is below
    zero, to add their number then.
    """
    name, given = one.primitive.name, [_read(*pair, known) for pair in zip(one.invars, other.invars, strict=True)]
    numbers = [pair for pair in given if pair is not None]
    fold = (_OF_ALIKE | _STRAIGHT).get(name)
    if fold is None or len(numbers) < len(given) or not (all(map(_alike, numbers)) or _is_straight(name, numbers)):
        return None
    dtype = one.outvars[0].aval.dtype
    first, second = (np.asarray(fold(*values), dtype) for values in zip(*numbers, strict=True))
    known[one.outvars[0]] = (first, second)
    return first, second


def _is_straight(name: str, numbers: Sequence[Pair]) -> bool:
    """Whether an operation on numbers that differ by that of the rows gives a straight line again."""
    if name == "mul":
        return any(map(_alike, numbers))
    if name == "select_n":
        return _alike(numbers[0])
    if name == "convert_element_type":  # from reals it would be a staircase
        return np.asarray(numbers[0][0]).dtype.kind in "iu"
    return name in _STRAIGHT


def _alike(pair: Pair) -> bool:
    return bool(pair[0] == pair[1])


def _read(one: Atom, other: Atom, known: dict[Any, Pair]) -> Pair | None:
    """A number in either trace; None of arrays, and of what is not known."""
    pair = (one.val, other.val) if isinstance(one, Literal) and isinstance(other, Literal) else known.get(one)
    return None if pair is None or np.ndim(pair[0]) else pair
