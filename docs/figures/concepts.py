"""Draw docs/figures/concepts.svg, the picture of docs/concepts.md: `python docs/figures/concepts.py`."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

PARTS, LOOP, DONE, INK = "#DCEAF6", "#FCE8CF", "#DDF0E4", "#222222"
# name: (left, bottom, width, height, what it says, colour)
BOXES = {
    "data": (0.1, 5.0, 2.0, 0.9, "Dataset\n(x, y)", PARTS),
    "bnn": (0.1, 3.0, 2.0, 1.3, "BNN\nnet, prior, likelihood\n(or Program)", PARTS),
    "graph": (0.1, 0.5, 2.0, 1.0, "graph\nread once from the net:\nunits, last layer, norms", PARTS),
    "model": (2.9, 3.0, 1.9, 1.3, "model, guide\nNumPyro callables,\ntheir sites masked", LOOP),
    "estimator": (5.3, 3.0, 1.9, 1.3, "estimator\n\"weight\", \"local\":\nloss and gradient", LOOP),
    "kernel": (7.7, 3.0, 1.9, 1.3, "kernel\noptax or other:\nmoves the parameters", LOOP),
    "sparsifier": (2.9, 0.5, 1.9, 1.0, "sparsifier\nneeds, init, step:\nEvidence -> mask", LOOP),
    "posterior": (7.2, 0.5, 2.55, 1.0, "posterior: site -> node\n(loc, scale, prior_scale, unit)", LOOP),
    "fit": (10.5, 3.0, 2.3, 1.3, "FitResult\nparams, mask,\nlosses, history", DONE),
    "use": (10.5, 4.95, 2.3, 1.0, "predict, evaluate\nsave_fit, plots", DONE),
    "once": (10.5, 0.5, 2.3, 1.0, "bmr_prune, prune_once\nconnected", DONE),
}  # fmt: skip
# (from, side), (to, side), what goes there, where that is written
ARROWS = [
    (("bnn", "right"), ("model", "left"), "", None),
    (("model", "right"), ("estimator", "left"), "", None),
    (("estimator", "right"), ("kernel", "left"), "", None),
    (("bnn", "bottom"), ("graph", "top"), "", None),
    (("graph", "right"), ("sparsifier", "left"), "groups", (2.37, 1.18)),
    (("posterior", "left"), ("sparsifier", "right"), "evidence", (6.0, 1.18)),
    (("kernel", "bottom"), ("posterior", "top"), "read(params)", (9.25, 2.2)),
    (("sparsifier", "top"), ("model", "bottom"), "mask", (4.15, 2.2)),
    (("kernel", "right"), ("fit", "left"), "", None),
    (("fit", "top"), ("use", "bottom"), "", None),
    (("fit", "bottom"), ("once", "top"), "", None),
]
SIDES = {"left": (0.0, 0.5), "right": (1.0, 0.5), "top": (0.5, 1.0), "bottom": (0.5, 0.0)}


def place(name: str, side: str) -> tuple[float, float]:
    """The middle of a box's side."""
    left, bottom, width, height, *_ = BOXES[name]
    along, up = SIDES[side]
    return left + along * width, bottom + up * height


def draw() -> Figure:
    """Boxes, arrows, and a frame around what `fit_svi` compiles into one loop."""
    figure = Figure(figsize=(11.6, 5.4), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-0.1, 13.0), ylim=(0.0, 6.1))
    axes.set_axis_off()
    axes.add_patch(
        FancyBboxPatch((2.65, 0.25), 7.25, 4.6, boxstyle="round,pad=0,rounding_size=0.15", fc="#FFF9F1", ec="#E0A458")
    )
    axes.text(2.9, 4.58, "fit_svi: one compiled loop", ha="left", va="center", fontsize=11, color="#9A5B00")
    for left, bottom, width, height, text, color in BOXES.values():
        box = FancyBboxPatch((left, bottom), width, height, boxstyle="round,pad=0,rounding_size=0.1", fc=color, ec="#666666")
        axes.add_patch(box)
        title, _, rest = text.partition("\n")
        top = bottom + height - 0.26
        axes.text(left + width / 2, top, title, ha="center", va="center", fontsize=10, weight="bold", color=INK)
        axes.text(left + width / 2, (bottom + top) / 2 - 0.06, rest, ha="center", va="center", fontsize=8.5, color=INK)
    for start, end, label, at in ARROWS:
        axes.add_patch(FancyArrowPatch(place(*start), place(*end), arrowstyle="-|>", mutation_scale=13, color="#444444"))
        if at is not None:
            axes.text(*at, label, ha="center", va="center", fontsize=8.5, style="italic", color=INK)
    axes.add_patch(
        FancyArrowPatch(
            (2.1, 5.45), (6.25, 4.3), connectionstyle="angle,angleA=0,angleB=90,rad=8", arrowstyle="-|>", mutation_scale=13,
            color="#444444",
        )
    )  # fmt: skip
    axes.text(4.3, 5.6, "minibatches", ha="center", va="center", fontsize=8.5, style="italic", color=INK)
    return figure


if __name__ == "__main__":
    matplotlib.rcParams["svg.hashsalt"] = "concepts"  # the same bytes at every run
    draw().savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
