"""Figures of a selection of inputs: what the first layer includes, and how well a score tells what matters from what does not.

Taken in by `bayesprune.report.plots`, which says what all figures have in common.
"""

from collections.abc import Mapping

import numpy as np

from bayesprune.report.inputs import ArrayLike, finite, truth_values
from bayesprune.report.plots_style import DASHES, GREY, PALETTE, Axes, Figure, single, style, whole_numbers

MAX_TICKS = 20
MANY = 4  # scores, whose legend would cover the curves


def inclusion_map(probabilities: ArrayLike, relevant: ArrayLike | None = None, ax: Axes | None = None) -> Figure:
    """The inclusion probabilities of a dense layer as a picture: one row a unit, one column an input.

    Args:
        probabilities: (inputs, units), in [0, 1]; of a `SpikeSlab` node, the logistic function of its ``logit``.
        relevant: (inputs,) booleans; the inputs that truly matter are marked above the picture.
        ax: axes of your own to draw into.

    Raises:
        ValueError: probabilities of another shape, not finite or outside [0, 1]; ``relevant`` not one boolean an input.

    Example:
        >>> inclusion_map(np.array([[0.9, 0.1], [0.0, 0.2]]), np.array([True, False])).axes[0].get_xlabel()
        'input'
    """
    p = finite(probabilities, "probabilities")
    bounds = f" with values from {p.min():.4g} to {p.max():.4g}: a logit goes through jax.nn.sigmoid first" if p.size else ""
    if p.ndim != 2 or p.size == 0 or p.min() < 0 or p.max() > 1:
        raise ValueError(f"probabilities must be (inputs, units), all in [0, 1], got shape {p.shape}{bounds}.")
    fig, ax = single(ax, 7.4, float(np.clip(1.5 + 0.16 * p.shape[1], 2.0, 6.0)))
    shown = ax.imshow(p.T, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    ax.set(xlabel="input", ylabel="unit")
    whole_numbers(ax.xaxis)
    if p.shape[1] <= MAX_TICKS:
        ax.set_yticks(np.arange(0, p.shape[1], 1 + p.shape[1] // 8))
    fig.colorbar(shown, ax=ax, label="inclusion\nprobability", ticks=(0, 0.5, 1))
    if relevant is not None:
        true = truth_values(relevant, "relevant")
        if true.shape != p.shape[:1]:
            raise ValueError(f"relevant must have one boolean an input, {p.shape[:1]}, got {true.shape}.")
        at = np.flatnonzero(true)
        marks = {"color": PALETTE[1], "markersize": 6, "clip_on": False, "transform": ax.get_xaxis_transform()}
        ax.plot(at, np.full(len(at), 1.04), "v", label="matters in truth", **marks)
        ax.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1.0, 1.03), handletextpad=0.2)
    return fig


def selection_roc(scores: Mapping[str, ArrayLike], relevant: ArrayLike, ax: Axes | None = None) -> Figure:
    """ROC curves of scores that are to tell relevant inputs from others: power over false positive rate, all cuts.

    Args:
        scores: name -> (inputs,) or (replications, inputs), higher means more relevant. Replications are averaged at equal
            false positive rate; the legend has the mean of the areas under their curves.
        relevant: booleans of the same shape, or (inputs,) for all replications.
        ax: axes of your own to draw into.

    Raises:
        ValueError: no scores; shapes that do not fit; scores that are not finite; a truth with nothing relevant, or all of it.

    Example:
        >>> selection_roc({"norm": np.array([2.0, 0.1])}, np.array([True, False])).axes[0].get_xlabel()
        'false positive rate'

    Source: Fawcett (2006), algorithms 1 and 3, for ties and for averaging.
    """
    if not scores:
        raise ValueError("scores is empty: give at least one, name -> array of the inputs' scores.")
    true = np.atleast_2d(truth_values(relevant, "relevant"))
    if (true.all(axis=-1) | ~true.any(axis=-1)).any():
        raise ValueError("relevant must have both kinds of inputs: without one of them no curve is defined.")
    many = len(scores) > MANY
    fig, ax = single(ax, 8.8 if many else 4.8, 4.4)
    grid = np.linspace(0, 1, 401)
    for i, (name, values) in enumerate(scores.items()):
        rows = np.atleast_2d(finite(values, f"scores[{name!r}]"))
        if rows.ndim != 2 or rows.shape[1:] != true.shape[1:] or len(true) not in (1, len(rows)):
            raise ValueError(f"scores[{name!r}] must fit relevant's shape {np.shape(relevant)}, got {np.shape(values)}.")
        curves = [_curve(s, t) for s, t in zip(rows, np.broadcast_to(true, rows.shape), strict=True)]
        area = np.mean([np.trapezoid(up, along) for along, up in curves])
        mean = np.mean([_at(grid, *curve) for curve in curves], axis=0)
        look = {"color": PALETTE[i % len(PALETTE)], "linestyle": DASHES[i % 3], "linewidth": 1.8}
        ax.plot([0, *grid], [0, *mean], label=f"{name} (area {area:.3f})", clip_on=False, **look)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle=":", label="chance")
    style(ax, "false positive rate", "power (true positive rate)")
    ax.set(xlim=(0, 1), ylim=(0, 1.02))
    beside = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if many else {"loc": "lower right"}
    ax.legend(frameon=False, fontsize=9, **beside)
    return fig


def _curve(scores: np.ndarray, relevant: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners of one ROC curve from (0, 0) to (1, 1); inputs of equal score enter together, on a slant."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    hits = np.cumsum(relevant[order])[ends]
    misses = ends + 1 - hits
    return np.append(0.0, misses / misses[-1]), np.append(0.0, hits / hits[-1])


def _at(grid: np.ndarray, along: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The height of a curve over ``grid``; where it rises upright, its upper end."""
    here = np.searchsorted(along, grid + 1e-12, side="right") - 1
    there = np.minimum(here + 1, len(along) - 1)
    width = along[there] - along[here]
    share = np.divide(grid - along[here], width, out=np.zeros_like(grid), where=width > 0)
    return up[here] + share * (up[there] - up[here])
