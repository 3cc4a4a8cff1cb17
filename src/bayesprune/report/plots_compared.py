"""Figures of networks compared: methods over connected density, their mean ranks, and one network while its weights fall."""

from collections.abc import Mapping, Sequence

from bayesprune.report.plots_style import BLACK, DASHES, PALETTE, Figure, figure, style

MARKS = "osD^vP"
LONG = 14  # methods beyond which the legend has two columns
Points = Sequence[tuple[float, float, float]]  # density, mean, standard deviation
NAMES = {"latency_ms": "ms", "bytes": "bytes", "flops": "FLOPs a row", "nll_increase": "nats more a row", "ece": "ECE"}


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
