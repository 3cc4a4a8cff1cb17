"""Figures of masks that change: their density and the acts that made it, how many weights change sides, how far the alive ones
wander, and which inputs they look at.

Taken in by `bayesprune.report.plots`, which says what all figures have in common.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesprune.core.checks import check_within
from bayesprune.report.inputs import ArrayLike, recorded, truth_values
from bayesprune.report.plots_style import (
    BLACK,
    DASHES,
    GREY,
    PALETTE,
    Axes,
    Figure,
    FigureBase,
    MaxNLocator,
    few_decades,
    in_order,
    in_percent,
    legend_beside,
    legend_of_sites,
    marks_of,
    over_steps,
    several,
    single,
    style,
    whole_numbers,
)
from bayesprune.report.record import acts_of

PREFIX = "prune/density/"
DENSE = 0.1  # above this density shares differ visibly on a linear axis
AT_THE_END: dict[str, Any] = {"marker": "X", "markersize": 9, "markeredgecolor": "white", "linestyle": "", "clip_on": False}
Mask = Mapping[str, ArrayLike]


def density_and_acts(
    history: Mapping[str, Any], num_steps: int | None = None, connected: float | None = None, fig: FigureBase | None = None
) -> FigureBase:
    """Above, the share of the prunable weights that is alive, and the share that is connected, too; below, each act.

    Args:
        history: ``prune/step`` and ``prune/density``, (rounds,), as in ``fit.history``; where known the densities of sites, and
            ``prune/num_alive``, ``prune/num_connected``, ``prune/num_pruned`` and ``prune/num_proposed``.
        num_steps: steps of the fit; those to the last round if None.
        connected: the share of weights that is connected at the end, for a history without ``prune/num_connected``.
        fig: a figure or subfigure of your own to draw into.

    Shown for each act: how many weights the method proposed to cut and how many were cut; a cross where none were.

    Example:
        >>> history = {"prune/step": [5, 10], "prune/density": [0.5, 0.5], "prune/num_alive": [4, 4]}
        >>> history |= {"prune/num_pruned": [4, 0], "prune/num_proposed": [5, 2], "prune/num_connected": [3, 3]}
        >>> top, foot = density_and_acts(history).axes
        >>> [line.get_label() for line in foot.lines]
        ['proposed', 'cut', 'refused']

    Raises:
        ValueError: a history without steps or densities.
    """
    step = recorded(history, "prune/step")
    fig = several(fig, 7.6, 5.6)
    top, foot = fig.subplots(2, 1, sharex=True, height_ratios=(3, 1.2))
    num_sites = _densities(top, step, history, connected)
    _acts(foot, step, history)
    legend_beside(top, num_sites)
    legend_beside(foot, 0)
    over_steps(foot, int(step[-1]) if num_steps is None else num_steps)
    return fig


def _densities(ax: Axes, step: np.ndarray, history: Mapping[str, Any], connected: float | None) -> int:
    """Densities of all layers and of each; how many sites there are."""
    density = recorded(history, "prune/density")
    curves = _by_site(history)
    used = _connected(history, density)
    lowest = min(float(one[one > 0].min(initial=1.0)) for one in (density, *curves.values()))
    logarithmic = lowest < DENSE
    # On a logarithmic axis there is no zero.
    shown = lambda one: np.where((one > 0) | (not logarithmic), one, np.nan)  # noqa: E731
    look = {"color": BLACK, "linewidth": 2.6, "marker": "o", "markersize": 3}
    ax.plot(step, shown(density), label=_name("alive, all layers", density), **look)
    if np.isfinite(used).any():
        look = {"color": PALETTE[5], "linewidth": 1.2, "zorder": 5}
        ax.plot(step, shown(used), label=_name("alive and connected", used), **look | marks_of(shown(used)))
    elif connected is not None:
        check_within(connected, "connected", "[0, 1]", "it is a share")
        ended = np.array([connected])
        ax.plot(step[-1:], shown(ended), color=PALETTE[5], label=_name("alive and connected", ended), zorder=5, **AT_THE_END)
    legend_of_sites(ax, {_name(site, one): (step, shown(one)) for site, one in curves.items()})
    style(ax, "", "share of the prunable weights")
    if logarithmic:
        ax.set_yscale("log")
        ax.set_ylim(top=1.25)
        few_decades(ax.yaxis)
    else:
        ax.set_ylim(-0.02, 1.02)
    in_percent(ax.yaxis)
    return len(curves)


def _by_site(history: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The density of each layer, over the rounds."""
    sites = in_order([name.removeprefix(PREFIX) for name in history if name.startswith(PREFIX)])
    return {site: np.asarray(history[PREFIX + site], np.float64) for site in sites}


def _name(curve: str, density: np.ndarray) -> str:
    return f"{curve} (none left)" if density[-1] == 0 else curve


def _connected(history: Mapping[str, Any], density: np.ndarray) -> np.ndarray:
    """The share of connected weights after each round; NaN where it is not known."""
    used, alive = (np.asarray(history.get(f"prune/{name}", np.nan), np.float64) for name in ("num_connected", "num_alive"))
    return np.broadcast_to(density * used / np.maximum(alive, 1), density.shape)


def _acts(ax: Axes, step: np.ndarray, history: Mapping[str, Any]) -> None:
    acts = acts_of(history)
    for counts, rounds, label, look in (
        (acts.proposed, (acts.proposed > 0) & (acts.cut > 0), "proposed", {"marker": "o", "markersize": 6, "color": GREY}),
        (acts.cut, acts.cut > 0, "cut", {"marker": "o", "markersize": 3.5, "color": PALETTE[0]}),
        (acts.proposed, acts.refused, "refused", {"marker": "x", "markersize": 4.5, "color": PALETTE[1]}),
    ):
        if rounds.any():
            filled = look["color"] if label == "cut" else "white"
            ax.plot(step[rounds], counts[rounds], linestyle="", label=label, markerfacecolor=filled, **look)
    style(ax, "training step", "weights of an act")
    ax.set_yscale("log")
    few_decades(ax.yaxis)


def pruned_share(history: Mapping[str, Any], ax: Axes | None = None, connected: float | None = None) -> Figure:
    """Share of the prunable weights that are pruned, in total and per layer, over training steps.

    ``history``: ``prune/step`` and ``prune/density``, (rounds,), and ``prune/density/<site>`` where known. ``connected``: the
    share of weights that are alive and connected at the end, to mark how many no living path needs.
    """
    step, density = recorded(history, "prune/step"), recorded(history, "prune/density")
    curves = _by_site(history)
    fig, ax = single(ax)
    ax.plot(step, 1 - density, color=BLACK, linewidth=2.6, marker="o", markersize=3, label="all layers")
    if connected is not None:
        check_within(connected, "connected", "[0, 1]", "it is a share")
        ax.plot(step[-1], 1 - connected, color=BLACK, label="pruned or not connected", zorder=5, **AT_THE_END)
    legend_of_sites(ax, {site: (step, 1 - one) for site, one in curves.items()})
    style(ax, "training step", "pruned share")
    ax.set_ylim(-0.02, 1.02)
    in_percent(ax.yaxis)
    legend_beside(ax, len(curves))
    return fig


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
