import jax
import numpy as np
import pytest

from bayesprune import features
from bayesprune.features import gaussian_knockoffs, knockoff_select


def by_definition(w, level, offset):
    """The threshold by trying every candidate, one count at a time."""
    passing = []
    for t in sorted({abs(v) for v in w if v != 0}):
        losers, winners = sum(v <= -t for v in w), sum(v >= t for v in w)
        if (offset + losers) / max(1, winners) <= level:
            passing.append(t)
    return [bool(passing) and bool(v >= passing[0]) for v in w]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("offset", [0, 1])
def test_the_threshold_is_the_definitions(offset):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        w = np.round(rng.normal(0.8, 1.5, size=rng.integers(1, 30)), 1)  # rounded, so that there are ties and zeros
        level = rng.uniform(0.05, 0.6)
        found = knockoff_select(w, float(level), offset)
        assert found.tolist() == by_definition(w.tolist(), level, offset)
        hits += found.any()
    assert hits > 50


def repeats(copy, num=300):
    """False shares and power of a filter at 0.2 on the marginal correlations of AR(1) inputs, 10 of 40 relevant, n = 250."""
    index = np.arange(40)
    covariance = 0.6 ** np.abs(index[:, None] - index)
    weights = np.where(index % 4 == 0, 0.5, 0.0)
    rng = np.random.default_rng(0)
    false, power = [], []
    for key in jax.random.split(jax.random.key(0), num):
        x = rng.multivariate_normal(np.zeros(40), covariance, size=250)
        y = x @ weights + rng.standard_normal(250)
        copies = copy(key, x, covariance, rng)
        both = np.hstack([x, copies])
        size = np.abs(np.linalg.lstsq(both, y, rcond=None)[0]) + np.abs(both.T @ y) / 250
        chosen = knockoff_select(size[:40] - size[40:], 0.2)
        false.append((chosen & (weights == 0)).sum() / max(1, chosen.sum()))
        power.append(chosen[weights != 0].mean())
    return np.mean(false), np.mean(power), np.std(false) / np.sqrt(num)


@pytest.mark.slow
def test_the_false_discovery_rate_is_controlled():
    # 300 repeats: the mean false share deviates by at most 0.3 / sqrt(300) = 0.017; five of those above the level would be a
    # failure, odds below 1e-6. Power shows that the bound is not kept by choosing nothing.
    false, power, error = repeats(lambda key, x, cov, rng: gaussian_knockoffs(key, x, np.zeros(40), cov))
    assert error < 0.017
    assert false <= 0.2 + 5 * error
    assert power > 0.2


def test_shuffled_rows_are_no_knockoffs():
    # A negative control for the test above: copies that lack the originals' correlations lose to every neighbour of a relevant
    # input, and the rate breaks.
    false, _, error = repeats(lambda key, x, cov, rng: x[rng.permutation(len(x))], num=100)
    assert false > 0.2 + 5 * error


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: knockoff_select(np.array([1.0, np.inf]), 0.1), "statistics"),
        (lambda: knockoff_select(np.array([1.0]), 1.0), "level"),
        (lambda: knockoff_select(np.array([1.0]), 0.1, offset=2), "offset"),
        (lambda: knockoff_select(np.array([1.0]), 0.1, offset=-1), "offset"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_to_select():
    assert not knockoff_select(np.zeros(4), 0.5).any()
    assert not knockoff_select(np.array([3.0, 2.0, 1.0]), 0.1).any()  # fewer than 1/level
    assert knockoff_select(np.array([3.0, 2.0, 1.0]), 0.1, offset=0).all()


def some_statistics(seed, copies=4, size=30):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((copies, size)).round(1) + np.where(np.arange(size) < 9, 3.0, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_e_values_are_what_they_are_defined_as(seed):
    w = some_statistics(seed)
    expected = np.zeros(30)
    for row in w:
        chosen = knockoff_select(row, 0.1)
        if chosen.any():
            limit = row[chosen].min()
            expected += 30 * chosen / (1 + sum(value <= -limit for value in row)) / len(w)
    np.testing.assert_allclose(features.knockoff_e_values(w, 0.1), expected)


@pytest.mark.parametrize("seed", range(20))
def test_of_one_set_of_copies_e_values_select_what_the_filter_selects(seed):
    """Ren & Barber (2024), section 3: e-BH at the level of the threshold is knockoff+."""
    w = some_statistics(seed)[0]
    e_values = features.knockoff_e_values(w[None], 0.2)
    np.testing.assert_array_equal(features.select_by_e_values(e_values, 0.2), knockoff_select(w, 0.2))


@pytest.mark.parametrize("seed", range(5))
def test_e_bh_is_the_largest_k_that_passes(seed):
    e = np.random.default_rng(seed).exponential(8.0, 25)
    k = max((k for k in range(1, 26) if sorted(e)[-k] >= 25 / (0.3 * k)), default=0)
    np.testing.assert_array_equal(features.select_by_e_values(e, 0.3), np.argsort(np.argsort(-e)) < k)


def test_e_values_of_useless_inputs_sum_to_their_number_at_most():
    """Signs are tossed: the mean over 4,000 draws is below p by what it is, or above by 4 standard errors once in 30,000."""
    rng = np.random.default_rng(0)
    sums = [features.knockoff_e_values(rng.standard_normal((3, 20)), 0.3).sum() for _ in range(4_000)]
    assert np.mean(sums) <= 20 + 4 * np.std(sums) / np.sqrt(len(sums))


def test_bad_e_values_are_named():
    with pytest.raises(ValueError, match="statistics"):
        features.knockoff_e_values(np.array([[1.0, np.nan]]), 0.1)
    with pytest.raises(ValueError, match="level"):
        features.select_by_e_values(np.ones(3), 0.0)
    with pytest.raises(ValueError, match="at or above 0"):
        features.select_by_e_values(np.array([-1.0]), 0.1)
    assert not features.select_by_e_values(np.zeros(4), 0.5).any()


@pytest.mark.parametrize(
    "read",
    [
        lambda w: knockoff_select(w, 0.34),
        lambda w: features.knockoff_e_values(w[None], 0.34),
        lambda w: features.select_by_e_values(w, 0.34),
        lambda w: features.control_fdr(w / 5.0, 0.34),
        lambda w: features.expected_fdr(w / 5.0, w > 0),
        lambda w: features.expected_fdr(np.full(5, 0.5), w > 0),
        lambda w: features.top_fraction(w, 0.4),
        lambda w: features.inclusion_probabilities([w[:, None] / 5.0]),
        lambda w: features.choose_fraction(
            jax.random.key(0), lambda *given: 1.0, np.ones((5, 2)), w, lambda *given: np.arange(2.0), (1.0,), num_folds=2
        ),
        lambda w: features.correlated_groups(np.ma.stack([w, w**2], axis=1)),
    ],
)
def test_what_a_mask_hides_is_not_counted(read) -> None:
    w = np.ma.array([5.0, 4.0, 3.0, 1.0, 0.5])
    read(w)
    w[0] = np.ma.masked
    with pytest.raises(ValueError, match="masked"):
        read(w)
