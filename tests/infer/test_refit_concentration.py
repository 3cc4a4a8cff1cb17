"""The concentration of counts given the weights: by SciPy's law of counts on a grid, and by counts whose law is known."""

import numpy as np
import pytest
import scipy.stats

import bayesprune as bp
from bayesprune.infer.refit_noise import LOG_R_LOC as LOC
from bayesprune.infer.refit_noise import LOG_R_SCALE as SCALE
from bayesprune.infer.refit_noise import concentration_of

RNG = np.random.default_rng(0)
PARAMS = {LOC: np.float32(0.0), SCALE: np.float32(0.1)}


def problem(r, rows=300, mean=50.0):
    rates = mean * np.exp(0.3 * RNG.standard_normal(rows))
    drawn = rates * np.exp(0.02 * RNG.standard_normal((20, rows)))
    y = RNG.poisson(rates * (RNG.gamma(r, 1 / r, rows) if np.isfinite(r) else 1.0))
    return drawn[:, :, None], y[:, None]


@pytest.mark.parametrize("r", [3.0, 40.0, np.inf])
def test_mean_and_deviation_are_those_on_a_grid(r) -> None:
    """q(log r) beside exp(g) normalised on a grid of log r, with SciPy's probabilities: both are nearly Gaussian."""
    means, y = problem(r)
    likelihood = bp.likelihoods.NegativeBinomial(start=64.0)
    found = concentration_of(likelihood, PARAMS, means, y, np.ones(y.shape, bool))
    loc, scale = float(found[LOC]), float(found[SCALE])
    grid = np.linspace(loc - 6 * scale, loc + 6 * scale, 201)
    prior = scipy.stats.gamma(2.0, scale=640.0)
    density = lambda c: scipy.stats.nbinom.logpmf(y, c, c / (c + means)).mean(0).sum() + prior.logpdf(c) + np.log(c)  # noqa: E731
    log = np.array([density(c) for c in np.exp(grid)])
    assert abs(np.argmax(log) - 100) <= 1, "the mode is in the middle of the grid"
    weights = np.exp(log - np.max(log))
    weights /= weights.sum()
    mean = weights @ grid
    assert mean == pytest.approx(loc, abs=0.5 * scale)
    assert np.sqrt(weights @ (grid - mean) ** 2) == pytest.approx(scale, rel=0.3)
    assert not np.isfinite(r) or loc == pytest.approx(np.log(r), abs=4 * scale)


def test_outputs_have_their_own_or_one_together_and_gaps_do_not_count() -> None:
    (few, y_few), (many, y_many) = problem(3.0), problem(40.0)
    means, y = np.concatenate([few, many], axis=2), np.concatenate([y_few, y_many], axis=1)
    whole = np.ones(y.shape, bool)
    likelihood = bp.likelihoods.NegativeBinomial(start=64.0)
    each = concentration_of(likelihood, {LOC: np.zeros(2, np.float32), SCALE: np.ones(2, np.float32)}, means, y, whole)
    one = concentration_of(likelihood, PARAMS, few, y_few, whole[:, :1])
    assert each[LOC].shape == (2,) and each[LOC][0] == one[LOC] and each[LOC][1] > each[LOC][0] + 1
    together = concentration_of(likelihood, PARAMS, means, y, whole)
    assert each[LOC][0] < together[LOC] < each[LOC][1] and together[SCALE].shape == ()
    gaps = whole.copy()
    gaps[:150] = False
    half = concentration_of(likelihood, PARAMS, few[:, 150:], y_few[150:], gaps[150:, :1])
    spoilt = np.where(gaps[:, :1], y_few, -1)
    assert concentration_of(likelihood, PARAMS, few, spoilt, gaps[:, :1]) == half
