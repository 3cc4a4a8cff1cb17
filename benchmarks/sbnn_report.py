"""The table and the figures of `reproduce_sbnn.py`."""

from pathlib import Path

import numpy as np

import bayesprune as bp
from bayesprune import cells

FUNCTIONS = ("linear", "nonlinear")
RULES = ("min", "one_standard_error")


def experiments(found: cells.Found) -> str:
    """Ours beside the paper's."""
    rows = [_influence_row(_of(found, "influence"))]
    for num_features, what in ((100, "D = 100, spike .05"), (20, "D = 20, spike .3")):
        rows += [_graded_row(_of(found, "graded", num_features), function, what) for function in FUNCTIONS]
    rows += [_selection_row(num_features, _of(found, "selection", num_features)) for num_features in (100, 20, 50, 200)]
    rows += [row for rule in RULES for row in _threshold_rows(_of(found, "threshold"), rule)]
    return cells.table(["experiment", "what", "ours", "paper"], rows, "llll")


def _of(found: cells.Found, experiment: str, num_features: int = 0) -> cells.Record | None:
    return next((r for cell, r in found.items() if (cell.experiment, cell.num_features) == (experiment, num_features)), None)


def _influence_row(r: cells.Record | None) -> list[str]:
    what = f"correlation of I with psi_1, psi_2 (with psi_j / sum), mean of {len(r['psi']) if r else 0} sets"
    if r is None:
        return ["1", what, "missing", "almost linear"]
    words = ", ".join(f"{value:+.3f}" for value in r["correlations"])
    relative = ", ".join(f"{value:+.3f}" for value in r["correlations_relative"])
    each = ", ".join(f"{pair[1]:+.2f}" for pair in r["each_relative"])
    return ["1", what, f"{words} ({relative}; psi_2 / sum set by set {each})", "almost linear"]


def _graded_row(r: cells.Record | None, function: str, what: str) -> list[str]:
    figures = "missing"
    if r is not None:
        of = [c for one, c in zip(r["sets"], r["correlations"], strict=True) if one[0] == function]
        figures = f"{np.mean(of):.3f} ({min(of):.3f} to {max(of):.3f}, {len(of)} sets)"
    return ["2", f"correlation of importance with effect, {function}, {what}", figures, ".90 to .95"]


def _selection_row(num_features: int, r: cells.Record | None) -> list[str]:
    what = f"accuracy of the top fifth, D = {num_features}"
    if r is None:
        return ["3", what, "missing", "about 90 %"]
    alphas = ", ".join(map(str, sorted({one[0] for one in r["sets"]})))
    best = np.mean(r["best_accuracy_of_the_count"])
    figures = f"{100 * np.mean(r['accuracy']):.1f} % (at most {100 * best:.1f} % with that count); {_errors(r, '')}"
    return ["3", f"{what}, alpha {alphas}", figures, "about 90 %"]


def _threshold_rows(r: cells.Record | None, rule: str) -> list[list[str]]:
    pairs = figures = "missing"
    if r is not None:
        shares = zip(r[f"{rule}/true_share"], r[f"{rule}/detected"], strict=True)
        pairs = ", ".join(f"{t:.2f} → {d:.1f}" for t, d in shares)
        figures = ", ".join(f"{100 * a:.0f}" for a in r[f"{rule}/accuracy"]) + f"; {_errors(r, f'{rule}/')}"
    return [
        ["3", f"true share → by cross-validation ({rule})", pairs, "near the diagonal"],
        ["3", "accuracy with it, %", figures, "above 80 %"],
    ]


def _errors(r: cells.Record, prefix: str) -> str:
    networks = ("all inputs", "selected", "linear model")
    return "test RMSE " + ", ".join(f"{name} {np.mean(r[f'{prefix}test_rmse/{name}']):.3f}" for name in networks)


def draw(found: cells.Found, folder: Path) -> None:
    """importance.png: experiments 1 and 2; share.png: detected against true share."""
    first, second, third = _of(found, "influence"), _of(found, "graded", 20), _of(found, "threshold")
    if first and second:
        draw_importance(first, second, folder / "importance.png")
    if third:
        draw_shares(third, folder / "share.png")


def draw_importance(first: cells.Record, second: cells.Record, path: Path) -> None:
    """Experiment 1: shares of the importance against influence. Experiment 2: correlations against alpha."""
    plots = bp.plots
    fig = plots.figure(9.0, 3.6)
    left, right = fig.subplots(1, 2)
    shares, psi = np.array(first["influence"]), np.array(first["psi"])
    relative = psi / psi.sum(axis=2, keepdims=True)
    for j, colour in enumerate(plots.PALETTE[:2]):
        left.plot(shares.ravel(), relative[..., j].ravel(), "o", markersize=2.5, alpha=0.35, color=colour)
        left.plot(shares.mean(0), relative[..., j].mean(0), "-", color=colour, label=f"$\\psi_{j + 1}$ / sum, mean of sets")
    left.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    plots.style(left, "influence I of the second input", "share of the importance")
    for function, colour, shift in zip(FUNCTIONS, plots.PALETTE, (-0.12, 0.12), strict=False):
        pairs = zip(second["sets"], second["correlations"], strict=True)
        of = [(one[1] + shift, c) for one, c in pairs if one[0] == function]
        right.plot(*zip(*of, strict=True), "o", markersize=4, color=colour, label=function)
    right.axhline(0.9, color=plots.GREY, linewidth=0.8)
    right.set_ylim(0, 1)
    right.legend(frameon=False, loc="lower left")
    plots.style(right, "α (larger: less signal)", "correlation with the effects")
    plots.save(fig, path)


def draw_shares(r: cells.Record, path: Path) -> None:
    """Shares of active inputs: detected against true."""
    plots = bp.plots
    fig = plots.figure(4.4, 3.8)
    ax = fig.subplots()
    ax.plot((0, 1), (0, 1), color=plots.GREY, linewidth=0.8)
    for rule, colour, mark, size in zip(RULES, plots.PALETTE, "os", (10, 5), strict=False):  # where both agree, both show
        label = {"min": "least error"}.get(rule, rule.replace("_", " "))
        ax.plot(r[f"{rule}/true_share"], r[f"{rule}/detected"], mark, color=colour, markersize=size, label=label)
    ax.legend(frameon=False)
    plots.style(ax, "true share of active inputs", "share by cross-validation")
    plots.save(fig, path)
