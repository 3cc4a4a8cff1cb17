"""How sure predictions are: whether as sure as they are right, of classes and of numbers, and what they are unsure of.

Taken in by `bayesprune.report.plots`, which says what all figures have in common.
"""

from typing import Any

import numpy as np

from bayesprune.report.calibration import ece, top_label_bins
from bayesprune.report.inputs import ArrayLike, finite
from bayesprune.report.plots_style import GREY, PALETTE, Axes, Figure, FigureBase, in_percent, several, single, style

LEVELS = np.arange(0.05, 0.96, 0.05)
NARROW = 5.5  # inches
PARTS = (57, 2009)  # a seed that data are not made with: the same numbers in y would be no random parts


def reliability_diagram(probs: ArrayLike, y: ArrayLike, fig: FigureBase | None = None) -> FigureBase:
    """How often the most probable class was right, given how sure the model was; below, how often it was that sure.

    ``probs``: (rows, classes); ``y``: (rows,) labels. The bins and the ECE of the title are those of `metrics.ece`.
    """
    bins = top_label_bins(probs, y)
    num_bins = len(bins.count)
    centre, width = (np.arange(num_bins) + 0.5) / num_bins, 0.9 / num_bins
    fig = several(fig, 6.6, 5.4)
    top, foot = fig.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    top.bar(centre, np.nan_to_num(bins.observed), width, color=PALETTE[0], label="accuracy")
    top.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2, label="perfect calibration")
    full = bins.count > 0
    top.plot(
        bins.predicted[full],
        bins.observed[full],
        "o",
        color=PALETTE[1],
        markersize=4,
        clip_on=False,
        label="at the mean confidence",
    )
    style(top, "", "accuracy", f"ECE {ece(probs, y):.3f} (top label, {num_bins} equal-width bins)")
    top.set(xlim=(0, 1), ylim=(0, 1.02))
    foot.bar(centre, bins.count / bins.count.sum(), width, color=GREY)
    style(foot, "confidence", "share of rows")
    in_percent(foot.yaxis, decimals=0)
    # Bars may be anywhere, so that the legend has a place outside: to the right, or below in a narrow part of a figure.
    wide = fig.bbox.width >= NARROW * fig.get_figure(root=True).dpi
    look = {"frameon": False, "fontsize": 9, "loc": "upper left" if wide else "upper center"}
    (top if wide else foot).legend(
        *top.get_legend_handles_labels(), bbox_to_anchor=(1.01, 1.0) if wide else (0.5, -0.5), **look
    )
    return fig


def coverage_diagram(samples: ArrayLike, y: ArrayLike | Any, ax: Axes | None = None) -> Figure:
    """How often central intervals of the predictive distribution held the number, over what they promise, 5 to 95 %.

    The grey band is where nineteen of twenty well calibrated models of as many rows lie, at each level by itself. Below the
    diagonal intervals are too narrow, above it too wide.

    Args:
        samples: (draws, rows), targets drawn from the predictive distribution, noise included, as ``model.sample_y`` gives them
            and `bayesprune.sample_targets`.
        y: (rows,), the numbers that came; of whole numbers a row that ties with samples counts at random.
        ax: axes of your own to draw into.

    Raises:
        ValueError: other shapes, or numbers that are not finite.

    Example:
        >>> samples = np.random.default_rng(0).standard_normal((200, 500))
        >>> line = coverage_diagram(samples, np.zeros(500)).axes[0].lines[-1]
        >>> print(line.get_ydata()[-1])           # zero lies in the middle of every interval
        1.0
    """
    drawn, y = finite(samples, "samples"), finite(y, "y")
    if drawn.ndim != 2 or y.ndim != 1 or drawn.shape[1:] != y.shape or not drawn.size:
        raise ValueError(f"samples must be (draws, rows) and y (rows,), got {drawn.shape} and {y.shape}.")
    fig, ax = single(ax, 5.4, 4.6)
    held = observed(drawn, y)
    off = 1.96 * np.sqrt(LEVELS * (1 - LEVELS) / len(y))
    ax.fill_between(LEVELS, LEVELS - off, LEVELS + off, color=GREY, alpha=0.25, linewidth=0, label="well calibrated, 95 %")
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2)
    ax.plot(LEVELS, held, "o-", color=PALETTE[0], markersize=4, label="observed")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    in_percent(ax.xaxis, decimals=0)
    in_percent(ax.yaxis, decimals=0)
    style(ax, "central interval", "rows within", f"{len(y):,} rows, mean distance {np.abs(held - LEVELS).mean():.1%}")
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    return fig


def observed(samples: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The share of rows within each central interval of `LEVELS`: those of |2 F(y) - 1| at or below its level.

    F = (below + part (equal + 1)) / (draws + 1): of n draws from the law of y itself, y has each of the n + 1 places among them
    alike often, and within its place, as among draws that equal it, it lies at random. F is uniform then, however few draws
    there are, and of whole numbers too (Czado, Gneiting & Held 2009). The random parts are the same at every call.
    """
    below, equal = (samples < y).sum(axis=0), (samples == y).sum(axis=0)
    part = np.random.default_rng(PARTS).uniform(size=len(y))
    rank = (below + part * (equal + 1)) / (len(samples) + 1)
    return (np.abs(2.0 * rank - 1.0)[:, None] <= LEVELS).mean(axis=0)


def uncertainty_parts(parts: Any, unit: str = "", ax: Axes | None = None) -> Figure:
    """Rows from the surest to the least sure, each with its aleatoric and, on top of it, its epistemic part.

    Args:
        parts: as `bayesprune.uncertainty` gives them, (rows,) each; of several outputs one of them.
        unit: of the parts, for the axis: "nats" of labels, of numbers the square of y's unit.
        ax: axes of your own to draw into.

    Raises:
        ValueError: parts of other shapes, or not finite.

    Example:
        >>> import bayesprune as bp
        >>> parts = bp.Uncertainty(np.array([3.0, 1.0]), np.array([1.0, 0.5]), np.array([2.0, 0.5]))
        >>> [area.get_label() for area in uncertainty_parts(parts).axes[0].collections]
        ['aleatoric', 'epistemic']
    """
    total, aleatoric = finite(parts.total, "parts.total"), finite(parts.aleatoric, "parts.aleatoric")
    if total.ndim != 1 or total.shape != aleatoric.shape or not total.size:
        raise ValueError(
            f"parts must be (rows,) each, got {np.shape(total)} and {np.shape(aleatoric)}: of several outputs take one, as in "
            "bp.Uncertainty(*(part[:, 0] for part in parts))."
        )
    fig, ax = single(ax)
    order = np.argsort(total, kind="stable")
    edges = np.arange(total.size + 1) / total.size  # each row has its part of the width, so that one row is seen, too
    whole, noise = (np.append(part[order], part[order[-1]]) for part in (total, aleatoric))
    look: dict[str, Any] = {"alpha": 0.85, "linewidth": 0, "step": "post"}
    ax.fill_between(edges, 0.0, noise, color=PALETTE[0], label="aleatoric", **look)
    ax.fill_between(edges, noise, whole, color=PALETTE[1], label="epistemic", **look)
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    style(ax, "rows, from the surest to the least sure", f"uncertainty ({unit})" if unit else "uncertainty")
    ax.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return fig
