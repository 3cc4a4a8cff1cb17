"""When whole numbers are taken for counts: counts of several laws are, rounded numbers and marks are not."""

import numpy as np
import pytest
from scipy import stats

import bayesprune as bp
from bayesprune.sklearn import network, tails
from bayesprune.sklearn.law_of_targets import law_of
from bayesprune.sklearn.thresholds import found_by_whole_rows

RNG = np.random.default_rng(0)
MEANS = np.exp(0.8 * RNG.standard_normal(600))
OF_COUNTS = {
    "poisson": RNG.poisson(MEANS),
    "negative binomial": RNG.negative_binomial(1.0, 1.0 / (1.0 + 4 * MEANS)),
    "many zeros": RNG.negative_binomial(0.3, 0.3 / (0.3 + 0.3 * MEANS)),
    "from one on": 1 + RNG.negative_binomial(1.0, 1.0 / (1.0 + 6 * MEANS)),
    "large": RNG.negative_binomial(2.0, 2.0 / (2.0 + 100 * MEANS)),
}
OF_NUMBERS = {
    "rounded": np.round(RNG.normal(40.0, 10.0, 600)).clip(0.0) * (np.arange(600) > 0),
    "marks of 0 to 10": np.round(RNG.normal(7.0, 1.0, 600)).clip(0, 10) * (np.arange(600) > 0),
    "truth values": (RNG.random(600) < 0.5).astype(float),
    "prices": np.round(np.exp(12 + 0.5 * RNG.standard_normal(600))),
    "beyond single precision": np.concatenate([[3e7], RNG.poisson(MEANS)[1:]]),
    "signed": np.round(RNG.normal(0.0, 3.0, 600)),
    "halves": RNG.poisson(MEANS) / 2.0,
    "one number": np.ones(600),
    "zeros": np.zeros(600),
}


def decided(y: np.ndarray, means: np.ndarray | float) -> bool:
    y = np.asarray(y, float)
    return tails.are_counts(y[:, None], (y - means)[:, None])


@pytest.mark.parametrize("name", OF_COUNTS)
def test_counts_are_found(name: str) -> None:
    y = OF_COUNTS[name]
    assert decided(y, MEANS * y.mean() / MEANS.mean()) and decided(y, y.mean())


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_other_numbers_are_none(name: str) -> None:
    y = np.asarray(OF_NUMBERS[name], float)
    assert not decided(y, y.mean())
    if y.std():
        assert not decided(y, y + 0.3 * y.std() * np.random.default_rng(7).standard_normal(600))


def test_the_gain_is_that_of_a_dense_search() -> None:
    """Both sides by SciPy's minimisers over a continuum, in place of grids."""
    from scipy.optimize import minimize_scalar

    y, means = OF_COUNTS["negative binomial"].astype(float), MEANS * 4
    drawn = 0.95 * means + 0.05 * y.mean()

    def counts(log_r: float) -> float:
        r = np.exp(log_r)
        return -float(stats.nbinom.logpmf(y, r, r / (r + drawn)).mean())

    def numbers(log_s: float, law: object) -> float:
        scale = np.exp(log_s)
        inside = law.cdf((y - means + 0.5) / scale) - law.cdf((y - means - 0.5) / scale)  # type: ignore[attr-defined]
        return -float(np.log(np.maximum(inside, 1e-300)).mean())

    best = -minimize_scalar(counts, bounds=(-4, 8), method="bounded").fun
    rival = max(
        -minimize_scalar(numbers, bounds=(-2, 3), method="bounded", args=(law,)).fun for law in (stats.norm, stats.t(3.0))
    )
    np.testing.assert_allclose(tails._gain(y, means), best - rival, atol=2e-3)


def test_the_gain_does_not_depend_on_how_large_numbers_are() -> None:
    """A thousand times as large, both laws lose log 1000: no number is so unlikely that it counts as a likelier one."""
    y = np.round(np.exp(8.0 + 0.8 * np.random.default_rng(4).standard_normal(500)))
    small, large = (tails._gain(scale * y, np.full(500, scale * y.mean())) for scale in (1.0, 1000.0))
    assert small > 0.1 and large == pytest.approx(small, abs=0.02)


def test_too_few_rows_are_numbers() -> None:
    assert not decided(OF_COUNTS["poisson"][:29], 1.0)


def test_every_column_must_be_one_of_counts() -> None:
    counts, marks = OF_COUNTS["many zeros"].astype(float), OF_NUMBERS["signed"]
    both = np.stack([counts, marks], axis=1)
    assert tails.are_counts(both[:, :1], both[:, :1] - counts.mean())
    assert not tails.are_counts(both, both - both.mean(axis=0))


def test_counts_are_counts_of_however_many_rows() -> None:
    """The forest is grown on 10,000 of them, of which all are whole."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((10_500, 1))
    y = rng.poisson(np.exp(0.5 * x)).astype(float)
    y[:200] = np.nan
    found = found_by_whole_rows(0, x, y).whole
    assert (
        found.targets.shape == found.residuals.shape == (10_000, 1) and law_of(found.targets, found.residuals) is network.COUNTS
    )


def test_a_number_that_many_rows_share_is_no_mode_to_foresee() -> None:
    """Amounts of which half are zero: their tails are heavy, and the density of a t at the zeros has no bound."""
    rng = np.random.default_rng(5)
    spent = np.where(rng.random(600) < 0.5, 0.0, rng.exponential(2.0, 600))[:, None]
    assert tails.is_heavy(spent - spent.mean()) and law_of(spent, spent - spent.mean()) is network.LEARNED_NOISE
    heavy = rng.standard_t(2.0, (600, 1))
    assert law_of(heavy, heavy) is network.HEAVY_NOISE


@pytest.mark.every
@pytest.mark.slow
def test_visits_are_foreseen_by_their_mean_and_not_by_their_mode() -> None:
    """Four fifths are zero: Student's t, which their tails speak for, predicts 0 for every row."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((900, 4))
    y = rng.negative_binomial(0.5, 0.5 / (0.5 + np.exp(-1.2 + 1.0 * x[:, 0]))).astype(float)
    assert (y == 0).mean() > 0.7
    auto, heavy = (
        bp.BayesianSparseRegressor(random_state=0, stacking=False, num_samples=20, likelihood=likelihood).fit(x[:600], y[:600])
        for likelihood in ("auto", "student_t")
    )
    assert auto.bnn_.likelihood == bp.likelihoods.NegativeBinomial(start=auto.bnn_.likelihood.start, link="softplus")
    means, truth = auto.predict(x[600:]), np.exp(-1.2 + 1.0 * x[600:, 0])
    assert np.corrcoef(means, truth)[0, 1] > 0.8 and abs(means.mean() / truth.mean() - 1) < 0.35
    assert np.mean(np.square(means - truth)) < 0.5 * np.mean(np.square(heavy.predict(x[600:]) - truth))
