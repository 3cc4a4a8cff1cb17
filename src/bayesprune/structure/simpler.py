"""Operations on known places, and running sums, written in slices, pads and sums, which every reader of a trace follows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Known = Sequence[np.ndarray | None]  # operands, as far as they are constants
Function = Callable[..., Any]  # (operands) -> result


def simpler(equation: Any, known: Known) -> Any:
    """A program of simpler operations that is the same; None: it is simple, or there is none."""
    write = WRITTEN.get(equation.primitive.name)
    function = None if write is None else write(equation.params, [atom.aval.shape for atom in equation.invars], known)
    if function is None:
        return None
    arrays = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in equation.invars]
    return jax.make_jaxpr(function)(*arrays)


def _running(fold: Function, empty: Callable[[Any], Any]) -> Callable[..., Function]:
    """Sums (maxima, ...) of all entries up to each: after k rounds, of the last 2**k. ``empty``: what a fold leaves alone."""

    def write(params: Mapping[str, Any], shapes: Sequence[Any], known: Known) -> Function:
        axis, reverse = params["axis"], params["reverse"]

        def function(array: Any) -> Any:
            size, by = array.shape[axis], 1
            sides = [(0, 0, 0)] * array.ndim
            while by < size:
                first, last = (by, size) if reverse else (0, size - by)
                sides[axis] = (0, by, 0) if reverse else (by, 0, 0)
                moved = lax.pad(lax.slice_in_dim(array, first, last, axis=axis), empty(array.dtype), sides)
                array, by = fold(array, moved), 2 * by
            return array

        return function

    return write


def _least(dtype: Any) -> Any:
    return jnp.asarray(-jnp.inf if dtype.kind == "f" else jnp.iinfo(dtype).min, dtype)


def _greatest(dtype: Any) -> Any:
    return jnp.asarray(jnp.inf if dtype.kind == "f" else jnp.iinfo(dtype).max, dtype)


def _part(params: Mapping[str, Any], shapes: Sequence[Any], known: Known) -> Function | None:
    """A slice whose place is known."""
    starts = _starts(known[1:], shapes[0], params["slice_sizes"])
    if starts is None:
        return None
    ends = [start + size for start, size in zip(starts, params["slice_sizes"], strict=True)]
    return lambda array, *_: lax.slice(array, starts, ends)


def _placed(params: Mapping[str, Any], shapes: Sequence[Any], known: Known) -> Function | None:
    """An array in whose place, which is known, another one is put."""
    starts = _starts(known[2:], shapes[0], shapes[1])
    if starts is None:
        return None

    def put(whole: Any, part: Any, axis: int) -> Any:
        if axis == whole.ndim:
            return part
        first, last = starts[axis], starts[axis] + part.shape[axis]
        inside = put(lax.slice_in_dim(whole, first, last, axis=axis), part, axis + 1)
        before = [lax.slice_in_dim(whole, 0, first, axis=axis)] if first > 0 else []
        after = [lax.slice_in_dim(whole, last, whole.shape[axis], axis=axis)] if last < whole.shape[axis] else []
        return lax.concatenate([*before, inside, *after], axis) if before or after else inside

    return lambda whole, part, *_: put(whole, part, 0)


def _starts(known: Known, shape: Sequence[int], sizes: Sequence[int]) -> list[int] | None:
    """Where a slice begins, which is moved inside as `jax.lax` moves it; None: the network says so only when it runs."""
    if any(start is None for start in known):
        return None
    return [min(max(int(at), 0), whole - n) for at, whole, n in zip(known, shape, sizes, strict=True)]  # type: ignore[arg-type]


WRITTEN: dict[str, Callable[..., Function | None]] = {
    "cumsum": _running(jnp.add, lambda dtype: jnp.zeros((), dtype)),
    "cumprod": _running(jnp.multiply, lambda dtype: jnp.ones((), dtype)),
    "cummax": _running(jnp.maximum, _least),
    "cummin": _running(jnp.minimum, _greatest),
    "dynamic_slice": _part,
    "dynamic_update_slice": _placed,
}
