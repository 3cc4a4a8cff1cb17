"""Convolutions that are quick on a CPU: matrix products there, XLA's own convolution elsewhere.

XLA's CPU convolution, and above all its gradient by the kernel, loses its fast routine inside ``lax.scan``: five times
slower for LeNet-5, twenty-five times for a 3 x 3 layer of 64 channels. Two rewritings avoid it, chosen by measurement:

* tiles: a few neighbouring outputs are made at once from the inputs they share, as one matrix product with the kernel
  written out for the whole tile. The product has more multiplications (1.2 to 2.7 times) but a better shape, and it
  copies less: the inputs of a tile lie side by side in memory and each is repeated fewer times than in patches;
* patches (im2col): the inputs under every output pixel, position by position, times the kernel as one matrix.

Rule of thumb, from CPU time for values and gradients in a scan, against patches: tiles of 1 x 2 outputs (1.4 to 2.6
times quicker for 5 x 5 and 3 x 3 kernels, 1 to 64 channels); 2 x 4 outputs for at most 4 channels under a kernel of sides 4
and more (4 to 5 times quicker); patches under strides, dilation, 1 x 1 kernels and for very wide images.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Inexact

LARGEST_KERNEL = 64  # positions in a kernel; above it the patches cost more memory than they save time
MOST_STRIPS = 64  # tiles side by side; above it the program would grow too long


def conv_general_dilated(
    lhs: Inexact[Array, "..."], rhs: Inexact[Array, "..."], *, dimension_numbers: lax.ConvDimensionNumbers, **params: Any
) -> Inexact[Array, "..."]:
    """The convolution that ``lax.conv_general_dilated_p`` does, by matrix products on a CPU and by XLA elsewhere.

    The platform is settled when the program is compiled, so one program serves all of them. What the products do not
    cover (groups, dilated input, other than two dimensions, half precision, very large kernels) is XLA's everywhere.

    Args:
        lhs: images, four axes in the order of ``dimension_numbers.lhs_spec``.
        rhs: kernel, in the order of ``dimension_numbers.rhs_spec``.
        dimension_numbers: as made by ``lax.conv_dimension_numbers``.
        params: the primitive's other parameters, with its names: ``window_strides`` and ``padding`` (pairs), and where
            they differ from the plain case ``lhs_dilation``, ``rhs_dilation``, ``feature_group_count``,
            ``batch_group_count``, ``precision``, ``preferred_element_type``, ``out_sharding``.

    Returns:
        What XLA's convolution returns, up to rounding, in the order of ``dimension_numbers.out_spec``. It can be
        differentiated in both modes and to any order, and mapped over images and kernels.

    Example:
        >>> import jax.numpy as jnp
        >>> from jax import lax
        >>> images, kernel = jnp.ones((2, 8, 8, 1)), jnp.ones((5, 5, 1, 3))
        >>> numbers = lax.conv_dimension_numbers(images.shape, kernel.shape, ("NHWC", "HWIO", "NHWC"))
        >>> valid = {"window_strides": (1, 1), "padding": ((0, 0), (0, 0))}
        >>> conv_general_dilated(images, kernel, dimension_numbers=numbers, **valid).shape
        (2, 4, 4, 3)
    """
    params["dimension_numbers"] = dimension_numbers

    def by_xla(lhs: Array, rhs: Array) -> Array:
        return lax.conv_general_dilated(lhs, rhs, **params)

    def by_products(lhs: Array, rhs: Array) -> Array:
        return _by_products(lhs, rhs, params)

    if not _is_plain(lhs, rhs, params):
        return by_xla(lhs, rhs)
    return lax.platform_dependent(lhs, rhs, cpu=by_products, default=by_xla)


def _is_plain(lhs: Array, rhs: Array, params: dict[str, Any]) -> bool:
    """Whether the products apply: two dimensions, one group, no dilated input, a modest kernel, floats of one kind."""
    if rhs.ndim != 4 or 0 in lhs.shape or 0 in rhs.shape:
        return False
    numbers, dilation = params["dimension_numbers"], params.get("rhs_dilation") or (1, 1)
    sides = [lhs.shape[a] + low + high for a, (low, high) in zip(numbers.lhs_spec[2:], params["padding"], strict=True)]
    spans = [(rhs.shape[a] - 1) * d + 1 for a, d in zip(numbers.rhs_spec[2:], dilation, strict=True)]
    positions = math.prod(rhs.shape[axis] for axis in numbers.rhs_spec[2:])
    return (
        lhs.dtype == rhs.dtype
        and lhs.dtype in (jnp.float32, jnp.float64)
        and params.get("feature_group_count", 1) == 1
        and params.get("batch_group_count", 1) == 1
        and all(step == 1 for step in params.get("lhs_dilation") or (1,))
        and positions <= LARGEST_KERNEL
        and all(span <= side for span, side in zip(spans, sides, strict=True))
        and params.get("out_sharding") is None
        and all(low >= 0 and high >= 0 for low, high in params["padding"])
    )


def _by_products(lhs: Array, rhs: Array, params: dict[str, Any]) -> Array:
    """Bring both to batch-height-width-channels, take the quicker way, bring the result back."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    strides, dilation = params["window_strides"], params.get("rhs_dilation") or (1, 1)
    images = lhs.transpose(lhs_spec[0], *lhs_spec[2:], lhs_spec[1])
    images = jnp.pad(images, ((0, 0), *params["padding"], (0, 0)))
    kernel = rhs.transpose(*rhs_spec[2:], rhs_spec[1], rhs_spec[0])  # height, width, channels, filters
    product = {"precision": params.get("precision"), "preferred_element_type": params.get("preferred_element_type")}
    dense = all(step == 1 for step in (*strides, *dilation))
    tile = _tile(images.shape, kernel.shape)
    strips = (images.shape[2] - kernel.shape[1]) // tile[1] + 1
    if dense and max(kernel.shape[:2]) > 1 and strips <= MOST_STRIPS:
        out = _by_tiles(images, kernel, tile, product)
    else:
        out = _by_patches(images, kernel, strides, dilation, product)
    order = (out_spec[0], out_spec[2], out_spec[3], out_spec[1])
    return out.transpose([order.index(axis) for axis in range(4)])


def _every(x: Array, axis: int, start: int, count: int, stride: int) -> Array:
    """``count`` entries of an axis, from ``start`` on, ``stride`` apart."""
    return lax.slice_in_dim(x, start, start + (count - 1) * stride + 1, stride, axis)


def _by_patches(
    images: Float[Array, "n h w c"],
    kernel: Float[Array, "i j c f"],
    strides: tuple[int, ...],
    dilation: tuple[int, ...],
    product: dict[str, Any],
) -> Float[Array, "n oh ow f"]:
    """Lay the inputs under every output pixel side by side, then multiply by the kernel as one matrix."""
    reach = [d * (k - 1) for d, k in zip(dilation, kernel.shape[:2], strict=True)]
    height, width = ((n - r - 1) // s + 1 for n, r, s in zip(images.shape[1:3], reach, strides, strict=True))
    rows = [_every(images, 1, i * dilation[0], height, strides[0]) for i in range(kernel.shape[0])]
    pieces = [_every(row, 2, j * dilation[1], width, strides[1]) for row in rows for j in range(kernel.shape[1])]
    return jnp.matmul(jnp.concatenate(pieces, axis=-1), kernel.reshape(-1, kernel.shape[-1]), **product)


def _tile(images: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, int]:
    """Outputs per tile, down and across: more where channels are few and the kernel is large (see the top of the file)."""
    best = (2, 4) if kernel[2] <= 4 and min(kernel[:2]) >= 4 else (1, 2)
    return min(best[0], images[1] - kernel[0] + 1), min(best[1], images[2] - kernel[1] + 1)


def _by_tiles(
    images: Float[Array, "n h w c"], kernel: Float[Array, "i j c f"], tile: tuple[int, int], product: dict[str, Any]
) -> Float[Array, "n oh ow f"]:
    """Make a tile of outputs at once from the inputs it sees, by a kernel written out for the whole tile."""
    (n, *sides, channels), (*spans, _, filters) = images.shape, kernel.shape
    outs = [side - span + 1 for side, span in zip(sides, spans, strict=True)]
    down, across = (-(-out // step) for out, step in zip(outs, tile, strict=True))  # numbers of tiles
    tall, wide = (step + span - 1 for step, span in zip(tile, spans, strict=True))  # inputs that a tile sees
    images = jnp.pad(images, ((0, 0), (0, down * tile[0] - outs[0]), (0, across * tile[1] - outs[1]), (0, 0)))
    lines = images.reshape(n, images.shape[1], -1)  # a tile's part of a line is one run in memory
    starts = [q * tile[1] * channels for q in range(across)]
    strips = jnp.stack([lax.slice_in_dim(lines, start, start + wide * channels, axis=2) for start in starts], axis=2)
    inputs = jnp.stack([_every(strips, 1, a, down, tile[0]) for a in range(tall)], axis=3)
    rows, columns = (_offsets(step, span, kernel.dtype) for step, span in zip(tile, spans, strict=True))
    spread = jnp.einsum("aqi,brj,ijcf->abcqrf", rows, columns, kernel).reshape(tall * wide * channels, -1)
    out = jnp.matmul(inputs.reshape(n * down * across, -1), spread, **product)
    out = out.reshape(n, down, across, *tile, filters).transpose(0, 1, 3, 2, 4, 5)
    return out.reshape(n, down * tile[0], across * tile[1], filters)[:, : outs[0], : outs[1]]


def _offsets(tile: int, span: int, dtype: DTypeLike) -> Float[np.ndarray, "a q i"]:
    """One where input ``a`` of a tile meets output ``q`` at kernel position ``i``: where ``a = q + i``."""
    a, q, i = np.ogrid[: tile + span - 1, :tile, :span]
    return (a == q + i).astype(dtype)
