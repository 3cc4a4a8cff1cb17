"""Augmentation of images on the device: a function of a key and a minibatch, to go into a compiled training step."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Shaped

from bayesprune.core.checks import check_integer, check_key, got
from bayesprune.core.given import RandomKey


@dataclass(frozen=True)
class CropFlip:
    """Move each image by up to ``pad`` pixels up or down and left or right, and mirror every second one on average.

    A crop of the image's own size, from the image in a frame of ``pad`` pixels; all (2 pad + 1)² places are equally likely.

    Args:
        pad: width of the frame, in pixels; 0 moves nothing.
        flip: whether images are mirrored left to right, each with probability 1/2.
        fill: what the frame is filled with, one number or one per channel, in the units of x. 0 is the mean colour of
            standardised images; black is -mean / standard deviation, channel by channel.

    Called with (rng_key, x), x of shape (rows, height, width, channels), gives an array of the same shape and dtype. Every row
    draws for itself. Hashes by its knobs, so that equal ones share a compiled function.

    Raises:
        ValueError: ``pad`` is no whole number, x is no batch of images, or ``fill`` has another number of channels, or
            numbers that the dtype of x does not have.
        TypeError: ``flip`` is no truth value, or ``rng_key`` no random key.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> augment = CropFlip(pad=4)
        >>> jax.jit(augment)(jax.random.key(0), jnp.ones((5, 32, 32, 3))).shape
        (5, 32, 32, 3)

    Source: He et al. (2016), Deep Residual Learning for Image Recognition, section 4.2.
    """

    pad: int = 4
    flip: bool | Any = True
    fill: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        check_integer(self.pad, "pad", minimum=0)
        if self.flip not in (True, False):
            raise TypeError(f"flip must be True or False, got {got(self.flip)}: images are mirrored with probability 1/2.")

    def __call__(
        self, rng_key: RandomKey, x: Shaped[Array, "rows height width channels"]
    ) -> Shaped[Array, "rows height width channels"]:
        self._check(x)
        crop_key, flip_key = jax.random.split(check_key(rng_key))
        if self.flip:
            mirrored = jax.random.bernoulli(flip_key, 0.5, (x.shape[0], 1, 1, 1))
            x = jnp.where(mirrored, x[:, :, ::-1], x)
        if not self.pad:
            return x
        corners = jax.random.randint(crop_key, (x.shape[0], 2), 0, 2 * self.pad + 1)
        crop = lambda image, corner: jax.lax.dynamic_slice(image, (*corner, 0), x.shape[1:])  # noqa: E731
        return jax.vmap(crop)(self._framed(x), corners)

    def _framed(self, x: jax.Array) -> jax.Array:
        rows, height, width, channels = x.shape
        inside = slice(self.pad, self.pad + height), slice(self.pad, self.pad + width)
        frame = jnp.broadcast_to(jnp.asarray(self.fill, x.dtype), (rows, height + 2 * self.pad, width + 2 * self.pad, channels))
        return frame.at[:, *inside].set(x)

    def _check(self, x: Array) -> None:
        if x.ndim != 4:
            raise ValueError(f"x must be images (rows, height, width, channels), got shape {x.shape}: reshape them.")
        if self.pad and not jnp.issubdtype(x.dtype, jnp.floating) and not self._is_of(x.dtype):
            raise ValueError(f"fill={self.fill} is no {x.dtype}, which x is: make floats of x, or fill with what it holds.")
        if isinstance(self.fill, tuple) and len(self.fill) != x.shape[-1]:
            raise ValueError(f"fill must be one number or one per channel, got {len(self.fill)} for {x.shape[-1]} channels.")

    def _is_of(self, dtype: DTypeLike) -> bool:
        with np.errstate(invalid="ignore"):
            return bool((np.asarray(self.fill).astype(dtype) == np.asarray(self.fill)).all())
