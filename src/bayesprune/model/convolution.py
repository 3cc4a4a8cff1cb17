"""Convolutions that are quick on a CPU: patches and one matrix product there, XLA's own convolution elsewhere."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Inexact

LARGEST_KERNEL = 64  # taps of a kernel; above it the patches cost more memory than they save time


def conv_general_dilated(
    lhs: Inexact[Array, "..."], rhs: Inexact[Array, "..."], *, dimension_numbers: lax.ConvDimensionNumbers, **params: Any
) -> Inexact[Array, "..."]:
    """The convolution of ``lax.conv_general_dilated_p`` (same parameters), by patches on a CPU and by XLA elsewhere."""
    params["dimension_numbers"] = dimension_numbers

    def by_xla(lhs: Array, rhs: Array) -> Array:
        return lax.conv_general_dilated(lhs, rhs, **params)

    if not _has_patches(lhs, rhs, params):
        return by_xla(lhs, rhs)
    return lax.platform_dependent(lhs, rhs, cpu=lambda lhs, rhs: _by_patches(lhs, rhs, params), default=by_xla)


def _has_patches(lhs: Array, rhs: Array, params: dict[str, Any]) -> bool:
    """Whether the quick way applies: two dimensions, one group, no dilated input, a modest kernel, floats of one kind."""
    taps = math.prod(rhs.shape[d] for d in params["dimension_numbers"].rhs_spec[2:])
    return (
        rhs.ndim == 4
        and lhs.dtype == rhs.dtype
        and lhs.dtype in (jnp.float32, jnp.float64)
        and params.get("feature_group_count", 1) == 1
        and params.get("batch_group_count", 1) == 1
        and all(d == 1 for d in params.get("lhs_dilation") or (1,))
        and 0 < taps <= LARGEST_KERNEL
        and params.get("out_sharding") is None
        and all(low >= 0 and high >= 0 for low, high in params["padding"])
    )


def _by_patches(lhs: Array, rhs: Array, params: dict[str, Any]) -> Array:
    """Gather under every output pixel the inputs it sees, then multiply by the kernel as one matrix."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    strides = params["window_strides"]
    dilation = params.get("rhs_dilation") or (1, 1)
    image = lhs.transpose(lhs_spec[0], *lhs_spec[2:], lhs_spec[1])  # batch, height, width, channels
    kernel = rhs.transpose(*rhs_spec[2:], rhs_spec[1], rhs_spec[0])  # height, width, channels, filters
    image = jnp.pad(image, ((0, 0), *params["padding"], (0, 0)))
    sizes = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(image.shape[1:3], kernel.shape, strides, dilation, strict=False)
    ]
    taps = [
        lax.slice(
            image,
            (0, i * dilation[0], j * dilation[1], 0),
            (
                image.shape[0],
                i * dilation[0] + (sizes[0] - 1) * strides[0] + 1,
                j * dilation[1] + (sizes[1] - 1) * strides[1] + 1,
                image.shape[3],
            ),
            (1, *strides, 1),
        )
        for i in range(kernel.shape[0])
        for j in range(kernel.shape[1])
    ]
    out = jnp.matmul(
        jnp.concatenate(taps, axis=-1),
        kernel.reshape(-1, kernel.shape[-1]),
        precision=params.get("precision"),
        preferred_element_type=params.get("preferred_element_type"),
    )
    order = (out_spec[0], out_spec[2], out_spec[3], out_spec[1])
    return out.transpose([order.index(d) for d in range(4)])
