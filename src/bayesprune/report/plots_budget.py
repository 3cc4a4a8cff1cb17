"""What a network costs and how well it predicts while its weights fall."""

from collections.abc import Sequence

from bayesprune.report.plots_style import BLACK, PALETTE, Figure, figure, style

NAMES = {"latency_ms": "ms", "bytes": "bytes", "flops": "FLOPs a row", "nll_increase": "nats more a row", "ece": "ECE"}


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
