"""A layer's weights as small pictures on one canvas: where each tile goes, and nothing about drawing."""

import numpy as np
from jaxtyping import Float

FRAME, PAPER = 0.45, 1.0  # grey of the line around a tile, and of the sheet
LEAST_HEIGHT, SHEET_HEIGHT = 28, 400  # pixels, roughly and at least, of a tile and of the sheet


def tile_shape(shape: tuple[int, ...], image_shape: tuple[int, ...] | None) -> tuple[int, int, int, int]:
    """(height, width, channels, features) of a dense (inputs, features) or a convolution kernel.

    Without ``image_shape``, a square number of inputs is taken for a square picture, any other for no picture: the kernel is
    then one tile, (inputs, features, 1, 1). Raises ``ValueError`` for other shapes, or a picture that does not hold the inputs.

    >>> tile_shape((784, 400), None), tile_shape((13, 50), None), tile_shape((5, 5, 3, 18), None)
    ((28, 28, 1, 400), (13, 50, 1, 1), (5, 5, 3, 18))
    """
    if len(shape) == 4:
        return shape
    if len(shape) != 2:
        raise ValueError(f"loc_kernel must be (inputs, features) or (height, width, channels, features), got {shape}.")
    inputs, features = shape
    side = round(inputs**0.5)
    if image_shape is None:
        return (side, side, 1, features) if side * side == inputs else (inputs, features, 1, 1)
    if len(image_shape) not in (2, 3) or np.prod(image_shape) != inputs:
        raise ValueError(f"image_shape {tuple(image_shape)} must be (height, width[, channels]) of {inputs} inputs in all.")
    return image_shape[0], image_shape[1], image_shape[2] if len(image_shape) == 3 else 1, features


def mosaic(tiles: Float[np.ndarray, "height width channels features 4"]) -> Float[np.ndarray, "rows columns 4"]:
    """Lay coloured tiles out row by row on white, each framed, the channels of a feature side by side."""
    height, width, channels, features, _ = tiles.shape
    zoom = max(1, round(max(LEAST_HEIGHT, SHEET_HEIGHT / features**0.5) / height))
    large = tiles.repeat(zoom, axis=0).repeat(zoom, axis=1)
    framed = np.full((height * zoom + 2, channels * (width * zoom + 1) + 1, features, 4), FRAME)
    framed[..., 3] = 1.0
    for c in range(channels):
        left = 1 + c * (width * zoom + 1)
        framed[1:-1, left : left + width * zoom] = large[:, :, c]
    tall, wide = framed.shape[:2]
    space = max(3, tall // 14)
    across = int(np.clip(round((1.6 * features * tall / wide) ** 0.5), 1, features))
    down = -(-features // across)
    sheet = np.full((down * (tall + space) - space, across * (wide + space) - space, 4), PAPER)
    for i in range(features):
        top, left = (i // across) * (tall + space), (i % across) * (wide + space)
        sheet[top : top + tall, left : left + wide] = framed[:, :, i]
    return sheet
