"""Figures of masks that change: how many weights change sides, how far the alive ones wander, which inputs they look at."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesprune.report.inputs import ArrayLike, recorded, truth_values
from bayesprune.report.plots_style import (
    DASHES,
    GREY,
    PALETTE,
    Axes,
    Figure,
    FigureBase,
    MaxNLocator,
    in_percent,
    several,
    single,
    style,
    whole_numbers,
)

Mask = Mapping[str, ArrayLike]


def exchanged_share(history: Mapping[str, Any], ax: Axes | None = None) -> Figure:
    """Share of the alive weights that woke at each mask update, over training steps.

    It lies below the share that a method drops, r_t of SSVI, where dropped weights are reactivated at once.

    Args:
        history: ``prune/step``, ``prune/num_grown`` and ``prune/num_alive``, (rounds,) each, as in ``fit.history``.
        ax: axes of your own to draw into.

    Raises:
        ValueError: a history without one of these.

    Example:
        >>> history = {"prune/step": [10, 20], "prune/num_grown": [30, 5], "prune/num_alive": [100, 100]}
        >>> exchanged_share(history).axes[0].lines[0].get_ydata().tolist()
        [0.3, 0.05]
    """
    step, grown, alive = (recorded(history, f"prune/{name}") for name in ("step", "num_grown", "num_alive"))
    fig, ax = single(ax)
    share = np.divide(grown, alive, out=np.zeros(np.shape(grown)), where=np.asarray(alive) > 0)  # of none nothing was exchanged
    ax.plot(step, share, color=PALETTE[0], marker="o", markersize=3.5)
    style(ax, "training step", "alive weights exchanged")
    ax.set_ylim(bottom=0)
    whole_numbers(ax.xaxis)
    in_percent(ax.yaxis)
    return fig


def wandering(
    masks: Mapping[str, Sequence[Mask]], steps: ArrayLike | Sequence[int], fig: FigureBase | None = None
) -> FigureBase:
    """Left, the share of all weights that were alive at some time; right, of the first alive ones, the share alive now.

    The dotted lines on the right say what a fresh random mask of the last density would share with the first: below about
    that, nothing of the start is remembered.

    Args:
        masks: name -> the masks of one training in order of time, each {site: booleans, True = alive}.
        steps: (masks,), the training steps at which they were taken, the same of all trainings.
        fig: a figure or subfigure of your own to draw into.

    Raises:
        ValueError: no trainings; not one mask a step; sites or shapes that change; a first mask with nothing alive.

    Example:
        >>> start, end = ({"kernel": np.arange(4) < n} for n in (1, 3))
        >>> [line.get_ydata().tolist() for line in wandering({"run": [start, end]}, [0, 10]).axes[0].lines]
        [[0.25, 0.75]]
    """
    steps = np.asarray(steps, np.float64)
    if not masks:
        raise ValueError("masks is empty: give at least one training, name -> its masks in order of time.")
    fig = several(fig, 9.0, 3.4)
    left, right = fig.subplots(1, 2)
    for i, (name, course) in enumerate(masks.items()):
        alive = _rows(course, steps, name)
        look = {"color": PALETTE[i % len(PALETTE)], "linestyle": DASHES[i % 3], "marker": "o", "markersize": 3.5, "label": name}
        left.plot(steps, np.logical_or.accumulate(alive).mean(axis=1), **look)
        right.plot(steps, alive[:, alive[0]].mean(axis=1), **look)
        right.axhline(alive[-1].mean(), color=look["color"], linestyle=":", linewidth=1.0, zorder=1)
    right.plot([], [], color=GREY, linestyle=":", linewidth=1.0, label="a random mask")
    style(left, "training step", "weights that were ever alive")
    style(right, "training step", "of the first alive, alive now")
    left.set_ylim(0, min(1.02, 1.15 * left.dataLim.y1))
    right.set_ylim(0, 1.02)
    for ax in (left, right):
        whole_numbers(ax.xaxis)
        in_percent(ax.yaxis, decimals=0)
    right.legend(frameon=False, fontsize=9)
    return fig


def _rows(course: Sequence[Mask], steps: np.ndarray, name: str) -> np.ndarray:
    """The masks of one training, one row each: (masks, weights)."""
    if steps.ndim != 1 or len(course) != len(steps) or not len(steps):
        raise ValueError(f"masks[{name!r}] must have one mask for each of steps {steps.shape}, got {len(course)}.")
    shapes = {site: np.shape(alive) for site, alive in course[0].items()}
    if any({site: np.shape(alive) for site, alive in mask.items()} != shapes for mask in course):
        raise ValueError(f"masks[{name!r}] must have the same sites and shapes at every step, those of its first: {shapes}.")
    nothing = np.zeros(0, bool)  # of a mask without sites
    flat = lambda mask: [truth_values(mask[site], f"masks[{name!r}]").ravel() for site in shapes]  # noqa: E731
    rows = [np.concatenate([nothing, *flat(mask)]) for mask in course]
    if not np.any(rows[0]):
        raise ValueError(f"masks[{name!r}][0] has no weight alive: there is nothing to wander from.")
    return np.stack(rows)


def connected_inputs(
    mask: ArrayLike, image_shape: tuple[int, ...] | None = None, most: int | None = None, ax: Axes | None = None
) -> Figure:
    """How many units of a dense first layer look at each pixel of their input, as a picture; a pixel that none sees is white.

    Args:
        mask: (inputs, units) booleans, True = alive.
        image_shape: (height, width[, channels]) of an input, found by itself for a square picture; channels are summed.
        most: the count of the darkest colour, to compare pictures; the largest if None.
        ax: axes of your own to draw into.

    Raises:
        ValueError: a mask of another shape or not boolean; a picture that does not hold the inputs.

    Example:
        >>> connected_inputs(np.eye(4, dtype=bool)).axes[0].images[0].get_array().tolist()
        [[1, 1], [1, 1]]
    """
    alive = truth_values(mask, "mask")
    if alive.ndim != 2 or not alive.size:
        raise ValueError(f"mask must be (inputs, units) of a dense layer, got shape {alive.shape}.")
    side = round(len(alive) ** 0.5)
    shape = (side, side) if image_shape is None else tuple(image_shape)
    if len(shape) not in (2, 3) or np.prod(shape) != len(alive):
        given = "give image_shape=" if image_shape is None else f"image_shape {shape} is not"
        raise ValueError(
            f"{len(alive)} inputs: {given} (height, width[, channels]) of as many pixels, such as (1, {len(alive)})."
        )
    count = alive.sum(axis=1).reshape((*shape, 1)[:3]).sum(axis=2)
    fig, ax = single(ax, 4.4, 3.8)
    top = max(1, int(count.max()) if most is None else most)
    shown = ax.imshow(count, cmap="Blues", vmin=0, vmax=top, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.set_title(f"{(count > 0).sum():,} of {count.size:,} pixels connected", fontsize=10)
    extend = "max" if count.max() > top else "neither"
    ticks = MaxNLocator(6, integer=True)
    fig.colorbar(shown, ax=ax, label="units that look at a pixel", shrink=0.85, extend=extend, ticks=ticks)
    return fig
