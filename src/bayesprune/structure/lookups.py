"""Look-ups by data: which rows of x a network takes for places in a table, and how long these tables are."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr, jaxprs_in_params

from bayesprune.structure.graph import expand
from bayesprune.structure.jaxprs import Equation, JaxprLike, called, computed, followed, somewhere
from bayesprune.structure.ops import movement, record_of, written_out
from bayesprune.structure.primitive import integers
from bayesprune.structure.row_states import counts

NONE = -1
MOST = 1 << 20  # entries of an array that is followed
_LOOKS = ("gather", "dynamic_slice", "dynamic_update_slice", "scatter", "eq")


class Bounds(NamedTuple):
    """Of one array of x, by entry of a row: the least and the largest number that every table looked up with it has, -inf and
    inf where there is no table; ``tables``: their names, by entry."""

    low: np.ndarray
    high: np.ndarray
    tables: np.ndarray


class _Places(NamedTuple):
    """An array made of entries of x as they are, plus whole numbers: which entry each is, `NONE` for others; what is added.

    Both are labels as `structure.graph` has them.
    """

    labels: np.ndarray
    plus: np.ndarray


def bounds(jaxpr: ClosedJaxpr, sites: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> tuple[Bounds | None, ...]:
    """For each array of rows, the numbers that its entries may be: those of tables that the network reads at them.

    Followed are gathers, scatters and slices (embeddings, `jnp.take`, indexing), unless the net asks for clipped ones, and the
    comparison with counted numbers that makes a one-hot row; to entries of x as they are, moved, cast, or with whole numbers
    added. What else happens to them, as ``x % 50`` or `jnp.clip`, is the network's own care. Nothing is computed but places.

    ``jaxpr``: of a function of (weights by ``sites``, state, rows), of one row; ``shapes``: of one row of each array.

    >>> import jax, jax.numpy as jnp
    >>> net = lambda table, x: table[x[:, 1]]
    >>> traced = jax.make_jaxpr(net)(jnp.ones((5, 2)), jnp.ones((1, 2), int))
    >>> (one,) = bounds(traced, ["table"], [(2,)])
    >>> one.low, one.high, one.tables
    (array([-inf,   0.]), array([inf,  4.]), array(['', 'table'], dtype=object))
    """
    if not somewhere(jaxpr, lambda equation: equation.primitive.name.startswith(_LOOKS)):
        return (None,) * len(shapes)
    sizes = [int(np.prod(shape)) for shape in shapes]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    found = _Found(int(starts[-1]))
    rows = [
        _Places(np.arange(start, start + size).reshape(1, *shape), np.zeros((1, *shape), np.int64))
        for start, size, shape in zip(starts, sizes, shapes, strict=False)
    ]
    state = [None] * (len(jaxpr.jaxpr.invars) - len(sites) - len(shapes))
    _walk(jaxpr, [*sites, *state, *rows], found)
    return tuple(found.part(int(start), size, shape) for start, size, shape in zip(starts, sizes, shapes, strict=False))


class _Found:
    def __init__(self, size: int) -> None:
        self.low, self.high = np.full(size, -np.inf), np.full(size, np.inf)
        self.tables = np.full(size, "", object)

    def limit(self, places: _Places, length: int, table: str) -> None:
        """Entries, with what is added, are places of a table of so many."""
        labels, plus = np.broadcast_arrays(*places)
        labels, plus = labels[labels != NONE], plus[labels != NONE]
        closer = length - 1 - plus < self.high[labels]
        self.tables[labels[closer | (self.tables[labels] == "")]] = table
        np.maximum.at(self.low, labels, -plus)
        np.minimum.at(self.high, labels, length - 1 - plus)

    def part(self, start: int, size: int, shape: tuple[int, ...]) -> Bounds | None:
        low, high, tables = (array[start : start + size].reshape(shape) for array in (self.low, self.high, self.tables))
        return None if np.isinf(high).all() else Bounds(low, high, tables)


def _walk(program: JaxprLike, inputs: Sequence[Any], found: _Found) -> list[Any]:
    return followed(program, inputs, lambda equation, operands: _step(equation, operands, found), _whole)


def _whole(value: Any) -> np.ndarray | None:
    """A constant of whole numbers or booleans; of others nothing is known."""
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    kind = np.dtype(value.dtype).kind if isinstance(value.dtype, np.dtype) else "none"
    return np.asarray(value) if kind in "iub" and np.size(value) <= MOST else None


def _step(equation: Equation, inputs: list[Any], found: _Found) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    nothing: list[Any] = [None] * len(equation.outvars)
    if name == "cond":
        for branch in params["branches"]:
            _walk(branch, inputs[1:], found)
        return nothing
    places = [value for value in inputs if isinstance(value, _Places)]
    if (program := called(equation)) is not None:
        return _walk(program, inputs, found)
    if not places:
        return _computed(equation, inputs) or nothing
    record = record_of(equation)
    if record.same:
        return inputs if equation.outvars[0].aval.dtype != bool else nothing
    if record.move is not None:
        move = record.move(params, equation.invars[0].aval.shape, equation.outvars[0].aval.shape)
        if move is not None:
            return [_Places(*map(move, inputs[0]))]
    shapes = [tuple(atom.aval.shape) for atom in equation.invars]
    if name == "split":
        return _walk(written_out(equation, [None]), inputs, found)
    if name == "pad" and isinstance(inputs[0], _Places):
        config = [integers(sides) for sides in params["padding_config"]]
        whole = _as_places(inputs[0], shapes[0])
        return [_Places(movement.pad(whole.labels, shapes[0], NONE, config), movement.pad(whole.plus, shapes[0], 0, config))]
    if name == "concatenate":
        pieces = [_as_places(value, shape) for value, shape in zip(inputs, shapes, strict=True)]
        columns = zip(*pieces, strict=True)
        return [_Places(*(movement.concatenate(list(column), shapes, int(params["dimension"])) for column in columns))]
    if name in ("gather", "dynamic_slice") and isinstance(inputs[0], _Places) and all(map(_is_known, inputs[1:])):
        return [_chosen(equation, _as_places(inputs[0], shapes[0]), inputs[1:])]
    if name == "select_n":
        return [_same_entries(inputs[1:])]
    if name in ("add", "sub"):
        return [_added(inputs, 1 if name == "add" else -1)]
    _look_up(name, params, inputs, shapes, found)
    return nothing


def _look_up(
    name: str, params: Mapping[str, Any], inputs: Sequence[Any], shapes: Sequence[tuple[int, ...]], found: _Found
) -> None:
    """Note the table of an operation that looks up, and the numbers that are places in it."""
    if name == "eq":
        _one_hot(inputs, found)
    elif name == "gather" and isinstance(inputs[1], _Places) and not _clips(params, "collapsed_slice_dims"):
        numbers, shape = params["dimension_numbers"], shapes[0]
        lengths = {axis: shape[axis] - params["slice_sizes"][axis] + 1 for axis in numbers.start_index_map}
        _limit(inputs[1], numbers.start_index_map, lengths, _name(inputs[0]), found)
    elif name in ("dynamic_slice", "dynamic_update_slice"):
        cut = params.get("slice_sizes", shapes[1])
        for start, length, size in zip(inputs[-len(cut) :], shapes[0], cut, strict=True):
            if isinstance(start, _Places):
                found.limit(start, length - size + 1, _name(inputs[0]))
    elif name.startswith("scatter") and isinstance(inputs[1], _Places) and not _clips(params, "inserted_window_dims"):
        numbers, shape = params["dimension_numbers"], shapes[0]
        single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        window = iter(shapes[2][axis] for axis in numbers.update_window_dims)
        sizes = [1 if axis in single else next(window) for axis in range(len(shape))]
        axes = integers(numbers.scatter_dims_to_operand_dims)
        lengths = {axis: shape[axis] - sizes[axis] + 1 for axis in axes}
        _limit(inputs[1], axes, lengths, _name(inputs[0]), found)


def _clips(params: Mapping[str, Any], single: str) -> bool:
    """Whether the network asks for indices to be clipped; a dynamic slice of each row has that mode too, and does not ask."""
    return "CLIP" in str(params["mode"]) and bool(getattr(params["dimension_numbers"], single))


def _limit(index: _Places, axes: Sequence[int], lengths: dict[int, int], table: str, found: _Found) -> None:
    """``axes``: of the table, that the last axis of an index goes over."""
    for number, axis in enumerate(axes):
        if axis in lengths:
            own = [expand(array, array.ndim - 1, len(axes))[..., number] for array in index]
            found.limit(_Places(*own), lengths[axis], table)


def _name(value: object) -> str:
    return value if isinstance(value, str) else "a table"


def _is_known(value: object) -> bool:
    return isinstance(value, np.ndarray)


def _computed(equation: Equation, inputs: list[Any]) -> list[Any] | None:
    """The results of an operation on whole numbers that are known."""
    name, outs = equation.primitive.name, [variable.aval for variable in equation.outvars]
    if record_of(equation).same and inputs and isinstance(inputs[0], str):
        return inputs[:1]
    plain = all(isinstance(aval.dtype, np.dtype) and aval.dtype.kind in "iub" and aval.size <= MOST for aval in outs)
    if not plain or not all(map(_is_known, inputs)) or (not inputs and name != "iota"):
        return None
    if equation.effects or any(jaxprs_in_params(equation.params)):
        return None
    return list(map(np.asarray, computed(equation, inputs)))


def _chosen(equation: Equation, places: _Places, indices: Sequence[np.ndarray]) -> _Places | None:
    """Entries at places that are known: the operation itself, done to labels."""
    if places.labels.size > MOST:
        return None
    labels, plus = (np.asarray(*computed(equation, [np.asarray(array, np.int32), *indices])) for array in places)
    return _Places(np.maximum(labels, NONE).astype(np.int64), plus.astype(np.int64))


def _as_places(value: object, shape: tuple[int, ...]) -> _Places:
    if isinstance(value, _Places):
        return _Places(*(np.broadcast_to(array, shape) for array in value))
    return _Places(np.full(shape, NONE, np.int64), np.zeros(shape, np.int64))


def _same_entries(cases: Sequence[Any]) -> Any:
    """JAX looks whether an index is below zero, and counts such from the end: the same entries, the first as they are."""
    if all(isinstance(case, _Places) and np.array_equal(case.labels, cases[0].labels) for case in cases):
        return cases[0]
    return None


def _added(inputs: Sequence[Any], sign: int) -> Any:
    one, other = inputs
    if isinstance(other, _Places) and sign > 0:
        one, other = other, one
    if not isinstance(one, _Places) or not _is_known(other):
        return None
    plus = one.plus + sign * other.astype(np.int64)
    return _Places(np.broadcast_to(one.labels, plus.shape), plus)


def _one_hot(inputs: Sequence[Any], found: _Found) -> None:
    """Entries compared with 0, 1, 2, ... along an axis along which they stay the same."""
    counted, places = sorted(inputs, key=lambda value: isinstance(value, _Places))
    if not _is_known(counted) or not isinstance(places, _Places) or counted.ndim != places.labels.ndim:
        return
    for axis, length in enumerate(counted.shape):
        stays = [np.array_equal(array, np.broadcast_to(array.take([0], axis), array.shape)) for array in places]
        if length > 1 and all(stays) and counts(counted, axis):
            found.limit(_Places(*(array.take([0], axis) for array in places)), length, "a one-hot row")
