"""Convolutions and paddings that a plan has no form for, written by those that it has.

A transposed convolution is a plain one for each phase of its outputs: no zero between its inputs is multiplied. Along an axis
of spread s and padding l below, output o = s q + p, of phase p, sums kernel[k] x[(o + k - l) / s] over the k for which that is
whole: k = k0 + s t with k0 = (l - p) mod s, where x is read at q + t - (l - p - k0)/s. So each phase is the convolution of x
with every s-th entry of the kernel from k0 on, padded by (l - p - k0)/s.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from bayesprune.structure.jaxprs import Equation, program_for

PASSED_ON = ("window_strides", "rhs_dilation", "dimension_numbers", "feature_group_count", "batch_group_count")


def plain(equation: Equation) -> Any:
    """The program of such an operation by plain ones; None: it is another operation, plain itself, or kept.

    Of transposed convolutions those are kept that cut off all of their data, and with a spread those that cut off some, or have
    strides or dilations too; of paddings those that cut off more than there is.
    """
    name = equation.primitive.name
    return _edges(equation) if name == "pad" else _convolution(equation) if name == "conv_general_dilated" else None


def _convolution(equation: Equation) -> Any:
    params = equation.params
    if params["batch_group_count"] != 1:
        return None
    if set(params["lhs_dilation"]) == {1} and all(side >= 0 for sides in params["padding"] for side in sides):
        return None
    columns = ("padding", "lhs_dilation", "window_strides", "rhs_dilation")
    lengths = [equation.invars[0].aval.shape[axis] for axis in params["dimension_numbers"].lhs_spec[2:]]
    for length, sides, spread, *steps in zip(lengths, *(params[name] for name in columns), strict=True):
        taken = sum(max(-side, 0) for side in sides)
        if taken >= length or (spread > 1 and (taken or steps != [1, 1])):
            return None
    return program_for(equation, lambda data, kernel: phases(params, data, kernel))


def phases(params: Mapping[str, Any], data: jax.Array, kernel: jax.Array, sides: tuple[tuple[int, int], ...] = ()) -> Any:
    """The convolution of these parameters. ``sides``: the padding along the axes that are settled, the first ones.

    Along axes with a spread padding is not negative, and strides and dilations of the kernel are 1; along the others negative
    padding leaves some of the data.
    """
    axis = len(sides)
    if axis == len(params["padding"]):
        return _padded(params, data, kernel, sides)
    spread, (low, high) = params["lhs_dilation"][axis], params["padding"][axis]
    if spread == 1:
        return phases(params, data, kernel, (*sides, (low, high)))
    dims = params["dimension_numbers"]
    of_kernel, of_result = dims.rhs_spec[2 + axis], dims.out_spec[2 + axis]
    inputs, taps = data.shape[dims.lhs_spec[2 + axis]], kernel.shape[of_kernel]
    size = (inputs - 1) * spread + 1 + low + high - taps + 1
    made: dict[int, Any] = {}
    for phase in range(min(spread, size)):
        first, count = (low - phase) % spread, -(-(size - phase) // spread)
        if first < taps:
            part = lax.slice_in_dim(kernel, first, taps, spread, axis=of_kernel)
            before = (low - phase - first) // spread
            after = count + part.shape[of_kernel] - 1 - inputs - before
            made[phase] = _up_to(phases(params, data, part, (*sides, (before, after))), -(-size // spread), of_result)
    zeros = jnp.zeros_like(next(iter(made.values())))
    each = [lax.expand_dims(made.get(phase, zeros), (of_result + 1,)) for phase in range(spread)]
    mixed = lax.concatenate(each, of_result + 1)
    shape = (*zeros.shape[:of_result], spread * zeros.shape[of_result], *zeros.shape[of_result + 1 :])
    return lax.slice_in_dim(mixed.reshape(shape), 0, size, axis=of_result)


def _padded(params: Mapping[str, Any], data: jax.Array, kernel: jax.Array, sides: tuple[tuple[int, int], ...]) -> Any:
    """A convolution of data of which negative padding takes some away."""
    data = _trimmed(data, zip(params["dimension_numbers"].lhs_spec[2:], sides, strict=True))
    added = [(max(low, 0), max(high, 0)) for low, high in sides]
    return lax.conv_general_dilated(data, kernel, padding=added, **{name: params[name] for name in PASSED_ON})


def _trimmed(array: jax.Array, sides: Iterable[tuple[int, tuple[int, int]]]) -> jax.Array:
    """What negative padding leaves, along these axes."""
    for axis, (low, high) in sides:
        array = lax.slice_in_dim(array, max(-low, 0), array.shape[axis] - max(-high, 0), axis=axis)
    return array


def _up_to(array: jax.Array, size: int, axis: int) -> Any:
    """Lengthened by zeros along an axis."""
    sides = [(0, size - array.shape[axis] if i == axis else 0, 0) for i in range(array.ndim)]
    return lax.pad(array, jnp.zeros((), array.dtype), sides) if any(map(any, sides)) else array


def _edges(equation: Equation) -> Any:
    """A padding by reshapes, slices and plain edges."""
    config = [tuple(map(int, sides)) for sides in equation.params["padding_config"]]
    shape = equation.invars[0].aval.shape
    taken = [max(-low, 0) + max(-high, 0) for low, high, _ in config]
    lengths = [n + inner * max(n - 1, 0) for n, (_, _, inner) in zip(shape, config, strict=True)]
    if all(not cut and not inner for cut, (_, _, inner) in zip(taken, config, strict=True)):
        return None
    if any(cut > length for cut, length in zip(taken, lengths, strict=True)) or 0 in shape:
        return None
    return program_for(equation, lambda array, filler: _with_edges(array, filler, config))


def _with_edges(array: jax.Array, filler: jax.Array, config: Sequence[tuple[int, ...]]) -> Any:
    for axis, (low, high, inner) in enumerate(config):
        array = _apart(array, filler, axis, inner) if inner else array
        array = _trimmed(array, [(axis, (low, high))])
    return lax.pad(array, filler, [(max(low, 0), max(high, 0), 0) for low, high, _ in config])


def _apart(array: jax.Array, filler: jax.Array, axis: int, inner: int) -> Any:
    """With ``inner`` fillers between neighbours along an axis."""
    size, sides = array.shape[axis], [(0, 0, 0)] * (array.ndim + 1)
    sides[axis + 1] = (0, inner, 0)
    each = lax.pad(lax.expand_dims(array, (axis + 1,)), filler, sides)
    shape = (*array.shape[:axis], size * (inner + 1), *array.shape[axis + 1 :])
    return lax.slice_in_dim(each.reshape(shape), 0, (size - 1) * (inner + 1) + 1, axis=axis)
