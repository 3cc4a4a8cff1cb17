"""Figures of inputs: which the first layer includes, how well a score tells what matters, and what each adds to predictions.

Taken in by `bayesprune.report.plots`, which says what all figures have in common.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesprune.core.checks import check_integer
from bayesprune.report.inputs import ArrayLike, finite, truth_values
from bayesprune.report.plots_style import DASHES, GREY, PALETTE, Axes, Figure, single, style, whole_numbers

MAX_TICKS = 20
MANY = 4  # scores, whose legend would cover the curves
MOST_BINS, HALF_HEIGHT = 30, 0.38
NO_DATE = float(np.iinfo(np.int64).min)  # what pandas and NumPy make of NaT where dates are made numbers


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
        mean = np.mean([np.interp(grid + 1e-12, *curve) for curve in curves], axis=0)
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


def reasons(
    found: Any,
    names: Sequence[str] | Any | None = None,
    x: ArrayLike | Any | None = None,
    most: int = 12,
    unit: str = "units of y",
    ax: Axes | None = None,
) -> Figure:
    """Inputs from the one that moves predictions most, each row a dot at what the input adds to its prediction.

    The order is that of the mean of |value|, the number beside each name. Inputs that the network does not read are left out.

    Args:
        found: `Reasons`, as ``model.explain(X)`` gives them, values (rows, features); of several outputs one of them.
        names: of the features; left out: their numbers.
        x: (rows, features), the rows that were explained, as numbers: a dot's colour says how its input's value ranks among the
            rows, from blue, the lowest, to orange, the highest. NaN, a date that is missing, and all dots where ``x`` is left
            out, are grey.
        most: inputs that are shown.
        unit: of the values, for the axis.
        ax: axes of your own to draw into.

    Raises:
        ValueError: values of other shapes, or not finite; names or x that do not go with them.

    Example:
        >>> from bayesprune.sklearn.reasons import Reasons
        >>> values = np.array([[1.0, 0.0, -3.0], [0.5, 0.0, 2.0]])
        >>> figure = reasons(Reasons(values, np.zeros(()), 0 * values, 0 * values), ["age", "idle", "dose"])
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['dose  2.5', 'age  0.75']
    """
    values = finite(found.values, "found.values")
    if values.ndim != 2:
        raise ValueError(
            f"found.values must be (rows, features), got {values.shape}: of several outputs or classes take one, as in "
            "found._replace(values=found.values[..., 0])."
        )
    if names is not None and len(names) != values.shape[1]:
        raise ValueError(f"names must be one for each of the {values.shape[1]} features, got {len(names)}.")
    ranks = None if x is None else _ranks(x, values.shape)
    check_integer(most, "most")
    size = np.abs(values).mean(axis=0)
    shown = [place for place in np.argsort(-size, kind="stable")[:most] if size[place] > 0]
    fig, ax = single(ax, 6.8, 1.4 + 0.36 * max(len(shown), 1))
    for height, place in enumerate(shown):
        at = height + HALF_HEIGHT * _spread(values[:, place])
        ax.scatter(values[:, place], at, s=9, linewidths=0, alpha=0.8, c=GREY if ranks is None else _colours(ranks[:, place]))
    labels = [str(place) if names is None else str(names[place]) for place in shown]
    ax.set_yticks(range(len(shown)), [f"{name}  {size[place]:.3g}" for name, place in zip(labels, shown, strict=True)])
    ax.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    ax.axvline(0.0, color=GREY, linewidth=1.0)
    if not shown:
        ax.text(0.5, 0.5, "no input is read", ha="center", va="center", transform=ax.transAxes)
    more = np.count_nonzero(size) - len(shown)
    said = [f"{len(values):,} rows"] + ["blue: low values of the input, orange: high"] * (ranks is not None and bool(shown))
    said += [f"{more} more inputs"] * bool(more)
    style(ax, f"what the input adds to a prediction ({unit})", "", "; ".join(said))
    return fig


def _ranks(x: ArrayLike | Any, shape: tuple[int, ...]) -> np.ndarray:
    """Of each value its place among its column's different ones, 0 to 1; NaN stays."""
    from scipy.stats import rankdata  # takes longer to import than all else here

    x = np.asarray(x, np.float64)
    if x.shape != shape:
        raise ValueError(f"x must be of the rows that were explained, {shape}, got {x.shape}.")
    x = np.where(x == NO_DATE, np.nan, x)
    ranks = rankdata(x, "dense", axis=0, nan_policy="omit") - 1.0
    return ranks / np.fmax.reduce(ranks, axis=0, initial=1.0)


def _colours(ranks: np.ndarray) -> np.ndarray:
    """Between the palette's blue and its orange; grey for NaN."""
    low, high, none = (np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]) for colour in (*PALETTE[:2], GREY))
    share = np.nan_to_num(ranks)[:, None]
    return np.where(np.isnan(ranks)[:, None], none, low + share * (high - low))


def _spread(values: np.ndarray) -> np.ndarray:
    """Heights from -1 to 1 that part dots of like values: those of a bin side by side, the fullest bin the highest."""
    low, high = values.min(), values.max()
    share = (values - low) / (high - low or 1.0)
    bins = np.minimum(share * MOST_BINS, MOST_BINS - 1).astype(int)
    heights, fullest = np.zeros(len(values)), np.bincount(bins).max()
    for one in np.unique(bins):
        rows = np.flatnonzero(bins == one)
        heights[rows] = (np.arange(len(rows)) - (len(rows) - 1) / 2) * 2 / max(fullest, 2)
    return heights
