"""The first layer as pictures: what each of its features looks at."""

from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprune.core.checks import check_integer
from bayesprune.core.types import Node
from bayesprune.report.inputs import ArrayLike, finite, truth_values
from bayesprune.report.plots_style import FigureBase, several, signed

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
    if image_shape == ():
        return inputs, features, 1, 1
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


def first_layer_heatmap(
    loc_kernel: Any,
    mask: ArrayLike | None = None,
    image_shape: tuple[int, ...] | None = None,
    fig: FigureBase | None = None,
    max_features: int = 64,
    in_use: ArrayLike | None = None,
) -> FigureBase:
    """The first layer's posterior means as pictures, one tile a feature, strongest first; pruned weights are grey.

    ``loc_kernel``: a node of ``bnn.posterior(params)``, whose weights are loc times its unit, or an array of them. (inputs,
    features) of a dense layer, whose inputs are the pixels of ``image_shape``, (height, width[, channels]), found by itself for
    a square image; inputs that form no image, or of ``image_shape=()``, are shown as one matrix. Or (height, width, channels,
    features) of a convolution. Channels lie side by side. ``mask``: booleans of the same shape, True = alive. ``in_use``:
    (features,) booleans, those that the outputs depend on (see `connected`); the others are left out.

    Source: after Markovic et al. 2024, figure 4.
    """
    of_node = isinstance(loc_kernel, Node)
    kernel = finite(np.asarray(loc_kernel.loc) * np.asarray(loc_kernel.unit) if of_node else loc_kernel, "loc_kernel")
    alive = np.ones(kernel.shape, bool) if mask is None else truth_values(mask, "mask")
    if alive.shape != kernel.shape:
        raise ValueError(f"mask must have loc_kernel's shape {kernel.shape}, got {alive.shape}.")
    check_integer(max_features, "max_features")
    total, used = kernel.shape[-1], _features_in_use(in_use, kernel.shape[-1])
    kernel, alive = kernel[..., used], alive[..., used]
    values = np.where(alive, kernel, np.nan)
    order = np.argsort(-np.nansum(values**2, axis=tuple(range(kernel.ndim - 1))), kind="stable")
    shown = values[..., order[:max_features]]
    peak = float(np.nanquantile(np.abs(shown), 0.995)) if np.isfinite(shown).any() else 0.0
    scale = signed(peak or 1.0)
    shape = tile_shape(shown.shape, image_shape)
    sheet = mosaic(scale.to_rgba(shown.ravel()).reshape(*shape, 4))
    fig = several(fig, 6.4, float(np.clip(5.2 * sheet.shape[0] / sheet.shape[1] + 0.6, 1.8, 8.0)))
    ax = fig.add_subplot()
    ax.imshow(sheet, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    if shape[2:] == (1, 1):  # one matrix
        ax.set(xlabel="features", ylabel="inputs")
    ax.spines[:].set_visible(False)
    kept = shown.shape[-1]
    count = f"{total} features" if kept == total else f"{kept} of {total} features"
    title = f"{count} in use" if in_use is not None and kept == used.sum() else count
    if in_use is not None and not np.any(in_use):
        title = f"none of {total} features in use: {'all' if kept == total else kept} shown"
    pruned = "" if alive.all() else f"; {1 - alive.mean():.1%}{' of their weights' if kept < total else ''} pruned (grey)"
    fig.suptitle(f"{title}, largest norm first{pruned}", fontsize=11)
    fig.colorbar(scale, ax=ax, label="posterior mean", shrink=0.8, extend="both")
    return fig


def _features_in_use(in_use: ArrayLike | None, total: int) -> np.ndarray:
    """Which features to show: all, where none is said to be in use."""
    used = np.ones(total, bool) if in_use is None else truth_values(in_use, "in_use")
    if used.shape != (total,):
        raise ValueError(f"in_use must have shape ({total},), one for each feature, got {used.shape}.")
    return used if used.any() else np.ones(total, bool)
