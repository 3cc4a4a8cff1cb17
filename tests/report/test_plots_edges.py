"""Figures of what is at an end: one step, one row, one act, gaps, names of seventy characters, weights in another unit."""

import importlib
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import bayesprune as bp
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.report import plots
from bayesprune.report.plots_of_a_fit import _image_shape
from bayesprune.report.plots_style import several, shortened, single

RNG = np.random.default_rng(0)
NAMES = [f"Transformer.encoderblock_{i}.MultiHeadDotProductAttention_1.query.kernel" for i in range(4)]


def test_medians_are_of_all_steps_and_lie_in_their_middle() -> None:
    x, y = plots.training_curves(np.arange(1.0, 200.0), {}).axes[0].lines[1].get_data()
    np.testing.assert_array_equal(x, y)  # the loss of step s is s
    assert x[0] == 5.5 and x[-1] == 195.0  # of steps 1 to 10, and of 191 to 199


def test_losses_that_are_not_finite_leave_the_others_of_their_block() -> None:
    losses = np.ones(200)
    losses[::10] = np.nan
    assert np.array_equal(plots.training_curves(losses, {}).axes[0].lines[1].get_ydata(), np.ones(20))
    assert plots.training_curves(np.full(5, np.nan), {}).axes[0].get_title() == "no loss is finite"


@pytest.mark.parametrize(
    ("losses", "scale"),
    [([100.0, 2.0, 1.0], "log"), ([3.0, 2.0, 1.0], "linear"), ([1e6, -30.0, -31.0], "symlog"), ([5.0, -30.0, -31.0], "linear")],
)
def test_the_scale_of_losses_shows_their_end(losses: list[float], scale: str) -> None:
    assert plots.training_curves(np.array(losses), {}).axes[0].get_yscale() == scale


def test_a_curve_of_one_point_has_a_marker() -> None:
    history = {"prune/step": [500], "prune/density": [0.5], "prune/density/a": [0.4], "prune/num_alive": [500]}
    history |= {"prune/num_connected": [450], "prune/num_pruned": [50], "prune/num_proposed": [55]}
    top, foot = plots.density_and_acts(history, 1000).axes
    assert all(line.get_marker() not in ("", "None") for line in top.lines)
    top.figure.canvas.draw()
    low, high = foot.get_ylim()
    assert any(label.get_text() and low <= label.get_position()[1] <= high for label in foot.get_yticklabels())
    assert plots.training_curves(np.array([3.0]), {}).axes[0].lines[1].get_marker() == "o"
    assert all(line.get_marker() == "o" for line in plots.pruned_share(history).axes[0].lines)


def test_one_row_has_all_of_the_width() -> None:
    parts = bp.Uncertainty(np.array([1.5]), np.array([1.0]), np.array([0.5]))
    for area in plots.uncertainty_parts(parts).axes[0].collections:
        across = area.get_paths()[0].vertices[:, 0]
        assert across.min() == 0.0 and across.max() == 1.0


def test_long_names_leave_the_axes_room() -> None:
    history = {"prune/step": np.array([1, 2]), "prune/density": np.array([0.9, 0.5])}
    history |= {f"prune/density/{name}": np.array([0.9, 0.5]) for name in NAMES}
    mask = {name: RNG.random((8, 8)) < 0.5 for name in NAMES}
    for figure in (plots.pruned_share(history), plots.density_and_acts(history), plots.density_per_layer(mask, connected=mask)):
        figure.canvas.draw()
        assert figure.axes[0].get_position().width > 0.4
    assert shortened(NAMES) == [f"….encoderblock_{i}.…" for i in range(4)]
    assert shortened([NAMES[0]]) == [f"…{NAMES[0][-30:]}"] and shortened(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize("sites", [1, 2, 9])
@pytest.mark.parametrize("own", [False, True], ids=["new", "mine"])
def test_all_that_is_written_of_few_layers_lies_within_the_figure(sites: int, own: bool) -> None:
    mask = {f"layer_{number}": np.ones((4, 4), bool) for number in range(sites)}
    panel = Figure(figsize=(9, 9), layout="constrained").subplots(2, 2)[0, 1] if own else None
    figure = plots.density_per_layer(mask, panel, {name: ~alive for name, alive in mask.items()})
    ax = panel or figure.axes[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a layout that has no room
        figure.draw_without_rendering()
    edges = figure.bbox.padded(1)
    for part in (ax.xaxis.label, ax.title, ax.get_legend(), *ax.texts, *ax.get_yticklabels()):
        box = part.get_window_extent()
        assert edges.x0 <= box.x0 and box.x1 <= edges.x1 and edges.y0 <= box.y0 and box.y1 <= edges.y1
    assert ax.get_legend().get_window_extent().y1 <= ax.xaxis.label.get_window_extent().y0 + 3


def test_the_legend_of_bars_is_below_them() -> None:
    mask = {"kernel": np.ones((2, 2), bool)}
    figure = plots.density_per_layer(mask, connected=mask)
    figure.canvas.draw()
    assert figure.axes[0].get_legend().get_window_extent().y1 < figure.axes[0].xaxis.label.get_window_extent().y0


def test_few_weights_of_many_do_not_read_as_none() -> None:
    alive = np.zeros(1_000_000, bool)
    alive[:197] = True
    assert [note.get_text() for note in plots.density_per_layer({"w": alive}).axes[0].texts] == ["0.02%", "197 of 1,000,000"]


def test_the_heatmap_of_a_node_is_of_its_weights() -> None:
    """Of loc in units of the prior's scale the picture is that of loc times the unit."""
    loc, unit = RNG.standard_normal((5, 3)), 0.1
    of_node = plots.first_layer_heatmap(MeanField(loc, np.ones((5, 3)), unit=unit))
    of_weights = plots.first_layer_heatmap(unit * loc)
    assert of_node.axes[-1].get_ylim() == of_weights.axes[-1].get_ylim() != plots.first_layer_heatmap(loc).axes[-1].get_ylim()


def test_columns_of_a_table_are_no_pixels() -> None:
    node = MeanField(np.ones((16, 8)), np.ones((16, 8)))
    assert _image_shape((16,), node) == () and _image_shape((4, 4, 1), node) == (4, 4, 1)
    ax = plots.first_layer_heatmap(node, image_shape=()).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("features", "inputs")


def test_a_heatmap_of_nothing_in_use_says_so() -> None:
    assert (
        "none of 5 features in use: all shown" in plots.first_layer_heatmap(np.ones((9, 5)), in_use=np.zeros(5)).get_suptitle()
    )


def test_nobody_alive_exchanges_nothing() -> None:
    history = {"prune/step": [5, 10], "prune/num_grown": [3, 0], "prune/num_alive": [6, 0]}
    assert plots.exchanged_share(history).axes[0].lines[0].get_ydata().tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: plots.connected_inputs(np.ones((13, 4), bool)), r"13 inputs: give image_shape= .* such as \(1, 13\)"),
        (lambda: plots.inclusion_map(RNG.random((5, 3)), np.array([0, 2])), r"np.isin\(np.arange\(size\), places\)"),
        (lambda: plots.training_curves(np.ones((2, 10)), {}), r"losses\[0\], or their mean"),
        (lambda: plots.density_per_layer({}), "nothing was pruned"),
        (lambda: bp.metrics.summary(np.array([[3.0, 4.0]]), np.array([0])), "numbers have bayesprune.evaluate"),
    ],
)
def test_messages_name_the_remedy(draw: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        draw()


def test_axes_and_figures_are_not_mixed_up() -> None:
    figure = Figure()
    ax = figure.add_subplot()
    with pytest.raises(TypeError, match="fig must be a matplotlib figure or subfigure, got Axes"):
        several(ax, 1.0, 1.0)
    with pytest.raises(TypeError, match="ax must be matplotlib axes, got Figure"):
        single(figure)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "bayesprune.report.plots_style")
    with pytest.raises(ImportError, match=r"figures need matplotlib: pip install"):
        importlib.import_module("bayesprune.report.plots_style")
