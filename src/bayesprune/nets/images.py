"""What networks of images share: a frame of background, patches, and the dense layers of a mixer's or transformer's block."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def check_images(x: jax.Array, net: str) -> None:
    """Refuse what is no batch of images, (rows, height, width, channels)."""
    if x.ndim != 4:
        raise ValueError(f"{net} needs images (rows, height, width, channels), got {x.shape}: reshape them, or use MLP.")


def framed(x: Float[Array, "n h w c"], size: int) -> Float[Array, "n height width c"]:
    """Images centred in ``size`` x ``size`` pixels where they are smaller, filled with each image's corner value, by channel.

    >>> framed(jnp.full((1, 2, 2, 1), 7.0), 4)[0, 0, :, 0].tolist()
    [7.0, 7.0, 7.0, 7.0]
    """
    height, width = x.shape[1:3]
    top, left = max(size - height, 0), max(size - width, 0)
    if not (top or left):
        return x
    corner = x[:, :1, :1, :]
    pads = ((0, 0), (top // 2, top - top // 2), (left // 2, left - left // 2), (0, 0))
    return jnp.pad(x - corner, pads) + corner


def patches(x: Float[Array, "n h w c"], size: int, net: str) -> Float[Array, "n tokens pixels"]:
    """Images cut into squares of ``size`` x ``size`` pixels, row by row, each square's pixels and channels in one vector.

    A dense layer on them is the convolution with kernel and strides ``size``. Raises ``ValueError`` where the sides of the
    images are no multiples of ``size``; ``net``: who asks.

    >>> patches(jnp.arange(8.0).reshape(1, 2, 4, 1), 2, "net")[0].tolist()
    [[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]
    """
    rows, height, width, channels = x.shape
    if size < 1 or height % size or width % size:
        raise ValueError(
            f"{net} cuts images into patches of {size}x{size} pixels, got images of {height}x{width}: choose a patch= that "
            "divides both sides, or a frame= that is a multiple of it."
        )
    x = x.reshape(rows, height // size, size, width // size, size, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(rows, -1, size * size * channels)


class FeedForward(nn.Module):
    """x -> W_2 gelu(W_1 x + b_1) + b_2 over the last axis, whose size the result has again.

    Args:
        hidden: units between the two layers.
        dropout: probability of dropping an output of either layer in training.
    """

    hidden: int
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: Float[Array, "*batch features"], train: bool = False) -> Float[Array, "*batch features"]:
        def drop(values: jax.Array) -> jax.Array:
            return nn.Dropout(self.dropout, deterministic=not train)(values)

        hidden = drop(nn.gelu(nn.Dense(self.hidden)(x)))
        return drop(nn.Dense(x.shape[-1])(hidden))
