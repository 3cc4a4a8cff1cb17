"""Figures: what they show equals what was given, and nothing global is touched."""

import os
import subprocess
import sys

import numpy as np
import pytest

from bayesprune.posteriors.mean_field import MeanField

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from bayesprune.report import plots
from bayesprune.report.plots_first_layer import mosaic

RNG = np.random.default_rng(0)
STEPS = np.array([10, 20, 30])


def history(num_sites=2):
    sites = {f"prune/density/Dense_{i}.kernel": np.array([1.0, 0.5, 0.1 + i / 100]) for i in range(num_sites)}
    return {"prune/step": STEPS, "prune/density": np.array([1.0, 0.6, 0.2])} | sites


def posterior():
    return {"Dense_0.kernel": MeanField(RNG.normal(size=(6, 5)), np.ones((6, 5)))}


def everything():
    mask = {"Dense_0.kernel": RNG.random((6, 5)) < 0.4}
    probs = RNG.dirichlet(np.ones(3), 100)
    return {
        "training": plots.training_curves(np.linspace(900, 1, 300), history() | {"eval/step": STEPS, "eval/nll": STEPS / 30}),
        "short": plots.training_curves(np.array([1.0]), {}),
        "pruned": plots.pruned_share(history()),
        "pruned_many": plots.pruned_share(history(12)),
        "cdf": plots.loc_cdf(posterior(), mask),
        "in_use": plots.first_layer_heatmap(np.ones((9, 4)), in_use=np.arange(4) == 1),
        "heatmap": plots.first_layer_heatmap(RNG.normal(size=(9, 4)), RNG.random((9, 4)) < 0.5),
        "all_pruned": plots.first_layer_heatmap(np.ones((9, 4)), np.zeros((9, 4), bool)),
        "reliability": plots.reliability_diagram(probs, RNG.integers(0, 3, 100)),
        "density": plots.density_per_layer(mask),
    }


@pytest.mark.slow
def test_every_figure_is_a_figure_and_saves_as_png(tmp_path):
    for name, fig in everything().items():
        assert isinstance(fig, Figure)
        plots.save(fig, tmp_path / f"{name}.png")
        head = (tmp_path / f"{name}.png").read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(head[16:20], "big") == round(fig.get_figwidth() * 150)


@pytest.mark.slow
def test_pyplot_is_never_imported_and_metrics_need_no_matplotlib():
    code = (
        "import sys, bayesprune.report.metrics, bayesprune.report.export; assert 'matplotlib' not in sys.modules;"
        "import bayesprune.report.plots; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def test_the_weight_of_the_divergence_has_an_axis_of_its_own_where_it_varies():
    losses, weight = np.linspace(900, 800, 30), np.linspace(0, 1, 30)
    left, right = plots.training_curves(losses, {}, kl_weight=weight).axes
    np.testing.assert_allclose(right.lines[0].get_ydata(), weight)
    assert right.get_ylabel() == "KL weight" and [t.get_text() for t in left.get_legend().get_texts()] == ["KL weight"]
    assert len(plots.training_curves(losses, {}, kl_weight=np.ones(30)).axes) == 1
    with pytest.raises(ValueError, match=r"kl_weight must be .*\(30,\).*got \(3,\)"):
        plots.training_curves(losses, {}, kl_weight=np.ones(3))


def test_steps_that_cut_are_marked_and_rounds_that_cut_nothing_are_not():
    acts = history() | {"prune/num_pruned": np.array([4, 0, 2])}
    marked = {line.get_label(): line for line in plots.training_curves(np.linspace(900, 800, 30), acts).axes[0].lines}
    assert marked["weights cut"].get_xdata().tolist() == [10, 30]


@pytest.mark.parametrize("width", [9, 3.5])
def test_the_legend_of_a_reliability_diagram_stands_outside_of_the_bars(width):
    fig = plots.reliability_diagram(
        np.tile([0.1, 0.9], (10, 1)), np.array([1] * 10), fig=Figure((width, 5), layout="constrained")
    )
    fig.draw_without_rendering()
    (legend,) = [ax.get_legend() for ax in fig.axes if ax.get_legend()]
    assert not any(legend.get_window_extent().overlaps(ax.get_window_extent()) for ax in fig.axes)


def test_pruned_share_draws_one_minus_density():
    ax = plots.pruned_share(history()).axes[0]
    by_label = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_allclose(by_label["all layers"], [0, 0.4, 0.8])
    np.testing.assert_allclose(by_label["Dense_1.kernel"], [0, 0.5, 0.89])


def test_many_layers_get_a_colour_scale_in_numeric_order():
    fig = plots.pruned_share(history(12))
    assert len(fig.axes) == 2
    assert [t.get_text() for t in fig.axes[0].get_legend().get_texts()] == ["all layers"]
    last = [line.get_ydata()[-1] for line in fig.axes[0].lines[1:]]
    assert last == sorted(last, reverse=True)  # Dense_10 comes after Dense_9


def test_cdf_starts_at_the_pruned_share_and_ends_at_one():
    loc = np.concatenate([np.linspace(0.5, 1, 30), -np.linspace(0.5, 1, 20)])
    alive = np.arange(50) % 5 == 0
    ax = plots.loc_cdf({"w": MeanField(loc, loc)}, {"w": alive}).axes[0]
    x, y = ax.lines[0].get_data()
    assert y[0] == pytest.approx(0.8)
    assert y[-1] == 1.0
    at = np.searchsorted(x, 0.75)
    assert y[at] == pytest.approx(np.mean(np.where(alive, np.abs(loc), 0) <= x[at]))


def test_density_bars_are_the_alive_shares():
    ax = plots.density_per_layer({"b": np.array([True, False]), "a": np.array([True, False, False, False])}).axes[0]
    assert [bar.get_width() for bar in ax.patches[2:]] == [0.25, 0.5]
    assert "2 of 6" not in ax.get_title() and ax.get_title() == "33.33% alive"


def test_weights_in_use_are_shown_within_the_alive_ones():
    mask = {"b": np.array([True, False]), "a": np.array([True, True, False, False])}
    ax = plots.density_per_layer(mask, connected={"a": np.array([True, False, False, False]), "b": mask["b"]}).axes[0]
    assert [bar.get_width() for bar in ax.patches[2:]] == [0.5, 0.5, 0.25, 0.5]
    assert ax.get_title() == "50.00% alive, 33.33% in use"
    assert [note.get_text() for note in ax.texts] == ["25.0%", "1 of 4", "50.0%", "1 of 2"]
    for other in ({}, {"a": np.ones(4, bool)}, {"a": np.ones(5, bool)}):
        with pytest.raises(ValueError, match=r"connected\['a'\] is no part of mask"):
            plots.density_per_layer(mask, connected={"b": mask["b"]} | other)


def test_reliability_title_carries_the_ece():
    probs = np.tile([0.8, 0.2], (10, 1))
    fig = plots.reliability_diagram(probs, np.array([0] * 5 + [1] * 5))
    assert "ECE 0.300" in fig.axes[0].get_title()


def test_heatmap_shows_the_strongest_features_first():
    kernel = np.zeros((4, 3))
    kernel[:, 1], kernel[:, 2] = 1.0, -2.0
    fig = plots.first_layer_heatmap(kernel, max_features=2)
    assert fig.get_suptitle() == "2 of 3 features, largest norm first"
    sheet = fig.axes[0].images[0].get_array()
    middle = sheet.shape[0] // 4, sheet.shape[1] // 4
    red, _, blue = sheet[middle][:3]
    assert blue > red  # the first tile is the strongest, and negative


def test_mosaic_puts_tile_and_channel_where_they_belong():
    tiles = np.zeros((28, 28, 2, 3, 4))
    for channel in range(2):
        for feature in range(3):
            tiles[:, :, channel, feature] = (10 * channel + feature) / 100
    seen = mosaic(tiles)[..., 0].ravel()
    order = [v for v in dict.fromkeys(seen.round(4)) if v < 0.4]
    assert sorted(order) == [0.0, 0.01, 0.02, 0.1, 0.11, 0.12]
    assert order.index(0.1) == order.index(0.0) + 1


def test_axes_and_figures_of_the_caller_are_used():
    mine = Figure()
    left, right = mine.subplots(1, 2)
    assert plots.pruned_share(history(), ax=left) is mine
    assert plots.density_per_layer({"a": np.array([True])}, ax=right) is mine
    other = Figure()
    assert plots.reliability_diagram(np.array([[0.4, 0.6]]), np.array([1]), fig=other) is other


def test_subfigures_are_drawn_into_and_saved_with_their_figure(tmp_path):
    whole = Figure(figsize=(9, 6))
    parts = whole.subfigures(1, 4)
    drawn = (
        plots.training_curves(np.ones(5), {}, fig=parts[0]),
        plots.first_layer_heatmap(np.ones((4, 3)), fig=parts[1]),
        plots.reliability_diagram(np.array([[0.4, 0.6]]), np.array([1]), fig=parts[2]),
    )
    assert all(got is part and part.axes for got, part in zip(drawn, parts, strict=False))
    assert plots.pruned_share(history(12), ax=parts[3].add_subplot()) is whole
    assert len(parts[3].axes) == 2  # the colour scale stays in its part
    plots.save(parts[0], tmp_path / "whole.png")
    assert int.from_bytes((tmp_path / "whole.png").read_bytes()[16:20], "big") == 9 * 150


ONE_ROUND = {"prune/step": [5], "prune/density": [0.5]}


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.pruned_share({}), "history has no 'prune/step'.*sparsifier"),
        (lambda: plots.pruned_share(ONE_ROUND, connected=30.0), r"connected must lie in \[0, 1\], got 30.0"),
        (lambda: plots.density_and_acts(ONE_ROUND, connected=30.0), r"connected must lie in \[0, 1\], got 30.0"),
        (lambda: plots.training_curves(np.zeros((2, 2)), {}), "num_steps"),
        (lambda: plots.training_curves(np.ma.array([1.0, 9e9], mask=[0, 1]), {}), "losses is a masked array"),
        (lambda: plots.pruned_share(ONE_ROUND | {"prune/density": np.ma.array([0.5], mask=[1])}), r"y'\] is a masked"),
        (lambda: plots.density_per_layer({}), "mask is empty"),
        (lambda: plots.loc_cdf({"w": MeanField(np.zeros(3), np.ones(3))}), "no weight"),
        (lambda: plots.loc_cdf({"w": MeanField(np.ones(3), np.ones(3))}, {"v": np.ones(3, bool)}), "no site of the posterior"),
        (lambda: plots.loc_cdf({"w": MeanField(np.ones((2, 3)), 1.0)}, {"w": np.ones(3, bool)}), r"'w'\] has shape"),
        (lambda: plots.first_layer_heatmap(np.zeros(3)), "loc_kernel must be"),
        (lambda: plots.first_layer_heatmap(np.ones((6, 2)), max_features=-1), "max_features must be an integer of at least 1"),
        (lambda: plots.first_layer_heatmap(np.zeros((6, 2)), image_shape=(2, 2)), "of 6 inputs in all"),
        (lambda: plots.first_layer_heatmap(np.zeros((6, 2)), np.ones((2, 6), bool)), r"shape \(6, 2\)"),
        (lambda: plots.first_layer_heatmap(np.full((6, 2), np.nan)), "finite"),
        (lambda: plots.first_layer_heatmap(np.ones((6, 2)), in_use=np.ones(3, bool)), r"in_use must have shape \(2,\)"),
    ],
)
def test_the_door(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_what_a_cut_leaves_has_most_of_the_height_and_ticks_of_plain_numbers() -> None:
    loc = np.r_[np.zeros(90), np.linspace(0.5, 2.0, 10)]
    bias = MeanField(np.array([0.7]), np.ones(1))  # one weight, which nothing was cut of
    fig = plots.loc_cdf({"w": MeanField(loc, np.ones(100)), "b": bias})
    low, high = fig.axes[0].get_ylim()
    assert 0.8 < low < 0.9 and 1.0 < high < 1.01
    fig.canvas.draw()
    left, right = fig.axes[0].get_xlim()
    shown = [float(one.get_text()) for one in fig.axes[0].get_xticklabels() if left <= one.get_position()[0] <= right]
    assert shown == [0.5, 1.0, 2.0] or shown == [1.0, 2.0]


def test_a_network_of_many_arrays_has_its_figure_of_means() -> None:
    """No array need be a large share of all weights: sixty are of one size."""
    node = MeanField(np.r_[np.zeros(9), 1.0], np.ones(10))
    low, _ = plots.loc_cdf({f"w{number}": node for number in range(60)}).axes[0].get_ylim()
    assert 0.8 < low < 0.9
