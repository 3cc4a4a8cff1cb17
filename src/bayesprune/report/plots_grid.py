"""Figures of a grid of fits: nets beside one another, methods as colours, seeds as thin lines."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from bayesprune.report.plots_first_layer import first_layer_heatmap
from bayesprune.report.plots_style import BLACK, PALETTE, Axes, Figure, figure, in_percent, style

Course = tuple[ArrayLike, ArrayLike]  # steps or epochs, and a value for each
NAMED = 8  # arrays in a legend


def curves(panels: Mapping[tuple[str, str], Mapping[str, Sequence[Course]]], over: str) -> Figure:
    """A row of panels for each measure, a column for each net: (measure, net) -> method -> courses, one for each seed.

    The mean over seeds is the thick line. Source: after Markovic et al. 2024, figure 1.
    """
    rows, columns = (list(dict.fromkeys(pair[axis] for pair in panels)) for axis in (0, 1))
    fig = figure(3.6 * len(columns) + 1.2, 2.3 * len(rows) + 0.4)
    axes = np.atleast_2d(fig.subplots(len(rows), len(columns), sharex="col", squeeze=False))
    names = dict.fromkeys(method for panel in panels.values() for method in panel)
    colours = dict(zip(names, (*PALETTE, BLACK), strict=False))
    for (measure, net), methods in panels.items():
        ax = axes[rows.index(measure), columns.index(net)]
        for method, courses in methods.items():
            _with_mean(ax, courses, colours[method], method)
        ax.locator_params("x", integer=True, min_n_ticks=1)  # one evaluation has one tick
        first, last = rows.index(measure) == 0, rows.index(measure) == len(rows) - 1
        style(ax, over if last else "", measure if net == columns[0] else "", net if first else "")
    handles = {label: handle for ax in axes.flat for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    fig.legend(handles.values(), handles.keys(), loc="outside right upper", frameon=False)
    fig.suptitle("test rows, while training", fontsize=11)
    return fig


def shares(pruned: Mapping[str, Sequence[Course]], unused: Mapping[str, Sequence[float]]) -> Figure:
    """Pruned share of the prunable weights: net -> a course for each seed. A dot beside the end: pruned, or in no one's use.

    Source: after Markovic et al. 2024, figure 2.
    """
    fig = figure(6.4, 4.0)
    ax = fig.add_subplot()
    for colour, (net, courses) in zip(PALETTE, pruned.items(), strict=False):
        _with_mean(ax, courses, colour, net)
        ends = [float(np.asarray(x)[-1]) * 1.01 for x, _ in courses]
        ax.plot(ends[: len(unused.get(net, []))], unused.get(net, []), "o", color=colour, markersize=4, clip_on=False)
    style(ax, "epoch", "share pruned", "lines: pruned; dots at the end: pruned or not connected")
    ax.set_ylim(0, 1.02)
    in_percent(ax.yaxis)
    if any(pruned.values()):
        ax.legend(frameon=False)
    return fig


def distributions(panels: Mapping[tuple[str, str], Mapping[str, ArrayLike]]) -> Figure:
    """Quantiles of |posterior mean| as distribution functions: (net, method) -> array -> values at even steps from 0 to 1.

    Exact zeros show at the left edge; of many arrays the legend names a few from the first to the last. Source: after
    Markovic et al. 2024, figure 3.
    """
    rows, columns = (list(dict.fromkeys(pair[axis] for pair in panels)) for axis in (0, 1))
    fig = figure(3.0 * len(columns) + 1.6, 2.4 * len(rows) + 0.3)
    axes = fig.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    highest = max((float(np.max(values)) for sites in panels.values() for values in sites.values()), default=1.0)
    for (net, method), sites in panels.items():
        beside = [other for name, other in panels if name == net]
        below = [name for name, other in panels if other == method]
        ax = axes[rows.index(net), columns.index(method)]
        ax.set_axis_on()
        for colour, (site, values) in zip(_shades(len(sites)), sites.items(), strict=True):
            x = np.maximum(np.asarray(values, float), 1e-6)
            ax.plot(x, np.linspace(0, 1, len(x)), color=colour, linewidth=1.3, label=site.removesuffix(".kernel"))
        ax.set_xscale("log")
        ax.set_xlim(1e-6, max(1.5 * highest, 1e-5))
        low, first, last = net == below[-1], method == beside[0], method == beside[-1]
        style(ax, "|posterior mean|" if low else "", f"{net}: share at or below" if first else "", method)
        ax.tick_params(labelbottom=low, labelleft=first)
        in_percent(ax.yaxis)
        if last and sites:
            lines = [ax.lines[i] for i in np.unique(np.linspace(0, len(sites) - 1, NAMED).round().astype(int))]  # few: all
            title = f"{NAMED} of {len(sites)} arrays" if len(sites) > NAMED else None
            ax.legend(handles=lines, title=title, frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def heat_maps(kernels: Mapping[str, ArrayLike]) -> Figure:
    """First layers side by side: method -> posterior means, exact zeros in grey; see `plots.first_layer_heatmap`.

    Source: after Markovic et al. 2024, figure 4.
    """
    fig = figure(4.6 * len(kernels), 3.6)
    parts = np.atleast_1d(fig.subfigures(1, len(kernels), squeeze=False)).ravel()
    for part, (method, kernel) in zip(parts, kernels.items(), strict=True):
        values = np.asarray(kernel)
        first_layer_heatmap(values, values != 0, fig=part, max_features=24)
        part.suptitle(f"{method}: {part.get_suptitle()}".replace("; ", "\n"), fontsize=9)
    return fig


def _with_mean(ax: Axes, courses: Sequence[Course], colour: str, label: str) -> None:
    """Thin lines, and the mean of those that have as many points as the first; of one point a dot."""
    values = [(np.asarray(x, float), np.asarray(y, float)) for x, y in courses]
    if not values:
        return
    for x, y in values if len(values) > 1 else ():
        ax.plot(x, y, color=colour, linewidth=0.6, alpha=0.6)
    whole = [y for x, y in values if len(x) == len(values[0][0])]
    marker = "o" if len(values[0][0]) == 1 else None
    ax.plot(values[0][0], np.mean(whole, axis=0), color=colour, linewidth=1.8, label=label, marker=marker)


def _shades(number: int) -> list[tuple[float, ...]]:
    """From dark to light, layer by layer."""
    return [(0.1, 0.25 + 0.6 * at, 0.55 + 0.25 * at) for at in np.linspace(0, 1, number)]
