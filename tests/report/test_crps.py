"""Proper scores against quadrature of distribution functions, sums over all pairs, and each other."""

import numpy as np
import pytest
from scipy import integrate, stats

from bayesprune.report import metrics
from bayesprune.report.crps import crps_of_rows, sampled_figures

RNG = np.random.default_rng(0)
DRAWS, Y = RNG.normal(2.0, 1.5, (6, 3, 2)), RNG.normal(2.0, 2.0, (3, 2))
NOISE = RNG.uniform(0.3, 2.0, (6, 3, 2))


def by_quadrature(cdf, y: float) -> float:
    """The integral of (F(t) - [y <= t])²."""
    below = integrate.quad(lambda t: cdf(t) ** 2, -40.0, y, limit=200)[0]
    return below + integrate.quad(lambda t: (1 - cdf(t)) ** 2, y, 40.0, limit=200)[0]


@pytest.mark.parametrize("number", [1, 5, 6])
def test_the_gaussian_mixture_equals_quadrature(number) -> None:
    """(21.9), of odd and even numbers of draws."""
    m, s = DRAWS[:number], NOISE[:number]
    each = [
        by_quadrature(lambda t, i=i, o=o: stats.norm.cdf(t, m[:, i, o], s[:, i, o]).mean(), Y[i, o])
        for i in range(3)
        for o in range(2)
    ]
    assert metrics.gaussian_crps(m, Y, s) == pytest.approx(np.mean(each), rel=1e-7)


def test_without_noise_it_is_that_of_the_steps() -> None:
    each = [by_quadrature(lambda t, i=i: np.mean(DRAWS[:, i, 0] <= t), Y[i, 0]) for i in range(3)]
    assert metrics.gaussian_crps(DRAWS[..., 0], Y[:, 0], 0.0) == pytest.approx(np.mean(each), rel=1e-4)
    assert metrics.gaussian_crps(DRAWS[:1], Y, 0.0) == pytest.approx(np.mean(np.abs(DRAWS[0] - Y)))


def test_samples_are_compared_in_all_pairs() -> None:
    """(21.8), the second mean over pairs of different samples."""
    for i, o in np.ndindex(3, 2):
        x = DRAWS[:, i, o]
        pairs = [abs(a - b) for j, a in enumerate(x) for k, b in enumerate(x) if j != k]
        expected = np.mean(np.abs(x - Y[i, o])) - 0.5 * np.mean(pairs)
        assert crps_of_rows(DRAWS, Y)[i, o] == pytest.approx(expected, rel=1e-12)


def test_few_samples_are_fair() -> None:
    """Failure budget: 20,000 sets of three samples against the exact score, 5 standard errors: below 1e-6 for a random key."""
    rng = np.random.default_rng(1)
    scores = crps_of_rows(rng.normal(size=(3, 20_000)), np.full(20_000, 0.7))
    exact = metrics.gaussian_crps(np.zeros((1, 1)), np.array([0.7]), 1.0)
    assert np.mean(scores) == pytest.approx(exact, abs=5 * np.std(scores) / np.sqrt(20_000))


def test_the_truth_scores_best() -> None:
    """Proper: against its own samples no other location or spread does better, in the mean over 20,000 targets."""
    y = np.random.default_rng(2).normal(size=20_000)
    score = lambda loc, scale: metrics.gaussian_crps(np.full((1, len(y)), loc), y, scale)  # noqa: E731
    assert score(0.0, 1.0) < min(score(0.2, 1.0), score(-0.2, 1.0), score(0.0, 0.8), score(0.0, 1.25))


def test_ranked_probabilities_equal_the_score_of_numbers() -> None:
    probs, labels = RNG.dirichlet(np.ones(4), size=5), np.array([0, 3, 1, 2, 2])
    each = [
        by_quadrature(lambda t, p=p: p[: max(0, int(np.floor(t)) + 1)].sum(), y) for p, y in zip(probs, labels, strict=True)
    ]
    assert metrics.ranked_probability_score(probs, labels) == pytest.approx(np.mean(each), rel=1e-4)


def test_intervals_of_samples_hold_one_more_of_them() -> None:
    """Failure budget: 20,000 targets with 99 samples each, 5 standard errors of a share of .95: below 1e-6 for a random key."""
    rng = np.random.default_rng(3)
    figures = sampled_figures(rng.gamma(2.0, size=(99, 20_000)), rng.gamma(2.0, size=20_000))
    assert np.mean(figures["coverage"]) == pytest.approx(0.95, abs=5 * np.sqrt(0.95 * 0.05 / 20_000))
    assert figures["interval_width"].shape == (20_000, 1)


def test_the_door() -> None:
    with pytest.raises(ValueError, match="at least two"):
        metrics.crps(DRAWS[:1], Y)
    with pytest.raises(ValueError, match="y must match"):
        metrics.gaussian_crps(DRAWS, Y[:2], 1.0)
    with pytest.raises(ValueError, match="y must lie in 0"):
        metrics.ranked_probability_score(np.full((2, 2), 0.5), np.array([0, 2]))
