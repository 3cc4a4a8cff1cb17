"""Why rows are predicted as they are: what each input adds to the predictions.

Taken in by `bayesprune.report.plots`, which says what all figures have in common.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesprune.core.checks import check_integer
from bayesprune.report.inputs import ArrayLike, finite
from bayesprune.report.plots_style import GREY, PALETTE, Axes, Figure, single, style

MOST_BINS, HALF_HEIGHT = 30, 0.38
NO_DATE = float(np.iinfo(np.int64).min)  # what pandas and NumPy make of NaT where dates are made numbers


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
