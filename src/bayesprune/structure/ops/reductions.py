"""Operations along axes: sums and maxima over them, over windows, and of all entries up to each; sorting."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bayesprune.structure.graph import Shape, Signals, Value, Weights
from bayesprune.structure.jaxprs import Equation
from bayesprune.structure.ops.movement import unless, without
from bayesprune.structure.primitive import Function, Known, Params, Primitive, Walk, integers


def _merged(walk: Walk, value: Value, axes: tuple[int, ...], name: str) -> Signals:
    """A sum or maximum along axes. Of weights, it is a number that the net is the same as long as they are."""
    if isinstance(value, Weights):
        value = walk.recorder.pin(value, f"{name} of weights")
    merged = value.labelled(walk.recorder.merge(value.labels, axes, tie=False))
    return replace(merged, literal=None, form="", scaled_by=0)


def _total(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value]:
    axes = integers(equation.params["axes"])
    made = _merged(walk, inputs[0], axes, equation.primitive.name)
    return [made.labelled(made.labels.squeeze(axes))]


def _up_to_each(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value] | None:
    """A running sum of signals is one, whose terms are merged; of weights it is written out."""
    if isinstance(inputs[0], Weights):
        return None
    return [_merged(walk, inputs[0], (int(equation.params["axis"]),), equation.primitive.name)]


def _pooled(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value]:
    moving = tuple(axis for axis, size in enumerate(equation.params["window_dimensions"]) if size > 1)
    return [_merged(walk, inputs[0], moving, equation.primitive.name)]


def _running(fold: Function, empty: Callable[[Any], Any]) -> Callable[..., Function]:
    """Sums (maxima, ...) of all entries up to each: after k rounds, of the last 2**k. ``empty``: what a fold leaves alone."""

    def write(params: Params, shapes: Sequence[Any], known: Known) -> Function:
        axis, reverse = params["axis"], params["reverse"]

        def function(array: jax.Array) -> Any:
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


def _least(dtype: np.dtype) -> jax.Array:
    return jnp.asarray(-jnp.inf if dtype.kind == "f" else jnp.iinfo(dtype).min, dtype)


def _greatest(dtype: np.dtype) -> jax.Array:
    return jnp.asarray(jnp.inf if dtype.kind == "f" else jnp.iinfo(dtype).max, dtype)


# ---- where the axis of an operand goes
def _left(key: str) -> Callable[..., int | None]:
    """Of operations that take away the axes in this parameter."""
    return lambda params, shape, out, operand, axis: without(params[key], axis)


def _outside(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    """Along which no window reaches."""
    ones = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    alone = all(params[key][axis] == 1 for key in ones if params.get(key) is not None)
    sides = params["padding"][axis] if "padding" in params else (0, 0)
    return axis if alone and tuple(sides) == (0, 0) and shape[axis] == out[axis] else None


def _before(count: Callable[[Params], int]) -> Callable[..., int | None]:
    """Before the last ``count`` axes of an array."""
    return lambda params, shape, out, operand, axis: axis if axis < len(shape) - count(params) else None


def _along(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    return axis if axis != params.get("axis", axis) else None


def _fold(prefix: str, of: str, read: Callable[..., Any], axis: Callable[..., int | None], **more: Any) -> Primitive:
    """The record of a sum, product, maximum, ..., of which a sum is linear."""
    return Primitive(f"{prefix}{of}", read=read, axis=axis, linear="sum" if of == "sum" else "", **more)


_IN_PLANS = ("sum", "max", "min", "prod")
_MATRICES = ("cholesky", "eig", "eigh", "householder_product", "lu", "qr", "svd", "triangular_solve", "tridiagonal_solve")
RECORDS = [
    *[
        _fold("reduce_", of, _total, _left("axes"), keeps=of in ("max", "min"), plan=f"reduce_{of}" if of in _IN_PLANS else "")
        for of in (*_IN_PLANS, "and", "or", "xor")
    ],
    _fold("reduce_window_", "sum", _pooled, _outside, plan="window_sum"),
    # Whole numbers have no infinity to stand beside them.
    _fold("reduce_window_", "max", _pooled, _outside, plan="window_max", keeps=True, kind="f"),
    _fold("reduce_window_", "min", _pooled, _outside, plan="window_min", kind="f"),
    *[
        _fold("cum", of, _up_to_each, unless("axis"), written=_running(fold, empty))
        for of, fold, empty in (
            ("sum", jnp.add, lambda dtype: jnp.zeros((), dtype)),
            ("prod", jnp.multiply, lambda dtype: jnp.ones((), dtype)),
            ("max", jnp.maximum, _least),
            ("min", jnp.minimum, _greatest),
        )
    ],
    Primitive("cumlogsumexp", axis=unless("axis"), written=_running(jnp.logaddexp, _least)),
    Primitive("sort", axis=unless("dimension"), keeps=True),
    Primitive("top_k", axis=_along),
    *[Primitive(name, axis=_left("axes")) for name in ("argmax", "argmin")],
    Primitive("reduce", axis=_left("dimensions")),
    *[Primitive(name, axis=_outside) for name in ("reduce_window", "select_and_gather_add", "select_and_scatter_add")],
    Primitive("fft", axis=_before(lambda params: len(params["fft_lengths"]))),
    *[Primitive(name, axis=_before(lambda params: 2)) for name in _MATRICES],
]
