"""Figures of a comparison: what each panel shows, and on which scale."""

from bayesprune.report.plots_compared import LONG, curves


def test_what_differs_tenfold_is_on_a_logarithmic_scale() -> None:
    panels = {
        "accuracy": {"a": [(0.1, 0.9, 0.01)], "b": [(0.1, 0.8, 0.01)]},
        "NLL": {"a": [(0.1, 0.05, 0.01)], "b": [(0.1, 1.1, 0.2)]},
        "with zero": {"a": [(0.1, 0.0, 0.0)], "b": [(0.1, 1.1, 0.2)]},
    }
    assert [ax.get_yscale() for ax in curves(panels).axes] == ["linear", "log", "linear"]


def test_a_long_legend_has_two_columns() -> None:
    for number, columns in ((LONG, 1), (LONG + 1, 2)):
        fig = curves({"NLL": {f"method {i}": [(0.1, 0.3, 0.0)] for i in range(number)}})
        assert fig.axes[-1].get_legend()._ncols == columns
