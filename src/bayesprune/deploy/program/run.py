"""Operations by JAX: the counterpart of `reader`, to be traced, compiled and differentiated."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from bayesprune.core.types import Array
from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import OPAQUE, Op, Program
from bayesprune.structure.ops import PRIMITIVES

# Entry by entry: JAX's functions of NumPy's names, which find a common type for their operands; the rest as they are.
FUNCTIONS: dict[str, Any] = {
    name: getattr(jnp, PRIMITIVES[name].numpy, None) or getattr(lax, name) for name in (*reader.UNARY, *reader.BINARY)
}
REDUCE: dict[str, Any] = {"reduce_sum": jnp.sum, "reduce_max": jnp.max, "reduce_min": jnp.min, "reduce_prod": jnp.prod}
WINDOW: dict[str, Any] = {"window_sum": (lax.add, 0.0), "window_max": (lax.max, -jnp.inf), "window_min": (lax.min, jnp.inf)}


def run(program: Program, weights: Mapping[str, Any], x: Array, constants: Mapping[int, Any] | None = None) -> jax.Array:
    """The network's outputs for rows ``x``, with ``weights`` {site: array}; ``constants``: in place of the program's own."""
    constants = program.constants if constants is None else constants
    if program.one_by_one:
        return jax.vmap(lambda row: _run(program, weights, row[None], constants)[0])(x)
    return _run(program, weights, x, constants)


def _run(program: Program, weights: Mapping[str, Any], x: Array, constants: Mapping[int, Any]) -> jax.Array:
    return _values(program, weights, x, constants)[program.output]


def _values(program: Program, weights: Mapping[str, Any], x: Array, constants: Mapping[int, Any]) -> dict[int, Any]:
    values: dict[int, Any] = {**constants, program.rows: x}
    values |= {number: weights[site] for site, number in program.weights.items()}
    for op in program.ops:
        values.update(zip(op.outputs, step(op, x.shape[0], [values[i] for i in op.inputs]), strict=True))
    return values


def step(op: Op, rows: Any, arrays: list[Any]) -> list[Any]:
    """One operation: its results. ``rows``: how many, which may be a symbol of `jax.export`."""
    if op.name == OPAQUE:
        primitive, values = op.attributes["primitive"], list(map(jnp.asarray, arrays))
        for place, key in op.attributes.get("keys", {}).items():  # in the order of their places
            values.insert(place, key)
        made = primitive.bind(*values, **op.attributes["params"])
        return list(made) if primitive.multiple_results else [made]
    return [_step(op.name, op.attributes, rows, *map(jnp.asarray, arrays))]


def _step(name: str, attributes: Mapping[str, Any], rows: Any, *arrays: Array) -> Any:
    a, size = arrays[0], lambda number: -number * rows if number < 0 else number
    if name in FUNCTIONS:
        return FUNCTIONS[name](*arrays)
    if name in REDUCE:
        return REDUCE[name](a, axis=tuple(attributes["axes"]))
    if name in WINDOW:
        function, empty = WINDOW[name]
        window, strides, sides = (attributes[key] for key in ("window", "strides", "sides"))
        return lax.reduce_window(a, jnp.asarray(empty, a.dtype), function, window, strides, [tuple(s) for s in sides])
    match name:
        case "integer_pow":
            return lax.integer_pow(a, attributes["y"])
        case "convert":
            return a.astype(attributes["dtype"])
        case "select":
            return jnp.where(a, arrays[2], arrays[1])
        case "clamp":
            return jnp.minimum(jnp.maximum(arrays[1], a), arrays[2])
        case "dot":
            (a1, b1), (a2, b2) = attributes["contract"], attributes["batch"]
            return lax.dot_general(a, arrays[1], ((a1, b1), (a2, b2)))
        case "conv":
            return _convolve(a, arrays[1], **attributes)
        case "lookup":
            return _look_up(a, arrays[1], attributes["fill"])
        case "reshape":
            return a.reshape([size(n) for n in attributes["sizes"]])
        case "transpose":
            return a.transpose(attributes["order"])
        case "broadcast":
            return lax.broadcast_in_dim(a, [size(n) for n in attributes["sizes"]], attributes["axes"])
        case "slice":
            return a[tuple(slice(lo, None if hi < 0 else hi, by) for lo, hi, by in attributes["ranges"])]
        case "take":
            return jnp.take(a, jnp.asarray(attributes["index"]), axis=attributes["axis"])
        case "reverse":
            return jnp.flip(a, attributes["axes"])
        case "concatenate":
            return jnp.concatenate(arrays, attributes["axis"])
        case "pad":
            return lax.pad(a, jnp.asarray(arrays[1], a.dtype), [(*sides, 0) for sides in attributes["sides"]])
    raise ValueError(f"unknown operation {name!r}: the file was written by a later version of bayesprune.")


def _look_up(table: Array, index: Array, fill: bool) -> jax.Array:
    index = index[..., 0].astype(jnp.int32)
    inside = jnp.clip(index, 0, len(table) - 1)
    made = jnp.take(table, inside, axis=0)
    outside = (inside != index).reshape(index.shape + (1,) * (table.ndim - 1))
    return jnp.where(outside, jnp.asarray(jnp.nan, made.dtype), made) if fill else made


def _convolve(
    a: Array,
    kernel: Array,
    data: Sequence[int],
    weights: Sequence[int],
    result: Sequence[int],
    strides: Sequence[int],
    sides: Sequence[Sequence[int]],
    dilation: Sequence[int],
    groups: int,
) -> jax.Array:
    dims = lax.ConvDimensionNumbers(tuple(data), tuple(weights), tuple(result))
    pads = [(low, high) for low, high in sides]
    return lax.conv_general_dilated(
        jnp.asarray(a),
        jnp.asarray(kernel),
        strides,
        pads,
        rhs_dilation=dilation,
        dimension_numbers=dims,
        feature_group_count=groups,
    )
