"""Reasons as a figure: a dot stands where the value is, inputs in the order of what they move, colours by rank."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from bayesprune.cli import fit_report
from bayesprune.report import plots
from bayesprune.sklearn.reasons import Reasons


def of(values: np.ndarray) -> Reasons:
    return Reasons(values, np.zeros(values.shape[2:]), np.zeros_like(values), np.zeros_like(values))


def test_dots_stand_at_the_values_and_inputs_in_order_of_size() -> None:
    values = np.random.default_rng(0).standard_normal((40, 4)) * np.array([1.0, 0.0, 3.0, 0.1])
    ax = plots.reasons(of(values), ["a", "idle", "b", "c"], most=2).axes[0]
    for place, dots in zip([2, 0], ax.collections, strict=True):
        np.testing.assert_array_equal(np.asarray(dots.get_offsets())[:, 0], values[:, place])
    heights = np.asarray(ax.collections[1].get_offsets())[:, 1]
    assert (np.abs(heights - 1) <= 0.4).all()  # no dot reaches the next input's
    said = [label.get_text() for label in ax.get_yticklabels()]
    assert said == [f"b  {np.abs(values[:, 2]).mean():.3g}", f"a  {np.abs(values[:, 0]).mean():.3g}"]
    assert "1 more inputs" in ax.get_title() and ax.get_ylim() == (1.5, -0.5)


def test_colours_go_by_rank_and_gaps_are_grey() -> None:
    values = np.arange(1.0, 5.0)[:, None]
    dots = plots.reasons(of(values), x=np.array([[1.0], [100.0], [np.nan], [7.0]])).axes[0].collections[0]
    colours = dots.get_facecolors()[:, :3]
    low, high = np.array(to_rgb(plots.PALETTE[0])), np.array(to_rgb(plots.PALETTE[1]))
    np.testing.assert_allclose(colours, [low, high, to_rgb(plots.GREY), (low + high) / 2], atol=1e-6)


DATES = pd.Series(pd.to_datetime(["2020-01-01", None, "2021-01-01"]))


def test_missing_dates_are_grey_as_frames_of_numbers_have_them() -> None:
    """pandas makes the least whole number of them, which is not the earliest date."""
    frame = pd.DataFrame({"when": DATES, "n": [1.0, 2.0, np.nan]}).apply(pd.to_numeric, errors="coerce")
    drawn = plots.reasons(of(np.ones((3, 2))), x=frame).axes[0].collections
    for dots, gap in zip(drawn, (1, 2), strict=True):
        grey = (np.abs(dots.get_facecolors()[:, :3] - to_rgb(plots.GREY)) < 1e-6).all(axis=1)
        assert np.flatnonzero(grey).tolist() == [gap]


def test_a_report_gives_gaps_of_every_kind_of_column_as_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"when": DATES, "zone": DATES.dt.tz_localize("UTC"), "count": pd.array([1, None, 3], "Int64")})
    frame = frame.assign(sure=[True, False, True], text=["a", None, "7"], kind=pd.Categorical([1, None, 2]))
    given = SimpleNamespace(classes=None, columns=list(frame), target=SimpleNamespace(name="y"))
    monkeypatch.setattr(plots, "reasons", lambda found, names, numbers, **how: numbers)
    numbers = fit_report._reasons(given, frame, np.zeros(3), of(np.ones((3, 6))))
    gaps = [[False, True, False]] * 3 + [[False] * 3, [True, True, False], [False, True, False]]
    np.testing.assert_array_equal(np.isnan(numbers).T, gaps)


def test_rows_that_are_alike_are_drawn_apart() -> None:
    dots = plots.reasons(of(np.full((7, 1), 2.0))).axes[0].collections[0]
    heights = np.asarray(dots.get_offsets())[:, 1]
    assert len(set(heights.tolist())) == 7 and abs(heights.mean()) < 1e-9


def test_nothing_read_says_so() -> None:
    ax = plots.reasons(of(np.zeros((3, 2)))).axes[0]
    assert not ax.collections and [text.get_text() for text in ax.texts] == ["no input is read"]


def test_wrong_shapes_name_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"values=found.values\[..., 0\]"):
        plots.reasons(of(np.zeros((3, 2, 2))))
    with pytest.raises(ValueError, match="most must be an integer of at least 1, got -1"):
        plots.reasons(of(np.ones((3, 2))), most=-1)
    with pytest.raises(ValueError, match="names must be one for each of the 2"):
        plots.reasons(of(np.ones((3, 2))), ["a"])
    with pytest.raises(ValueError, match=r"\(3, 2\), got \(2, 2\)"):
        plots.reasons(of(np.ones((3, 2))), x=np.ones((2, 2)))
