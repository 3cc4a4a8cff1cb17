"""Where the rows are in an array, or what has become of them; and what is made of the rows' own numbers.

What a network reads at these, as by ``x[jnp.arange(len(x)), place]``, is of its own row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Literal
from jax.typing import ArrayLike, DTypeLike

from bayesprune.structure.jaxprs import Atom, Equation, computed

TOLD_APART = "iota, which tells rows apart"


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


class Own(NamedTuple):
    """Whole numbers, along ``axis`` those of the rows: 0, 1, 2, ...

    ``place``: of an array of indices, the one place along its last axis where they are; None: they are everywhere.
    """

    axis: int
    place: int | None = None


class Never(NamedTuple):
    """Whether the rows' numbers are below zero, as JAX asks of every index."""

    axis: int


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


def fault(output: State) -> str:
    """By what an output's rows are not apart; "" where they are."""
    if isinstance(output, RowAxis) and (output.axis, output.before) != (0, 1):
        return "the order of the outputs' axes"
    return output.by if isinstance(output, Mixed) else TOLD_APART if isinstance(output, Own | Never) else ""


def axis_of(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The one axis that differs in size."""
    differ = [axis for axis, (n, m) in enumerate(zip(one, other, strict=True)) if n != m]
    return differ[0] if differ else None


def wide(dtype: DTypeLike) -> bool:
    """Whether a type holds the number of any row."""
    return np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize >= 4


def counts(array: np.ndarray, axis: int) -> bool:
    """Whether a constant has 0, 1, 2, ... along an axis, and nothing else."""
    numbers = np.arange(array.shape[axis]).reshape([-1 if place == axis else 1 for place in range(array.ndim)])
    return bool((array == numbers).all())


def after(equation: Equation, inputs: Sequence[Any]) -> Own | Never | None:
    """What an equation makes of the rows' own numbers; None where it is neither they again nor what is made of them here.

    Arrays of indices may hold other things beside them, of which the caller knows whether they are the rows' own.
    """
    name, params, shape = equation.primitive.name, equation.params, equation.outvars[0].aval.shape
    own = next((state for state in inputs if isinstance(state, Own)), None)
    if own is None or own.place is not None:
        return None
    if name == "lt" and inputs[0] is own and isinstance(zero := equation.invars[1], Literal) and np.all(zero.val == 0):
        return Never(own.axis)
    if name == "convert_element_type" and wide(params["new_dtype"]):
        return own
    if name == "broadcast_in_dim":
        return Own(int(params["broadcast_dimensions"][own.axis]))
    if name == "squeeze" or (name == "reshape" and params.get("dimensions") is None):
        return _unit_axes(equation.invars[0].aval.shape, shape, own.axis)
    if name == "concatenate" and params["dimension"] == len(shape) - 1 != own.axis and sum(s is own for s in inputs) == 1:
        number = next(number for number, state in enumerate(inputs) if state is own)
        sizes = [atom.aval.shape[-1] for atom in equation.invars]
        return Own(own.axis, sum(sizes[:number])) if sizes[number] == 1 else None
    return None


def _unit_axes(old: Sequence[int], new: Sequence[int], axis: int) -> Own | None:
    """Where an axis goes when only axes of one entry come and go."""
    long = [[place for place, size in enumerate(shape) if size > 1] for shape in (old, new)]
    if [old[place] for place in long[0]] != [new[place] for place in long[1]]:
        return None
    return Own(long[1][long[0].index(axis)])


def own_row(equation: Equation, table_axis: int, index: Own) -> int | None:
    """The axis of the rows in what a gather reads of each row's own entries; None where it may read another's.

    ``table_axis``: that of the rows in the table, one entry for each.
    """
    numbers, (table, places) = equation.params["dimension_numbers"], (atom.aval.shape for atom in equation.invars)
    batching = numbers.operand_batching_dims or numbers.start_indices_batching_dims
    one_place = 0 if places[-1:] == (1,) and index.axis < len(places) - 1 else None
    place = one_place if index.place is None else index.place
    if batching or place is None or numbers.start_index_map[place] != table_axis:
        return None
    single = table_axis in numbers.collapsed_slice_dims and table[table_axis] == places[index.axis]
    by_index = [axis for axis in range(len(equation.outvars[0].aval.shape)) if axis not in numbers.offset_dims]
    return by_index[index.axis] if single and index.axis < len(by_index) else None


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
