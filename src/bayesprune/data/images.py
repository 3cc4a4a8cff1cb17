"""Images as a network takes them: padded while they are still bytes, then standardised channel by channel."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int32, Shaped, UInt8

from bayesprune.core import checks
from bayesprune.core.types import Dataset
from bayesprune.data.scaling import Scaling

BLOCK = 1024  # rows whose sums are taken at once


class RawImages(NamedTuple):
    """Images as they were stored: ``x`` uint8 (rows, height, width, channels), ``y`` int32 (rows,), pixels 0 to ``top``."""

    x: UInt8[np.ndarray, "rows height width channels"]
    y: Int32[np.ndarray, " rows"]
    top: int = 255


def pad_to(x: Shaped[np.ndarray, "rows height width channels"], size: int) -> Shaped[np.ndarray, "rows size size channels"]:
    """Put images in the middle of a ``size`` x ``size`` field of zeros (an odd pixel goes to the right and the bottom).

    Zero is black in raw images. In standardised ones it is the mean: pad before standardising.

    Args:
        x: images (rows, height, width, channels).
        size: height and width of the result, in pixels.

    Returns:
        A new array (rows, size, size, channels) of the same dtype, or ``x`` itself where nothing is to be added.

    Raises:
        ValueError: ``x`` has not four axes, or ``size`` is smaller than the images.

    Example:
        >>> import numpy as np
        >>> from bayesprune import data
        >>> data.pad_to(np.ones((5, 28, 28, 1)), 32).shape
        (5, 32, 32, 1)
    """
    checks.check_integer(size, "size")
    if x.ndim != 4:
        raise ValueError(f"x must have the shape (rows, height, width, channels), got {x.shape}.")
    extra = [size - x.shape[1], size - x.shape[2]]
    if min(extra) < 0:
        raise ValueError(f"size must be at least the images' {max(x.shape[1:3])} pixels, got {size}: padding cannot crop.")
    if max(extra) == 0:
        return x
    before_after = [(n // 2, n - n // 2) for n in extra]
    return np.pad(x, [(0, 0), *before_after, (0, 0)])


def channel_scaling(x: UInt8[np.ndarray, "rows height width channels"]) -> Scaling:
    """Each channel's mean and standard deviation over all pixels of all rows; a constant channel gets the scale 1.

    The sums are whole numbers below 2^53, so float64 holds them exactly, and blocks of rows keep memory small.
    """
    channels = x.shape[-1]
    # Added up per place first, then over the places: long rows are several times faster than rows of three channels.
    sums, squares = np.zeros((2, x[0].size))
    for start in range(0, len(x), BLOCK):
        pixels = x[start : start + BLOCK].reshape(-1, sums.size).astype(np.float64)
        sums += pixels.sum(axis=0)
        squares += np.einsum("np,np->p", pixels, pixels)
    total, total_squares = sums.reshape(-1, channels).sum(axis=0), squares.reshape(-1, channels).sum(axis=0)
    count = x.size // channels
    # count * sum of squares - (sum)^2 in Python's integers: no cancellation, so a constant channel is exactly constant.
    spread = [count * int(square) - int(plain) ** 2 for square, plain in zip(total_squares, total, strict=True)]
    scale = np.sqrt(np.array(spread, dtype=np.float64)) / count
    return Scaling(total / count, np.where(scale > 0, scale, 1.0))


def to_dataset(raw: RawImages, scaling: Scaling) -> Dataset:
    """Images as float32, (pixel - loc) / scale channel by channel, with their labels."""
    x: Float32[np.ndarray, "rows pixels"] = raw.x.reshape(len(raw.x), -1).astype(np.float32)
    places = raw.x.shape[1] * raw.x.shape[2]
    x -= np.tile(np.asarray(scaling.loc, np.float32), places)
    x /= np.tile(np.asarray(scaling.scale, np.float32), places)
    return Dataset(x.reshape(raw.x.shape), raw.y)


def unit_scaling(raw: RawImages) -> Scaling:
    """The scaling that only brings pixels to the range 0 to 1."""
    channels: Float[np.ndarray, " channels"] = np.ones(raw.x.shape[-1])
    return Scaling(0.0 * channels, raw.top * channels)
