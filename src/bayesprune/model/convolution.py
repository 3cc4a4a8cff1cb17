"""Convolutions that are quick on a CPU: matrix products there, XLA's own convolution elsewhere.

XLA's CPU convolution, and above all its gradient by the kernel, loses its threads and its fast routine inside ``lax.scan``:
ten times slower for a small net, forty for a 3 x 3 layer of 64 channels. Two rewritings avoid it, chosen by measurement:

* patches (im2col): the inputs below every output pixel side by side, times the kernel as one matrix;
* tiles: for an input of few channels under a large kernel the patches repeat each number 25 times and the matrix is thin.
  There 4 x 4 outputs are made at once from the 8 x 8 inputs they share: 4 copies rather than 25, a product 2.6 times larger
  but of a good shape, and on a 32 x 32 x 1 image three times less work in all.

Rule of thumb: tiles for at most 4 channels and kernel sides of 4 and more, else patches. At 3 x 3 tiles gained nothing.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Inexact

LARGEST_KERNEL = 64  # positions in a kernel; above it the patches cost more memory than they save time
TILE = 4  # outputs per side of a tile
TILED_CHANNELS = 4  # at most
TILED_KERNEL = 4  # positions per side, at least


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
    positions = math.prod(rhs.shape[axis] for axis in params["dimension_numbers"].rhs_spec[2:])
    return (
        rhs.ndim == 4
        and lhs.dtype == rhs.dtype
        and lhs.dtype in (jnp.float32, jnp.float64)
        and params.get("feature_group_count", 1) == 1
        and params.get("batch_group_count", 1) == 1
        and all(step == 1 for step in params.get("lhs_dilation") or (1,))
        and 0 < positions <= LARGEST_KERNEL
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
    if dense and kernel.shape[2] <= TILED_CHANNELS and min(kernel.shape[:2]) >= TILED_KERNEL:
        out = _by_tiles(images, kernel, product)
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


def _by_tiles(
    images: Float[Array, "n h w c"], kernel: Float[Array, "i j c f"], product: dict[str, Any]
) -> Float[Array, "n oh ow f"]:
    """Make ``TILE`` x ``TILE`` outputs at once from the inputs they share, by a kernel written out for the whole tile."""
    (n, *sides, channels), (*spans, _, filters) = images.shape, kernel.shape
    outs = [side - span + 1 for side, span in zip(sides, spans, strict=True)]
    tiles = [min(TILE, out) for out in outs]
    counts = [-(-out // tile) for out, tile in zip(outs, tiles, strict=True)]
    seen = [tile + span - 1 for tile, span in zip(tiles, spans, strict=True)]  # inputs per side of a tile
    missing = [(0, c * t - out) for c, t, out in zip(counts, tiles, outs, strict=True)]
    images = jnp.pad(images, ((0, 0), *missing, (0, 0)))
    rows = jnp.stack([_every(images, 1, a, counts[0], tiles[0]) for a in range(seen[0])], axis=2)  # n, tile, a, w, c
    inputs = jnp.stack([_every(rows, 3, b, counts[1], tiles[1]) for b in range(seen[1])], axis=4)  # n, tile, a, tile, b, c
    inputs = inputs.transpose(0, 1, 3, 2, 4, 5).reshape(n * math.prod(counts), math.prod(seen) * channels)
    down, across = (_offsets(tile, span, kernel.dtype) for tile, span in zip(tiles, spans, strict=True))
    spread = jnp.einsum("aqi,brj,ijcf->abcqrf", down, across, kernel)
    out = jnp.matmul(inputs, spread.reshape(inputs.shape[1], -1), **product)
    out = out.reshape(n, *counts, *tiles, filters).transpose(0, 1, 3, 2, 4, 5)
    whole = out.reshape(n, counts[0] * tiles[0], counts[1] * tiles[1], filters)
    return whole[:, : outs[0], : outs[1]]


def _offsets(tile: int, span: int, dtype: Any) -> Float[np.ndarray, "a q i"]:
    """One where input ``a`` of a tile meets output ``q`` at kernel position ``i``: where ``a = q + i``."""
    a, q, i = np.ogrid[: tile + span - 1, :tile, :span]
    return (a == q + i).astype(dtype)
