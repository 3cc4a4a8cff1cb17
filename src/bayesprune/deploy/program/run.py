"""Operations by JAX: the counterpart of `reader`, to be traced, compiled and differentiated; and one by NumPy, in float64."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike

from bayesprune.core.types import Array
from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import OPAQUE, Op, OpProgram
from bayesprune.structure.ops import PRIMITIVES
from bayesprune.structure.ops.trees import by_gathers


def run(
    program: OpProgram,
    weights: Mapping[str, Any],
    x: Array,
    constants: Mapping[int, Any] | None = None,
    made: Mapping[int, Any] | None = None,
) -> jax.Array:
    """The network's outputs for rows ``x``, with ``weights`` {site: array}; ``constants``: in place of the program's own.

    ``made``: what `before` makes of these rows, so that it is not made again.
    """
    constants = program.constants if constants is None else constants
    given = {number: weights[site] for site, number in program.weights.items()}
    if program.one_by_one:
        alone = lambda row: _values(program.ops, {**constants, **given, program.rows: row[None]}, 1)  # noqa: E731
        return jax.vmap(lambda row: alone(row)[program.output][0])(x)
    ops = program.ops if made is None else program.halves[1]
    return _values(ops, {**constants, **given, **(made or {}), program.rows: x}, x.shape[0])[program.output]


def before(program: OpProgram, x: Array, constants: Mapping[int, Any] | None = None) -> dict[int, Any]:
    """The arrays made of rows ``x`` before any weight, of which others are made: for many networks once for all of them.

    None of a program that runs on one row at a time.
    """
    if program.one_by_one:
        return {}
    constants = program.constants if constants is None else constants
    first, rest = program.halves
    needed = {program.output, *(number for op in rest for number in op.inputs)}
    values = _values(first, {**constants, program.rows: x}, x.shape[0])
    return {number: values[number] for op in first for number in op.outputs if number in needed}


def _values(ops: Sequence[Op], values: dict[int, Any], rows: Any) -> dict[int, Any]:
    for op in ops:
        values.update(zip(op.outputs, step(op, rows, [values[i] for i in op.inputs]), strict=True))
    return values


def step(op: Op, rows: Any, arrays: list[Any]) -> list[Any]:
    """One operation: its results. ``rows``: how many, which may be a symbol of `jax.export`."""
    if op.name == OPAQUE:
        primitive, values = op.attributes["primitive"], list(map(jnp.asarray, arrays))
        for place, key in op.attributes.get("keys", {}).items():  # in the order of their places
            values.insert(place, key)
        made = primitive.bind(*values, **op.attributes["params"])
        return list(made) if primitive.multiple_results else [made]
    return [reader.step(op.name, op.attributes, rows, *map(jnp.asarray, arrays), functions=FUNCTIONS)]


def _look_up(table: Array, index: Array, fill: bool) -> jax.Array:
    index = index[..., 0].astype(jnp.int32)
    inside = jnp.clip(index, 0, len(table) - 1)
    made = jnp.take(table, inside, axis=0)
    outside = (inside != index).reshape(index.shape + (1,) * (table.ndim - 1))
    return jnp.where(outside, jnp.asarray(jnp.nan, made.dtype), made) if fill else made


def _convolve(a: jax.Array, kernel: jax.Array, **of: Any) -> jax.Array:
    dims = lax.ConvDimensionNumbers(*(tuple(of[key]) for key in ("data", "weights", "result")))
    how = {"rhs_dilation": of["dilation"], "dimension_numbers": dims, "feature_group_count": of["groups"]}
    return lax.conv_general_dilated(a, kernel, of["strides"], [(low, high) for low, high in of["sides"]], **how)


def _pool(fold: Callable[..., Any], empty: float, a: jax.Array, **of: Any) -> Any:
    sides = [(low, high) for low, high in of["sides"]]
    return lax.reduce_window(a, jnp.asarray(empty, a.dtype), fold, of["window"], of["strides"], sides)


def _folded(fold: Callable[..., Any], a: Array, axes: Sequence[int]) -> Any:
    """Whole numbers in their own type: NumPy's functions of JAX take a longer one for short ones."""
    return fold(a, tuple(axes), dtype=None if a.dtype == bool else a.dtype)


# As `reader.FUNCTIONS` has them; entry by entry by JAX's functions of NumPy's names, which find a common type for operands.
FUNCTIONS: dict[str, Any] = {
    **{name: getattr(jnp, PRIMITIVES[name].numpy, None) or getattr(lax, name) for name in (*reader.UNARY, *reader.BINARY)},
    "integer_pow": lambda a, y: lax.integer_pow(a, y), "convert": lambda a, dtype: a.astype(dtype),
    "dot": lambda a, b, contract, batch: lax.dot_general(a, b, (tuple(contract), tuple(batch))), "conv": _convolve,
    "select": lambda a, no, yes: jnp.where(a, yes, no), "clamp": lambda low, a, high: jnp.minimum(jnp.maximum(a, low), high),
    "reshape": lambda a, sizes: a.reshape(sizes), "transpose": lambda a, order: a.transpose(order), "lookup": _look_up,
    "broadcast": lambda a, sizes, axes: lax.broadcast_in_dim(a, sizes, axes),
    "slice": lambda a, ranges: a[tuple(slice(lo, None if hi < 0 else hi, by) for lo, hi, by in ranges)],
    "take": lambda a, index, axis: jnp.take(a, jnp.asarray(index), axis=axis), "reverse": lambda a, axes: jnp.flip(a, axes),
    "concatenate": lambda *arrays, axis: jnp.concatenate(arrays, axis),
    "pad": lambda a, filler, sides: lax.pad(a, jnp.asarray(filler, a.dtype), [(*ends, 0) for ends in sides]),
    "reduce_sum": functools.partial(_folded, jnp.sum), "reduce_prod": functools.partial(_folded, jnp.prod),
    "reduce_max": lambda a, axes: jnp.max(a, tuple(axes)), "reduce_min": lambda a, axes: jnp.min(a, tuple(axes)),
    "window_sum": functools.partial(_pool, lax.add, 0.0), "window_max": functools.partial(_pool, lax.max, -jnp.inf),
    "window_min": functools.partial(_pool, lax.min, jnp.inf), "trees": by_gathers,
}  # fmt: skip


def evaluate(op: Op, arrays: list[np.ndarray], dtype: DTypeLike = np.float64) -> list[np.ndarray]:
    """The results for one row, floats in ``dtype``; of an opaque operation by JAX, which may round them first.

    >>> evaluate(Op("convert", (0,), (1,), {"dtype": "float32"}), [np.asarray([1, 2])])[0].dtype
    dtype('float64')
    """
    if op.name == OPAQUE:
        made = step(op, 1, list(arrays))
    else:
        floats = op.name == "convert" and op.attributes["dtype"].startswith("float")
        made = [reader.step(op.name, {"dtype": dtype} if floats else op.attributes, 1, *arrays)]
    return [floating(np.asarray(each), dtype) for each in made]


def floating(array: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """The array with its floats in ``dtype``; whole numbers and booleans stay as they are."""
    return array.astype(dtype, copy=False) if array.dtype.kind == "f" else array
