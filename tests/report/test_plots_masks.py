"""Figures of masks that change: the curves and the picture are those of a plain count."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from bayesprune.report import plots, plots_masks

RNG = np.random.default_rng(0)


def course(rounds=4):
    return [{"a": RNG.random((6, 5)) < 0.4, "b": RNG.random(7) < 0.4} for _ in range(rounds)]


def test_the_curves_are_a_union_and_an_overlap():
    masks = course()
    left, right = plots_masks.wandering({"run": masks}, [0, 10, 20, 30]).axes
    seen, first = set(), {(s, i) for s, m in masks[0].items() for i in np.flatnonzero(m)}
    for at, mask in enumerate(masks):
        now = {(s, i) for s, m in mask.items() for i in np.flatnonzero(m)}
        seen |= now
        assert left.lines[0].get_xydata()[at] == pytest.approx((10 * at, len(seen) / 37))
        assert right.lines[0].get_xydata()[at] == pytest.approx((10 * at, len(first & now) / len(first)))
    assert right.lines[1].get_ydata()[0] == pytest.approx(sum(m.sum() for m in masks[-1].values()) / 37)


def test_what_is_exchanged_is_a_share_of_the_alive():
    record = {"prune/step": [5, 10, 15], "prune/num_grown": [30, 12, 0], "prune/num_alive": [60, 60, 60]}
    line = plots_masks.exchanged_share(record).axes[0].lines[0]
    np.testing.assert_allclose(line.get_xydata(), [(5, 0.5), (10, 0.2), (15, 0.0)])


def test_every_training_has_its_curve_and_the_legend_names_it():
    left, right = plots_masks.wandering({"one": course(2), "two": course(2)}, [1, 2]).axes
    assert [line.get_label() for line in left.lines] == ["one", "two"]
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["one", "two", "a random mask"]
    assert left.lines[0].get_color() != left.lines[1].get_color()


def test_the_picture_counts_the_units_of_each_pixel():
    mask = RNG.random((12, 9)) < 0.3
    mask[5] = False
    ax = plots_masks.connected_inputs(mask, (3, 4), most=20).axes[0]
    shown = ax.images[0]
    for pixel in range(12):
        assert shown.get_array()[pixel // 4, pixel % 4] == sum(mask[pixel])
    assert shown.get_clim() == (0, 20)
    assert ax.get_title() == f"{mask.any(axis=1).sum()} of 12 pixels connected"


def test_channels_are_summed_and_a_square_is_found():
    mask = RNG.random((12, 9)) < 0.5
    summed = plots_masks.connected_inputs(mask, (2, 2, 3)).axes[0].images[0].get_array()
    np.testing.assert_array_equal(summed.ravel(), mask.reshape(4, 27).sum(axis=1))
    assert plots_masks.connected_inputs(np.ones((9, 2), bool)).axes[0].images[0].get_array().shape == (3, 3)


def test_a_figure_of_the_caller_is_used_and_can_be_saved(tmp_path):
    mine = Figure()
    top, foot = mine.subfigures(2, 1)
    assert plots_masks.wandering({"run": course(2)}, [1, 2], fig=top) is top
    assert plots_masks.connected_inputs(np.ones((4, 2), bool), ax=foot.add_subplot()) is mine
    plots.save(mine, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots_masks.exchanged_share({"prune/step": [1]}), "no 'prune/num_grown' .it has prune/step.*sparsifier"),
        (lambda: plots_masks.wandering({}, [0]), "masks is empty"),
        (lambda: plots_masks.wandering({"a": course(2)}, [0, 1, 2]), "'a'.*one mask for each"),
        (lambda: plots_masks.wandering({"a": []}, []), "'a'.*one mask for each"),
        (lambda: plots_masks.wandering({"a": [{"k": np.ones(2, bool)}, {"k": np.ones(3, bool)}]}, [0, 1]), "same sites"),
        (lambda: plots_masks.wandering({"a": [{"k": np.ones(2, bool)}, {"j": np.ones(2, bool)}]}, [0, 1]), "same sites"),
        (lambda: plots_masks.wandering({"a": [{"k": np.zeros(2, bool)}]}, [0]), "nothing to wander from"),
        (lambda: plots_masks.wandering({"a": [{}]}, [0]), "nothing to wander from"),
        (lambda: plots_masks.connected_inputs(np.ones(4, bool)), "inputs, units"),
        (lambda: plots_masks.connected_inputs(np.full((4, 2), 0.3)), "boolean"),
        (lambda: plots_masks.connected_inputs(np.ones((12, 2), bool)), "image_shape"),
        (lambda: plots_masks.connected_inputs(np.ones((12, 2), bool), (12,)), "image_shape"),
    ],
)
def test_the_door(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
