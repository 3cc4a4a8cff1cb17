"""Intervals of predicted numbers as a figure, beside the normal law's own."""

import numpy as np
import pytest
from scipy import stats

from bayesprune.report import plots
from bayesprune.report.plots_calibration import LEVELS


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
def test_the_line_is_how_often_intervals_hold(spread: float) -> None:
    """Of y ~ N(0, 1) under N(0, spread²) the central interval of level l holds 2 Phi(spread z_l) - 1."""
    rows, rng = 20_000, np.random.default_rng(0)
    samples = spread * stats.norm.ppf((np.arange(400) + 0.5) / 400)[:, None] * np.ones((1, rows))
    ax = plots.coverage_diagram(samples, rng.standard_normal(rows)).axes[0]
    line = ax.lines[-1]
    exact = 2 * stats.norm.cdf(spread * stats.norm.ppf((1 + LEVELS) / 2)) - 1
    # Five standard errors of 20,000 rows, .018, and the quantiles of 400 draws.
    np.testing.assert_allclose(line.get_ydata(), exact, atol=0.02)
    np.testing.assert_array_equal(line.get_xdata(), LEVELS)


def test_calibrated_counts_lie_on_the_diagonal() -> None:
    """Under the law that they are of, whole numbers too, whose intervals hold more than they say."""
    rng = np.random.default_rng(0)
    rates = rng.uniform(0.3, 2.0, 4000)
    samples, y = rng.poisson(rates, (400, 4000)).astype(float), rng.poisson(rates).astype(float)
    # Five standard errors of 4,000 rows, .04, at every level.
    np.testing.assert_allclose(plots.coverage_diagram(samples, y).axes[0].lines[-1].get_ydata(), LEVELS, atol=0.04)


@pytest.mark.parametrize("draws", [1, 2, 10, 50])
@pytest.mark.parametrize("whole", [False, True], ids=["real", "whole"])
def test_few_draws_of_the_true_law_lie_on_the_diagonal(draws: int, whole: bool) -> None:
    rng = np.random.default_rng(draws)
    rates = rng.uniform(0.3, 2.0, 4000)
    of = rng.poisson if whole else rng.normal
    samples, y = of(rates, size=(draws, 4000)).astype(float), of(rates, size=4000).astype(float)
    # Five standard errors of 4,000 rows, .04 at the level of a half, .017 at 95 %.
    off = 5 * np.sqrt(LEVELS * (1 - LEVELS) / 4000)
    assert (np.abs(plots.coverage_diagram(samples, y).axes[0].lines[-1].get_ydata() - LEVELS) < off).all()


def test_the_band_is_the_binomial_law_s() -> None:
    ax = plots.coverage_diagram(np.zeros((3, 100)), np.zeros(100)).axes[0]
    corners = ax.collections[0].get_paths()[0].vertices
    middle = corners[np.isclose(corners[:, 0], 0.5)][:, 1]
    assert middle.min() == pytest.approx(0.5 - 1.96 * 0.05) and middle.max() == pytest.approx(0.5 + 1.96 * 0.05)


def test_shapes_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"samples must be \(draws, rows\) and y \(rows,\), got \(4, 3\) and \(4,\)"):
        plots.coverage_diagram(np.zeros((4, 3)), np.zeros(4))
