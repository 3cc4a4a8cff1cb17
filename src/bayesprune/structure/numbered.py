"""The rows' own numbers: what a network reads at them, as by ``x[jnp.arange(len(x)), place]``, is of its own row."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Literal
from jax.typing import DTypeLike

from bayesprune.structure.jaxprs import Equation

TOLD_APART = "iota, which tells rows apart"


class Own(NamedTuple):
    """Whole numbers, along ``axis`` those of the rows: 0, 1, 2, ...

    ``place``: of an array of indices, the one place along its last axis where they are; None: they are everywhere.
    """

    axis: int
    place: int | None = None


class Never(NamedTuple):
    """Whether the rows' numbers are below zero, as JAX asks of every index."""

    axis: int


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
