"""Figures of a selection: the picture shows the probabilities, the curves are scikit-learn's."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score, roc_curve

from bayesprune.report import plots

RNG = np.random.default_rng(0)
TRUE = np.arange(12) < 4


def curves(fig):
    return {line.get_label(): line.get_xydata() for line in fig.axes[0].lines}


def test_the_map_shows_units_over_inputs_and_marks_what_matters():
    p = RNG.random((12, 3))
    ax = plots.inclusion_map(p, TRUE).axes[0]
    np.testing.assert_array_equal(ax.images[0].get_array(), p.T)
    assert ax.images[0].get_clim() == (0, 1)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.flatnonzero(TRUE))
    assert not plots.inclusion_map(p).axes[0].lines


def test_one_curve_and_its_area_are_those_of_scikit_learn_ties_included():
    scores = RNG.integers(0, 5, 12) / 4.0
    (label, points), *_ = curves(plots.selection_roc({"score": scores}, TRUE)).items()
    assert f"area {roc_auc_score(TRUE, scores):.3f}" in label
    false, true, _ = roc_curve(TRUE, scores, drop_intermediate=False)
    for at in np.unique(false):  # where the curve rises upright, its upper end is meant
        assert points[1:, 1][np.isclose(points[1:, 0], at)] == pytest.approx(true[false == at].max())


def test_replications_are_averaged_at_equal_false_positive_rate():
    good, bad = np.where(TRUE, 1.0, 0.0), np.where(TRUE, 0.0, 1.0)
    label, points = next(iter(curves(plots.selection_roc({"both": np.stack([good, bad])}, TRUE)).items()))
    assert "area 0.500" in label
    inner = (points[1:, 0] > 0) & (points[1:, 0] < 1)
    np.testing.assert_allclose(points[1:][inner, 1], 0.5)


def test_axes_of_the_caller_are_used():
    mine = Figure()
    left, right = mine.subplots(1, 2)
    assert plots.inclusion_map(np.ones((2, 2)), ax=left) is mine
    assert plots.selection_roc({"a": RNG.random((5, 12)), "b": RNG.random(12)}, TRUE, ax=right) is mine
    assert len(right.lines) == 3


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.inclusion_map(np.ones(3)), "inputs, units"),
        (lambda: plots.inclusion_map(np.full((2, 2), 3.0)), "from 3 to 3: a logit"),
        (lambda: plots.inclusion_map(np.full((2, 2), np.nan)), "finite"),
        (lambda: plots.inclusion_map(np.ones((2, 2)), np.ones(3, bool)), "one boolean an input"),
        (lambda: plots.selection_roc({}, TRUE), "scores is empty"),
        (lambda: plots.selection_roc({"a": np.ones(12)}, np.ones(12, bool)), "both kinds"),
        (lambda: plots.selection_roc({"a": np.ones(11)}, TRUE), "'a'.*shape"),
        (lambda: plots.selection_roc({"a": np.ones((2, 12))}, np.stack([TRUE] * 3)), "'a'.*shape"),
    ],
)
def test_the_door(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
