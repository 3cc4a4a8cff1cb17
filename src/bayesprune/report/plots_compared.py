"""Figures of networks compared: methods over connected density, their mean ranks, one network while its weights fall, and grids
of fits: nets beside one another, methods as colours, seeds as thin lines."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from bayesprune.report.plots_first_layer import first_layer_heatmap
from bayesprune.report.plots_style import BLACK, DASHES, PALETTE, Axes, Figure, figure, in_percent, style

MARKS = "osD^vP"
LONG = 14  # methods beyond which the legend has two columns
Points = Sequence[tuple[float, float, float]]  # density, mean, standard deviation
NAMES = {"latency_ms": "ms", "bytes": "bytes", "flops": "FLOPs a row", "nll_increase": "nats more a row", "ece": "ECE"}
Course = tuple[ArrayLike, ArrayLike]  # steps or epochs, and a value for each
NAMED = 8  # arrays in a legend


def curves(panels: Mapping[str, Mapping[str, Points]]) -> Figure:
    """A panel for each figure, a line for each method over the connected density, with error bars; one point where it has one.

    Of ``{"NLL": {"snr": [(density, mean, standard deviation), ...]}}``. A dense reference, of density 1, is drawn as a dot.
    What differs tenfold between methods, all of it above zero, is on a logarithmic scale.

    >>> curves({"NLL": {"snr": [(0.1, 0.3, 0.01), (0.2, 0.2, 0.01)]}}).axes[0].get_ylabel()
    'NLL'
    """
    names = list(dict.fromkeys(name for methods in panels.values() for name in methods))
    columns = 1 + (len(names) > LONG)
    fig = figure(5.2 * len(panels) + 2.2 * columns, 4.8)
    for place, (panel, methods) in enumerate(panels.items(), start=1):
        ax = fig.add_subplot(1, len(panels), place)
        for name, points in methods.items():
            number = names.index(name)
            density, mean, spread = zip(*sorted(points), strict=True)
            ax.errorbar(
                density, mean, spread, color=PALETTE[number % len(PALETTE)], marker=MARKS[number // len(PALETTE) % len(MARKS)],
                linestyle=DASHES[number // len(PALETTE) % len(DASHES)], linewidth=1.2, markersize=4, capsize=2, label=name,
            )  # fmt: skip
        ax.set_xscale("log")
        means = [mean for points in methods.values() for _, mean, _ in points]
        if means and min(means) > 0 and max(means) > 10 * min(means):
            ax.set_yscale("log")
        style(ax, "connected share of the weights", panel)
    fig.axes[-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), ncols=columns)
    return fig


def rank_lines(mean: Mapping[str, float], alike: Sequence[Sequence[str]], title: str = "") -> Figure:
    """A critical-difference diagram: methods at their mean ranks, best on the left, bars over those that hardly differ.

    >>> rank_lines({"a": 1.0, "b": 2.0}, [("a", "b")]).axes[0].get_xlabel()
    'mean rank'
    """
    names = list(mean)
    fig = figure(8.0, 1.6 + 0.24 * len(names) / 2 + 0.14 * len(alike))
    ax = fig.add_subplot()
    bars, half = 0.5 * len(alike), (len(names) + 1) // 2
    low, high = min(mean.values()), max(mean.values())
    room = 0.04 * max(high - low, 1e-9)
    for place, name in enumerate(names):
        left = place < half
        depth = -bars - 1.0 - (place if left else len(names) - 1 - place)
        end = low - room if left else high + room
        ax.plot([mean[name], mean[name], end], [0.0, depth, depth], color=BLACK, linewidth=0.8)
        ax.annotate(
            f"{name}  {mean[name]:.1f}", (end, depth), (-4 if left else 4, 0), textcoords="offset points",
            ha="right" if left else "left", va="center", fontsize=9,
        )  # fmt: skip
    for number, group in enumerate(alike):
        ends = [mean[group[0]], mean[group[-1]]]
        ax.plot(ends, [-0.5 * (number + 1)] * 2, color=PALETTE[number % len(PALETTE)], linewidth=3, solid_capstyle="butt")
    style(ax, "mean rank", "", title)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.spines["bottom"].set_visible(False)
    ax.grid(False)
    ax.axhline(0.0, color=BLACK, linewidth=1.0)
    ax.set_ylim(-bars - half - 1.5, 0.3)
    return fig


def frontier(
    densities: Sequence[float], spent: Sequence[float], nll: Sequence[float], taken: tuple[float, float], budget: str
) -> Figure:
    """Two panels over the density: what a budget limits, with its line and the network that was taken; and NLL.

    >>> frontier([1.0, 0.1], [5.0, 1.0], [0.3, 0.31], (0.1, 2.0), "latency_ms").axes[0].get_ylabel()
    'ms'
    """
    fig = figure(8.0, 3.2)
    for place, (values, name) in enumerate([(spent, NAMES[budget]), (nll, "NLL, held-out rows")]):
        ax = fig.add_subplot(1, 2, place + 1)
        ax.plot(densities, values, "o-", color=PALETTE[place], markersize=4)
        ax.axvline(taken[0], color=BLACK, linewidth=0.8, linestyle=":")
        if not place:
            ax.axhline(taken[1], color=BLACK, linewidth=0.8, linestyle="--")
        ax.set_xscale("log")
        style(ax, "share of weights that are left", name)
    return fig


def courses(panels: Mapping[tuple[str, str], Mapping[str, Sequence[Course]]], over: str) -> Figure:
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
