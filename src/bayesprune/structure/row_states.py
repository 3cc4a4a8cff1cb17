"""Where the rows are in an array, or what has become of them."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike

from bayesprune.structure.jaxprs import Equation
from bayesprune.structure.numbered import TOLD_APART, Never, Own, after, counts, own_row


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
    if all(counts(array, axis) for array in (a, b)):
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
