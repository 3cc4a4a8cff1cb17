"""The density of a fit over its steps, and the acts that made it: what was proposed, what fell, what was refused.

Taken in by `bayesprune.report.plots`, which says what all figures have in common.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesprune.core.checks import check_within
from bayesprune.report.inputs import recorded
from bayesprune.report.plots_style import (
    BLACK,
    GREY,
    PALETTE,
    Axes,
    FigureBase,
    few_decades,
    in_order,
    in_percent,
    legend_beside,
    legend_of_sites,
    marks_of,
    over_steps,
    several,
    style,
)
from bayesprune.report.record import acts_of

PREFIX = "prune/density/"
DENSE = 0.1  # above this density shares differ visibly on a linear axis


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
    sites = in_order([name.removeprefix(PREFIX) for name in history if name.startswith(PREFIX)])
    curves = {site: np.asarray(history[PREFIX + site], np.float64) for site in sites}
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
        look = {"color": PALETTE[5], "marker": "X", "markersize": 9, "markeredgecolor": "white", "linestyle": "", "zorder": 5}
        ended = np.array([connected])
        ax.plot(step[-1:], shown(ended), label=_name("alive and connected", ended), clip_on=False, **look)
    legend_of_sites(ax, {_name(site, one): (step, shown(one)) for site, one in curves.items()})
    style(ax, "", "share of the prunable weights")
    if logarithmic:
        ax.set_yscale("log")
        ax.set_ylim(top=1.25)
        few_decades(ax.yaxis)
    else:
        ax.set_ylim(-0.02, 1.02)
    in_percent(ax.yaxis)
    return len(sites)


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
