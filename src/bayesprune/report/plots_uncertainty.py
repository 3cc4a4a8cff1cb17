"""The uncertainty of predictions and its parts, row by row.

Taken in by `bayesprune.report.plots`, which says what all figures have in common.
"""

from typing import Any

import numpy as np

from bayesprune.report.inputs import finite
from bayesprune.report.plots_style import PALETTE, Axes, Figure, single, style


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
