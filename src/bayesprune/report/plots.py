"""Figures of a fit. Each function returns a matplotlib ``Figure`` of its own and leaves no global state, so it runs headless.

Single-panel figures take ``ax``, an axes of your own to draw into, and return its figure; the others take ``fig``, a figure or
a subfigure of your own, and return it. Import this module only when a figure is wanted: nothing else needs matplotlib.
"""

import os
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np

from bayesprune.core.checks import check_site
from bayesprune.core.files import write_atomically
from bayesprune.core.numbers import without_mask
from bayesprune.report.inputs import ArrayLike, finite, recorded, truth_values
from bayesprune.report.plots_calibration import coverage_diagram, reliability_diagram, uncertainty_parts
from bayesprune.report.plots_first_layer import first_layer_heatmap
from bayesprune.report.plots_inputs import inclusion_map, reasons, selection_roc
from bayesprune.report.plots_masks import connected_inputs, density_and_acts, exchanged_share, pruned_share, wandering
from bayesprune.report.plots_style import (
    BLACK,
    GREY,
    PALETTE,
    SIGNED,
    Axes,
    Figure,
    FigureBase,
    ScaledTranslation,
    few_decades,
    in_order,
    in_percent,
    legend_beside,
    legend_of_sites,
    marks_of,
    over_steps,
    several,
    shortened,
    single,
    style,
)
from bayesprune.report.sparsity import used_of

MAX_CURVE_POINTS = 1000
STEEP = 20.0  # times the least loss, or what the later half spans: one that falls from further is on a logarithmic axis
FEW_WEIGHTS = 0.03  # of the largest array's: those of fewer do not decide what the scale of `loc_cdf` is
MOST_AT_ZERO = 0.5  # share of the weights, up to which the scale of `loc_cdf` begins at 0
SMALLEST_SHOWN = 1e-6
BELOW = 0.5  # inches from an axis to a legend under its label

__all__ = [
    "BLACK",
    "GREY",
    "PALETTE",
    "SIGNED",
    "connected_inputs",
    "coverage_diagram",
    "density_and_acts",
    "density_per_layer",
    "exchanged_share",
    "first_layer_heatmap",
    "inclusion_map",
    "loc_cdf",
    "pruned_share",
    "reasons",
    "reliability_diagram",
    "save",
    "selection_roc",
    "training_curves",
    "uncertainty_parts",
    "wandering",
]
__dir__ = __all__.copy  # what completion offers

Mask = Mapping[str, ArrayLike]


def training_curves(
    losses: ArrayLike,
    history: Mapping[str, Any],
    fig: FigureBase | None = None,
    evaluated_on: str = "",
    kl_weight: ArrayLike | None = None,
) -> FigureBase:
    """The loss, and beside it every metric that was recorded, over training steps.

    ``losses``: (num_steps,), negative ELBO of the whole data set in nats; pale, single steps, and dark, medians of blocks of
    steps. ``history``: may hold ``eval/step`` and ``eval/<metric>``, each (evaluations,); of ``prune/step`` the steps at which
    weights were cut are marked by ticks at the foot. ``evaluated_on``: the rows that the metrics are of, such as "the test
    set", for the title. ``kl_weight``: (num_steps,), the divergence's weight in what was minimised, shown where it varies:
    the losses are the bound itself, of weight 1.
    """
    losses = np.asarray(without_mask(losses, "losses"), np.float64)
    if losses.ndim != 1 or losses.size == 0:
        remedy = " of several chains draw one, losses[0], or their mean, losses.mean(0)" if losses.ndim == 2 else " train first"
        raise ValueError(f"losses must have shape (num_steps,) and hold something, got {losses.shape}:{remedy}.")
    metrics = [k for k in history if k.startswith("eval/") and k != "eval/step" and np.size(history[k])]
    columns = min(1 + len(metrics), 3)
    rows = -(-(1 + len(metrics)) // columns)
    fig = several(fig, 4.2 * columns, 3.3 * rows)
    axes = fig.subplots(rows, columns, squeeze=False).ravel()
    _loss_panel(axes[0], losses, _cuts(history))
    if kl_weight is not None:
        _weight_in(axes[0], np.asarray(kl_weight, np.float64), len(losses))
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(frameon=False, fontsize=9, loc="best" if kl_weight is None else "center right")
    for ax, key in zip(axes[1:], metrics, strict=False):
        name = key.removeprefix("eval/")
        ax.plot(recorded(history, "eval/step"), history[key], color=PALETTE[0], marker="o", markersize=3.5, clip_on=False)
        style(ax, "training step", {"nll": "nll (nats per row)", "ece": "ece (15 equal-width bins)"}.get(name, name))
        over_steps(ax, len(losses))
    for ax in axes[1 + len(metrics) :]:
        ax.set_visible(False)
    if evaluated_on:
        fig.suptitle(f"ELBO of the training rows{f'; metrics of {evaluated_on}' if metrics else ''}", fontsize=11)
    return fig


def _cuts(history: Mapping[str, Any]) -> np.ndarray:
    """The steps at which weights were cut; all of a history that does not say how many."""
    step = np.asarray(history.get("prune/step", []))
    return step[np.asarray(history.get("prune/num_pruned", np.ones(step.shape))) > 0]


def _weight_in(ax: Axes, weight: np.ndarray, num_steps: int) -> None:
    """The weight of the divergence on an axis of its own, to the right, where it varies."""
    if weight.shape != (num_steps,):
        raise ValueError(f"kl_weight must be (num_steps,) = ({num_steps},) as the losses are, got {weight.shape}.")
    if np.ptp(weight) == 0:
        return
    right, look = ax.twinx(), {"color": PALETTE[2], "linestyle": "--", "linewidth": 1.4}
    right.plot(np.arange(num_steps) + 1, weight, **look)
    right.set_ylim(0, 1.05 * weight.max())
    right.set_ylabel("KL weight", color=PALETTE[2])
    right.tick_params(axis="y", colors=PALETTE[2])
    right.spines["top"].set_visible(False)
    ax.plot([], [], label="KL weight", **look)


def _loss_panel(ax: Axes, losses: np.ndarray, prune_steps: np.ndarray) -> None:
    step = np.arange(len(losses)) + 1
    thin = slice(None, None, max(1, len(losses) // MAX_CURVE_POINTS))
    ax.plot(step[thin], losses[thin], color="#B5CDE0", linewidth=0.7)
    at, middle = _medians(losses)
    ax.plot(at, middle, color=PALETTE[0], linewidth=1.6, clip_on=len(at) > 1, **marks_of(middle))
    style(ax, "training step", "negative ELBO (nats)", "" if len(at) else "no loss is finite")
    _scale_losses(ax, losses[np.isfinite(losses)])
    over_steps(ax, len(losses))
    if prune_steps.size:
        foot = ax.get_xaxis_transform()
        ax.plot(prune_steps, np.full(len(prune_steps), 0.015), "|", color=PALETTE[1], transform=foot, label="weights cut")


def _medians(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of blocks of steps the middle, and the median of the losses that are finite; a block without any is left out."""
    size = max(1, len(losses) // 200, min(10, len(losses) // 10))
    blocks = [(at, losses[at : at + size]) for at in range(0, len(losses), size)]
    known = [(at + (len(one) + 1) / 2, np.median(one[np.isfinite(one)])) for at, one in blocks if np.isfinite(one).any()]
    return np.array([at for at, _ in known]), np.array([middle for _, middle in known])


def _scale_losses(ax: Axes, losses: np.ndarray) -> None:
    """Logarithmic where losses fall far; where they end below zero, linear about what the later half spans."""
    if not losses.size:
        return
    lowest, reach = losses.min(), float(np.quantile(np.abs(losses[len(losses) // 2 :]), 0.95))
    if lowest > 0 and losses.max() > STEEP * lowest:
        ax.set_yscale("log")
        few_decades(ax.yaxis)
    elif lowest <= 0 < reach and losses.max() > STEEP * reach:
        ax.set_yscale("symlog", linthresh=reach)


def loc_cdf(posterior: Mapping[str, Any], mask: Mask | None = None, ax: Axes | None = None) -> Figure:
    """For each layer, the share of weights whose absolute posterior mean is at most x; zeros show at the left edge.

    ``posterior``: {site: MeanField}; with ``mask``, {site: booleans}, dead weights count as exactly zero.
    Source: after Markovic et al. 2024, figure 3.
    """
    if mask and not mask.keys() & posterior.keys():
        raise ValueError(
            f"mask has no site of the posterior: it is of {', '.join(sorted(mask))}, the posterior of "
            f"{', '.join(sorted(posterior))}."
        )
    size = {s: np.sort(np.abs(_alive_or_zero(posterior[s].loc, s, mask)).ravel()) for s in in_order(list(posterior))}
    positive = [v[v > 0] for v in size.values() if (v > 0).any()]
    if not positive:
        raise ValueError("posterior has no weight whose mean differs from zero: is the mask empty, or the fit untrained?")
    left, right = min(np.quantile(v, 0.01) for v in positive) / 2, max(v[-1] for v in positive) * 1.5
    # Weights that nothing depends on any more shrink without end: what lies further left is counted at the edge.
    left = max(left, right * SMALLEST_SHOWN)
    x = np.geomspace(left, right, MAX_CURVE_POINTS)
    curves = {site: (x, np.searchsorted(v, x, side="right") / len(v)) for site, v in size.items()}
    fig, ax = single(ax)
    legend_of_sites(ax, curves, drawstyle="steps-post")
    ax.set_xscale("log")
    ax.set_xlim(left, right)
    few_decades(ax.xaxis)
    style(ax, _loc_label(posterior), "share of weights at or below")
    # Of a pruned network nearly all is at zero: what is left of the arrays that have most weights has most of the height then.
    largest = max(map(len, size.values()))
    lowest = min(float(curves[site][1][0]) for site, v in size.items() if len(v) > FEW_WEIGHTS * largest)
    room = 1.0 if lowest < MOST_AT_ZERO else 1.5 * max(1.0 - lowest, 0.01)
    ax.set_ylim(1.0 - room, 1.0 + 0.02 * room)
    in_percent(ax.yaxis)
    legend_beside(ax, len(curves))
    return fig


def _loc_label(posterior: Mapping[str, Any]) -> str:
    own_units = all(np.all(np.asarray(node.unit) == 1) for node in posterior.values())
    return "|posterior mean|" + ("" if own_units else " (in units of the prior's scale)")


def _alive_or_zero(loc: ArrayLike, site: str, mask: Mask | None) -> np.ndarray:
    values = finite(loc, f"posterior[{site!r}].loc")
    if not mask or site not in mask:
        return values
    check_site("mask", site, mask[site], {site: values.shape})
    return np.where(truth_values(mask[site], f"mask[{site!r}]"), values, 0.0)


def density_per_layer(mask: Mask, ax: Axes | None = None, connected: Mask | None = None) -> Figure:
    """The share of alive weights of every prunable tensor as bars, with the counts written beside them.

    ``mask``: {site: booleans, True = alive}. ``connected``: what `bayesprune.connected` makes of it, the weights that are in
    use; their share is shown within the bars, and their counts in the place of the others.
    """
    if not mask:
        raise ValueError("mask is empty, so that nothing was pruned: fit with a sparsifier, or give pruned.mask.")
    sites = in_order(list(mask))
    alive = [truth_values(mask[s], f"mask[{s!r}]") for s in sites]
    share = np.array([a.mean() for a in alive])
    fig, ax = single(ax, 6.4, 1.3 + 0.32 * len(sites))
    place = np.arange(len(sites))
    ax.barh(place, np.ones(len(sites)), color="#EFEFEF")
    counted, title = alive, f"{_share(alive):.2%} alive"
    ax.barh(place, share, color=PALETTE[0] if connected is None else "#B5CDE0", label="alive")
    if connected is not None:
        used = used_of({s: connected[s] for s in sites if s in connected}, dict(zip(sites, alive, strict=True)))
        counted = [used[s] for s in sites]
        title = f"{title}, {_share(counted):.2%} in use"
        ax.barh(place, [one.mean() for one in counted], color=PALETTE[0], label="in use")
        root = ax.get_figure(root=True)
        foot = ax.transAxes + ScaledTranslation(0, -BELOW, root.dpi_scale_trans)
        look = {"frameon": False, "fontsize": 9, "loc": "upper center", "ncols": 2}
        ax.legend(bbox_to_anchor=(0.5, 0.0), bbox_transform=foot, **look)
    for i, a in enumerate(counted):
        note = {"textcoords": "offset points", "va": "center", "fontsize": 9, "color": BLACK}
        few = 0 < a.mean() < 0.001
        ax.annotate(f"{100 * a.mean():.2g}%" if few else f"{a.mean():.1%}", (1, i), (42, 0), ha="right", **note)
        ax.annotate(f"{int(a.sum()):,} of {a.size:,}", (1, i), (50, 0), **note)
    style(ax, "alive share of the prunable weights" if connected is None else "share of the prunable weights", "", title)
    ax.set_yticks(place, shortened(sites))
    ax.set_ylim(len(sites) - 0.4, -0.6)
    ax.grid(False, axis="y")
    ax.set_xlim(0, 1)
    in_percent(ax.xaxis)
    return fig


def _share(masks: list[np.ndarray]) -> float:
    return sum(int(alive.sum()) for alive in masks) / sum(alive.size for alive in masks)


def save(fig: FigureBase, path: str | os.PathLike[str]) -> None:
    """Write ``fig`` to ``path`` as a PNG of 150 dots per inch, whole or not at all; ``OSError`` names path and remedy.

    A subfigure is written with the whole figure that it is a part of.
    """
    buffer = BytesIO()
    fig.get_figure(root=True).savefig(buffer, format="png", dpi=150)
    write_atomically(path, buffer.getvalue())
