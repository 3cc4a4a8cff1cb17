"""Normalisations of a convolutional network by name, each with the activation that goes with it."""

import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesprune.core.checks import check_name
from bayesprune.core.tracing import as_written


def at_least_single(dtype: DTypeLike | None) -> Any:
    """The type for sums and outputs of a net that computes in ``dtype``: float32 in place of a shorter one."""
    return jnp.float32 if jnp.finfo(dtype).bits < 32 else dtype


class FilterResponseNorm(nn.Module):
    """Filter response normalisation: y = scale x / sqrt(mean(x²) + epsilon) + bias, the mean over one image's positions.

    Args:
        epsilon: added to the mean square. Maps of one position, where the norm leaves little but a sign, want a larger one.
        dtype: type of the result; None keeps that of x. Means are taken in float32.

    Inputs and outputs are (rows, height, width, channels); ``scale`` and ``bias`` are (channels,). No row sees another.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> net = FilterResponseNorm()
        >>> x = jnp.array([3.0, -3.0]).reshape(1, 2, 1, 1)
        >>> net.apply(net.init(jax.random.key(0), x), x).ravel().round(3).tolist()
        [1.0, -1.0]

    Source: Singh & Krishnan (2020), Filter Response Normalization Layer, section 3.
    """

    epsilon: float = 1e-6
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Float[Array, "n h w c"]) -> Float[Array, "n h w c"]:
        scale = self.param("scale", nn.initializers.ones, x.shape[-1:])
        bias = self.param("bias", nn.initializers.zeros, x.shape[-1:])
        wide = x.astype(at_least_single(x.dtype))
        mean_square = jnp.mean(jnp.square(wide), axis=(1, 2), keepdims=True)
        normal = wide * jax.lax.rsqrt(mean_square + self.epsilon)
        per_channel = (1, 1, 1, -1)
        scale, bias = scale.astype(wide.dtype).reshape(per_channel), bias.astype(wide.dtype).reshape(per_channel)
        return (scale * normal + bias).astype(self.dtype or x.dtype)


class ThresholdedLinearUnit(nn.Module):
    """max(x, tau) with one learned threshold per channel, 0 at the start: a relu until it learns otherwise.

    Filter responses are not centred, so that zero is no natural threshold for them.

    Source: Singh & Krishnan (2020), section 3.
    """

    @nn.compact
    def __call__(self, x: Float[Array, "n h w c"]) -> Float[Array, "n h w c"]:
        tau = self.param("tau", nn.initializers.zeros, x.shape[-1:])
        return jnp.maximum(x, tau.astype(x.dtype).reshape(1, 1, 1, -1))


def _batch(x: jax.Array, train: bool, dtype: DTypeLike | None) -> jax.Array:
    with as_written():  # Flax's norms mix the type of x and float32
        return nn.BatchNorm(use_running_average=not train, momentum=0.9, epsilon=1e-5, dtype=dtype)(x)


def _group(x: jax.Array, train: bool, dtype: DTypeLike | None) -> jax.Array:
    with as_written():
        return nn.GroupNorm(num_groups=math.gcd(32, x.shape[-1]), dtype=dtype)(x)


def _frn(x: jax.Array, train: bool, dtype: DTypeLike | None) -> jax.Array:
    return FilterResponseNorm(dtype=dtype)(x)


NORMS = {"batch": (_batch, nn.relu), "group": (_group, nn.relu), "frn": (_frn, lambda x: ThresholdedLinearUnit()(x))}


def pick_norm(
    name: str, train: bool, dtype: DTypeLike | None
) -> tuple[Callable[[jax.Array], jax.Array], Callable[[jax.Array], jax.Array]]:
    """The normalisation of a name and its activation, to be called inside of a compact module: each call is a new layer.

    "batch": statistics of the batch, kept as running averages (weight 0.1 for the newest) for prediction; relu. "group": 32
    groups of channels, or as many as divide both; relu. "frn": `FilterResponseNorm`; `ThresholdedLinearUnit`.

    Raises:
        ValueError: an unknown name.
    """
    check_name("norm", name, NORMS, "Of these, only 'batch' keeps running statistics.")
    normalise, activate = NORMS[name]
    return lambda x: normalise(x, train, dtype), activate
