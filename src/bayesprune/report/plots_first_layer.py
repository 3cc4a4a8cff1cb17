"""The first layer as pictures: what each of its features looks at."""

import numpy as np

from bayesprune.report.inputs import ArrayLike, finite, truth_values
from bayesprune.report.plots_style import FigureBase, figure, signed
from bayesprune.report.tiles import mosaic, tile_shape


def first_layer_heatmap(
    loc_kernel: ArrayLike,
    mask: ArrayLike | None = None,
    image_shape: tuple[int, ...] | None = None,
    fig: FigureBase | None = None,
    max_features: int = 64,
    in_use: ArrayLike | None = None,
) -> FigureBase:
    """The first layer's posterior means as pictures, one tile a feature, strongest first; pruned weights are grey.

    ``loc_kernel``: (inputs, features) of a dense layer, whose inputs are the pixels of ``image_shape``, (height, width[,
    channels]), found by itself for a square image; inputs that form no image are shown as one matrix. Or (height, width,
    channels, features) of a convolution. Channels lie side by side. ``mask``: booleans of the same shape, True = alive.
    ``in_use``: (features,) booleans, those that the outputs depend on (see `connected`); the others are left out.

    Source: after Markovic et al. 2024, figure 4.
    """
    kernel = finite(loc_kernel, "loc_kernel")
    alive = np.ones(kernel.shape, bool) if mask is None else truth_values(mask, "mask")
    if alive.shape != kernel.shape:
        raise ValueError(f"mask must have loc_kernel's shape {kernel.shape}, got {alive.shape}.")
    total, used = kernel.shape[-1], _features_in_use(in_use, kernel.shape[-1])
    kernel, alive = kernel[..., used], alive[..., used]
    values = np.where(alive, kernel, np.nan)
    order = np.argsort(-np.nansum(values**2, axis=tuple(range(kernel.ndim - 1))), kind="stable")
    shown = values[..., order[:max_features]]
    peak = float(np.nanquantile(np.abs(shown), 0.995)) if np.isfinite(shown).any() else 0.0
    scale = signed(peak or 1.0)
    shape = tile_shape(shown.shape, image_shape)
    sheet = mosaic(scale.to_rgba(shown.ravel()).reshape(*shape, 4))
    fig = figure(6.4, float(np.clip(5.2 * sheet.shape[0] / sheet.shape[1] + 0.6, 1.8, 8.0))) if fig is None else fig
    ax = fig.add_subplot()
    ax.imshow(sheet, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    kept = shown.shape[-1]
    count = f"{total} features" if kept == total else f"{kept} of {total} features"
    title = f"{count} in use" if in_use is not None and kept == used.sum() else count
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
