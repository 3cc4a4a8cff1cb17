"""What JAX says of an operation, as the attributes that a plan has."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from bayesprune.deploy import reader
from bayesprune.structure.jaxprs import Equation

DTYPES = frozenset(["float32", "float64", "int32", "int64", "uint8", "int8", "bool"])  # of an array that NumPy can hold


class NotAsData(Exception):
    """An operation that has no form as data: it is kept opaque."""


def product(params: Mapping[str, Any]) -> dict[str, Any]:
    """Of a sum of products over pairs of axes."""
    contract, batch = ([integers(axes) for axes in pair] for pair in params["dimension_numbers"])
    return {"contract": contract, "batch": batch}


def convolution(params: Mapping[str, Any]) -> dict[str, Any]:
    """Of a convolution whose padding takes nothing away. Raises `NotAsData`."""
    trims = any(side < 0 for sides in params["padding"] for side in sides)
    if params["batch_group_count"] != 1 or set(params["lhs_dilation"]) != {1} or trims:
        raise NotAsData
    dims = params["dimension_numbers"]
    return {
        "data": integers(dims.lhs_spec),
        "weights": integers(dims.rhs_spec),
        "result": integers(dims.out_spec),
        "strides": integers(params["window_strides"]),
        "sides": [integers(side) for side in params["padding"]],
        "dilation": integers(params["rhs_dilation"]),
        "groups": int(params["feature_group_count"]),
    }


def windows(params: Mapping[str, Any]) -> dict[str, Any]:
    """Of a sum or maximum over windows of neighbours. Raises `NotAsData`."""
    if {*params["base_dilation"], *params["window_dilation"]} != {1}:
        raise NotAsData
    return {
        "window": integers(params["window_dimensions"]),
        "strides": integers(params["window_strides"]),
        "sides": [integers(side) for side in params["padding"]],
    }


def edges(params: Mapping[str, Any]) -> dict[str, Any]:
    """Of plain edges. Raises `NotAsData`."""
    if any(low < 0 or high < 0 or inner for low, high, inner in params["padding_config"]):
        raise NotAsData
    return {"sides": [integers(ends[:2]) for ends in params["padding_config"]]}


def lookup(params: Mapping[str, Any], shapes: Sequence[Sequence[int]], floats: bool) -> dict[str, Any]:
    """Of whole rows of a table by their numbers, as an embedding's. Raises `NotAsData`."""
    dims, leading, rest = params["dimension_numbers"], len(shapes[1]) - 1, shapes[0][1:]
    by_row = dims.collapsed_slice_dims == dims.start_index_map == (0,) and not dims.operand_batching_dims
    whole = tuple(params["slice_sizes"]) == (1, *rest) and tuple(dims.offset_dims) == tuple(range(leading, leading + len(rest)))
    fill, value = params["mode"] == GatherScatterMode.FILL_OR_DROP, params["fill_value"]
    if not (by_row and whole) or (fill and not (floats and (value is None or np.isnan(value)))):
        raise NotAsData
    return {"fill": fill}


def chosen_places(equation: Equation, index: np.ndarray | None) -> dict[str, Any] | None:
    """Of a look-up of known places along one axis, (places, 1), all else whole, that axis and the places; else None."""
    dims, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    shape, result = (atom.aval.shape for atom in (equation.invars[0], equation.outvars[0]))
    if index is None or index.ndim != 2 or len(dims.start_index_map) != 1 or dims.operand_batching_dims:
        return None
    (axis,) = dims.start_index_map
    as_taken = tuple(dims.collapsed_slice_dims) == (axis,) and axis not in dims.offset_dims and len(result) == len(shape)
    whole = all(n == (1 if i == axis else shape[i]) for i, n in enumerate(sizes))
    inside = ((index >= 0) & (index < shape[axis])).all()
    return {"axis": int(axis), "index": index[:, 0].tolist()} if as_taken and whole and inside else None


def integers(values: Iterable[Any]) -> list[int]:
    """As JSON has them."""
    return [int(value) for value in values]


# By their names in plans, operations whose parameters say all of it.
OF_PARAMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "integer_pow": lambda of: {"y": int(of["y"])},
    "convert": lambda of: {"dtype": str(np.dtype(of["new_dtype"]))},
    "transpose": lambda of: {"order": integers(of["permutation"])},
    "reverse": lambda of: {"axes": integers(of["dimensions"])},
    "concatenate": lambda of: {"axis": int(of["dimension"])},
    "trees": lambda of: {name: int(of[name]) for name in ("turns", "depth")},
    "dot": product,
    "conv": convolution,
    "pad": edges,
    **dict.fromkeys(reader.REDUCE, lambda of: {"axes": integers(of["axes"])}),
    **dict.fromkeys(reader.WINDOW, windows),
}
