"""Where the rows are in an array, or what has become of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Literal
from jax.typing import ArrayLike

from bayesprune.structure.jaxprs import Atom, Equation, computed
from bayesprune.structure.numbered import TOLD_APART, Never, Own, after, counts, own_row, wide


class RowAxis(NamedTuple):
    """Where the rows are: along ``axis``, whose entries are ``before`` times the rows, each ``after`` times.

    ``uniform``: it is the same for every row, whatever the rows hold.
    """

    axis: int
    before: int = 1
    after: int = 1
    uniform: bool = False


class Mixed(NamedTuple):
    """What is of several rows, and the operation by which it is."""

    by: str


State = RowAxis | Mixed | Own | Never | None  # None: it has no rows


def constant(one: ArrayLike, other: ArrayLike) -> State:
    """A constant, the same for any number of rows, or with the same for each of them."""
    if jax.dtypes.issubdtype(getattr(one, "dtype", np.dtype(float)), jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    a, b = np.asarray(one), np.asarray(other)
    axis = axis_of(a.shape, b.shape)
    if axis is None:
        same = a.shape == b.shape and bool(np.all((a == b) | ((a != a) & (b != b))))
        return None if same else Mixed("the number of rows, which is counted with")
    first = a.take([0], axis)
    alike = all(bool((array == first).all()) for array in (a, b))
    if wide(a.dtype) and all(counts(array, axis) for array in (a, b)):
        return Own(axis)
    if alike and a.dtype == bool and not a.any():
        return Never(axis)
    return RowAxis(axis, uniform=True) if alike else Mixed("a constant that is another for each row")


def axis_of(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The one axis that differs in size."""
    differ = [axis for axis, (n, m) in enumerate(zip(one, other, strict=True)) if n != m]
    return differ[0] if differ else None


def numbered(one: Equation, inputs: Sequence[State]) -> State:
    """What is made of the rows' own numbers, beside arrays of the same rows."""
    others = [state for state in inputs if isinstance(state, RowAxis)]
    if one.primitive.name == "gather":
        table, index = inputs
        if isinstance(table, RowAxis) and isinstance(index, Own) and table[1:3] == (1, 1):
            place = own_row(one, table.axis, index)
            return Mixed(TOLD_APART) if place is None else RowAxis(place)
    made = after(one, inputs)
    beside = made is not None and all(state[:3] == (made.axis, 1, 1) for state in others)
    return made if beside else Mixed(TOLD_APART)


# Of numbers that are the same however many rows there are, any function is.
_OF_ALIKE = ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "max", "min", "abs", "sign", "rem", "clamp")
# Of others only what is a straight line in their number: where two of its points agree, all do. A comparison is none:
# what holds of two rows and of three need not hold of one, or of thousands.
_STRAIGHT = ("add", "sub", "neg", "mul", "convert_element_type", "select_n")
Pair = tuple[Any, Any]


def folded(one: Equation, other: Equation, known: dict[Any, Pair]) -> Pair | None:
    """What an equation of known single numbers gives in either trace, noted in ``known``; None where it cannot be said.

    ``one``, ``other``: the same equation for two numbers of rows. ``x[:, i]`` asks whether the place 0 of the rows is below
    zero, to add their number then.
    """
    name, given = one.primitive.name, [_read(*pair, known) for pair in zip(one.invars, other.invars, strict=True)]
    numbers = [pair for pair in given if pair is not None]
    if name not in (*_OF_ALIKE, *_STRAIGHT) or len(numbers) < len(given):
        return None
    if not (all(map(_alike, numbers)) or _is_straight(name, numbers)):
        return None
    dtypes = [atom.aval.dtype for atom in one.invars]
    first, second = (np.asarray(*computed(one, list(map(np.asarray, values, dtypes)))) for values in zip(*numbers, strict=True))
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
