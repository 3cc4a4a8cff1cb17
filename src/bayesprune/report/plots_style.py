"""The one look of all figures: colours, axes, legends of layers. What the figures show is in `bayesprune.report.plots`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    from matplotlib import colormaps
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure, FigureBase
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, PercentFormatter, StrMethodFormatter
    from matplotlib.transforms import ScaledTranslation
except ImportError as error:
    raise ImportError('figures need matplotlib: pip install "bayesprune[plots]"') from error

__all__ = [
    "Axes",
    "Figure",
    "FigureBase",
    "ScaledTranslation",
]  # handed on, so that matplotlib is imported, and missed, in one place

# Okabe and Ito's palette, which colour-blind eyes can separate; black is kept for totals
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31")
BLACK, GREY = "#222222", "#999999"
SIGNED = colormaps["RdBu_r"].with_extremes(bad="#C8C8C8")  # NaN is a pruned weight
DASHES = ("-", "--", "-.")
MAX_LEGEND = 8
FEW_DECADES = 100.0  # times the lower end: fewer decades have few ticks at powers of ten
LONG_NAME = 30


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to no window."""
    return Figure(figsize=(width, height), layout="constrained")


def several(fig: FigureBase | Any | None, width: float, height: float) -> FigureBase:
    """The caller's figure or subfigure for several panels, or a new one."""
    if fig is not None and not isinstance(fig, FigureBase):
        raise TypeError(f"fig must be a matplotlib figure or subfigure, got {type(fig).__name__}: several panels are drawn.")
    return figure(width, height) if fig is None else fig


def single(ax: Axes | Any | None, width: float = 6.4, height: float = 4.0) -> tuple[Figure, Axes]:
    """The caller's axes and its figure, or new ones."""
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(
            f"ax must be matplotlib axes, got {type(ax).__name__}: give one panel, as figure.add_subplot() makes it."
        )
    if ax is None:
        ax = figure(width, height).add_subplot()
    return ax.get_figure(root=True), ax


def style(ax: Axes, xlabel: str, ylabel: str, title: str = "") -> None:
    """The one look of all figures."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_title(title, fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#E6E6E6", linewidth=0.6)
    ax.set_axisbelow(True)


def in_percent(axis: Axis, decimals: int | None = None) -> None:
    """Shares as percentages."""
    axis.set_major_formatter(PercentFormatter(1.0, decimals))


def whole_numbers(axis: Axis) -> None:
    """Ticks at whole numbers alone: there is no half of a step, or of an input."""
    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def few_decades(axis: Axis) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, as plain numbers, of a logarithmic scale; of more than two decades powers alone.

    Call it once all is drawn: what is in view decides.
    """
    low, high = axis.get_view_interval()
    if high > FEW_DECADES * low:
        axis.set_minor_formatter(NullFormatter())
        return
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def over_steps(ax: Axes, num_steps: int) -> None:
    """Training steps along the foot, with few ticks: several panels are side by side."""
    ax.set_xlim(0, num_steps)
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def signed(peak: float) -> ScalarMappable:
    """Colours for numbers from -peak to peak, white at 0, grey for NaN."""
    return ScalarMappable(Normalize(-peak, peak), SIGNED)


def in_order(names: list[str]) -> list[str]:
    """Names with their numbers in order of size, so that layer 10 comes after layer 9."""
    parts = {n: [(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in n.replace("_", ".").split(".")] for n in names}
    return sorted(names, key=parts.__getitem__)


def marks_of(values: np.ndarray | Sequence[float]) -> dict[str, Any]:
    """Markers of a curve for its points without a finite neighbour: no line is drawn to them, and they would be seen by nobody.

    >>> marks_of(np.array([1.0, np.nan, 2.0, 3.0]))
    {'marker': 'o', 'markevery': [0]}
    >>> marks_of(np.array([1.0, 2.0]))
    {}
    """
    there = np.isfinite(np.concatenate([[np.nan], values, [np.nan]]))
    alone = np.flatnonzero(there[1:-1] & ~there[:-2] & ~there[2:]).tolist()
    return {"marker": "o", "markevery": alone} if alone else {}


def shortened(names: list[str]) -> list[str]:
    """Names without the parts that all begin and end with, and of what is still long its end, where they stay different.

    >>> shortened(["net.blocks_0.attention.query_projection.kernel", "net.blocks_1.attention.query_projection.kernel"])
    ['….blocks_0.…', '….blocks_1.…']
    >>> shortened(["Dense_0.kernel", "Dense_1.kernel"])
    ['Dense_0.kernel', 'Dense_1.kernel']
    """
    if max(map(len, names), default=0) <= LONG_NAME:
        return names
    parts = [name.split(".") for name in names]
    least = min(map(len, parts)) - 1 if len(names) > 1 else 0
    alike = lambda place: len({part[place] for part in parts}) == 1  # noqa: E731
    head = next((place for place in range(least) if not alike(place)), least)
    tail = next((place for place in range(least - head) if not alike(-1 - place)), least - head)
    made = [".".join(["…"] * bool(head) + part[head : len(part) - tail] + ["…"] * bool(tail)) for part in parts]
    ends = [one if len(one) <= LONG_NAME else f"…{one[-LONG_NAME:]}" for one in made]
    return ends if len(set(ends)) == len(names) else made


def legend_of_sites(ax: Axes, curves: dict[str, tuple[Any, Any]], drawstyle: str = "default") -> None:
    """One curve a site: up to eight get a legend, more get a colour scale."""
    many = len(curves) > MAX_LEGEND
    shades = ScalarMappable(Normalize(1, len(curves)), "viridis")
    for i, (site, (x, y)) in enumerate(zip(shortened(list(curves)), curves.values(), strict=True)):
        color, dash = (shades.to_rgba(i + 1), "-") if many else (PALETTE[i % len(PALETTE)], DASHES[i % 3])
        label = "_hidden" if many else site  # matplotlib leaves a leading underscore out of the legend
        look = {"color": color, "linestyle": dash, "linewidth": 1.4, "markersize": 5} | marks_of(y)
        ax.plot(x, y, drawstyle=drawstyle, label=label, **look)
    if many:
        bar = ax.figure.colorbar(shades, ax=ax, label="layer, in order of name")
        bar.locator = MaxNLocator(integer=True, nbins=6)


def legend_beside(ax: Axes, num_sites: int) -> None:
    """Right of the axes; above them where the colour scale has taken that side."""
    loc, anchor = ("center left", (1.01, 0.5)) if num_sites <= MAX_LEGEND else ("lower right", (1.0, 1.0))
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=9, loc=loc, bbox_to_anchor=anchor)
