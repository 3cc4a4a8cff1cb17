"""The figure of densities and acts: what it shows equals what was recorded."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from bayesprune.report import plots

STEPS = np.array([10, 20, 30])
KNOWN = {"prune/num_alive": np.array([60, 20, 20]), "prune/num_connected": np.array([30, 10, 10])}
KNOWN |= {"prune/num_pruned": np.array([40, 40, 0]), "prune/num_proposed": np.array([70, 40, 5])}


def history(*densities):
    sites = {f"prune/density/Dense_{i}.kernel": np.asarray(one) for i, one in enumerate(densities)}
    return {"prune/step": STEPS, "prune/density": np.array([0.6, 0.2, 0.2])} | sites


def lines(ax):
    return {line.get_label(): line.get_data() for line in ax.lines}


def test_connected_weights_are_shown_beside_the_alive_ones():
    top, _ = plots.density_and_acts(history([0.5, 0.3, 0.3]) | KNOWN, num_steps=40).axes
    found = {name: y.tolist() for name, (_, y) in lines(top).items()}
    assert found["alive, all layers"] == [0.6, 0.2, 0.2] and found["Dense_0.kernel"] == [0.5, 0.3, 0.3]
    assert found["alive and connected"] == pytest.approx([0.3, 0.1, 0.1])
    assert top.get_xlim() == (0, 40) and top.get_yscale() == "linear"


def test_an_act_is_what_was_proposed_what_fell_and_whether_anything_did():
    _, foot = plots.density_and_acts(history() | KNOWN).axes
    found = {name: (x.tolist(), y.tolist()) for name, (x, y) in lines(foot).items()}
    assert found == {"proposed": ([10, 20], [70, 40]), "cut": ([10, 20], [40, 40]), "refused": ([30], [5])}


def test_small_densities_have_a_logarithmic_axis_from_which_layers_without_weights_are_gone():
    top, _ = plots.density_and_acts(history([0.5, 0.01, 0.01], [0.5, 0.0, 0.0])).axes
    found = lines(top)
    assert top.get_yscale() == "log"
    assert np.isnan(found["Dense_1.kernel (none left)"][1]).tolist() == [False, True, True]


def test_what_is_not_known_is_not_drawn():
    top, foot = plots.density_and_acts(history()).axes
    assert "alive and connected" not in lines(top) and not foot.lines
    top, _ = plots.density_and_acts(history(), connected=0.15).axes
    assert lines(top)["alive and connected"][1].tolist() == [0.15]
    with pytest.raises(ValueError, match=r"history has no 'prune/step'.*sparsifier"):
        plots.density_and_acts({})


def test_many_layers_and_a_figure_of_the_callers():
    mine = Figure()
    assert plots.density_and_acts(history(*[[0.9, 0.5, 0.1 + i / 100] for i in range(12)]), fig=mine) is mine
    assert len(mine.axes) == 3  # a colour scale


def test_what_is_zero_has_no_place_on_a_logarithmic_axis_and_is_said_in_words():
    found = {"prune/density": np.array([0.5, 0.01, 0.0]), "prune/num_alive": np.array([50, 1, 0])}
    found |= {"prune/num_connected": np.array([40, 0, 0]), "prune/density/b": np.array([0.5, 0.0, 0.0])}
    top, _ = plots.density_and_acts({"prune/step": STEPS} | found).axes
    shown = {line.get_label(): line for line in top.lines}
    assert top.get_yscale() == "log" and list(shown) == [
        f"{name} (none left)" for name in ("alive, all layers", "alive and connected", "b")
    ]
    alive, connected, site = shown.values()
    np.testing.assert_array_equal(alive.get_ydata(), [0.5, 0.01, np.nan])
    np.testing.assert_array_equal(connected.get_ydata(), [0.4, np.nan, np.nan])
    # A single point has no line.
    for line in (connected, site):
        assert line.get_marker() == "o" and line.get_markevery() == [0]
    top, _ = plots.density_and_acts({"prune/step": STEPS} | {"prune/density": found["prune/density"]}, connected=0.0).axes
    assert np.isnan(lines(top)["alive and connected (none left)"][1]).all()
