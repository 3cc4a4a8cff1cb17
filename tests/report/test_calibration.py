"""The three calibration errors against plain loops, scikit-learn's curve, and what theory says of calibrated samples."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from bayesprune.report import metrics
from bayesprune.report.calibration import debiased_squared_error


def made_up(rows=900, classes=6, seed=0):
    """Nearly calibrated, so that the bins' gaps have both signs and the numbers depend on how the rows are binned."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(classes, 0.5), rows)
    return probs, np.array([rng.choice(classes, p=p) for p in probs])


def slow_equal_width(probs, y, num_bins=15):
    total = 0.0
    for b in range(num_bins):
        rows = [i for i, p in enumerate(probs) if b / num_bins < max(p) <= (b + 1) / num_bins]
        if rows:
            confidence = sum(max(probs[i]) for i in rows) / len(rows)
            hits = sum(int(list(probs[i]).index(max(probs[i])) == y[i]) for i in rows) / len(rows)
            total += len(rows) / len(y) * abs(confidence - hits)
    return total


def test_ece_equals_the_definition_row_by_row():
    probs, y = made_up()
    assert metrics.ece(probs, y) == pytest.approx(slow_equal_width(probs, y), abs=1e-12)
    assert metrics.ece(probs, y, num_bins=7) == pytest.approx(slow_equal_width(probs, y, 7), abs=1e-12)


def test_top_label_bins_equal_scikit_learns_curve():
    probs, y = made_up()
    confidence, hit = probs.max(1), probs.argmax(1) == y
    bins = metrics.top_label_bins(probs, y, num_bins=15)
    observed, predicted = calibration_curve(hit, confidence, n_bins=15, strategy="uniform")
    full = bins.count > 0
    np.testing.assert_allclose(bins.observed[full], observed, rtol=1e-12)
    np.testing.assert_allclose(bins.predicted[full], predicted, rtol=1e-12)
    assert np.isnan(bins.observed[~full]).all()
    assert bins.count.sum() == len(y)


def test_a_confidence_on_an_edge_belongs_to_the_bin_below():
    probs = np.array([[0.6, 0.4], [0.61, 0.39]])
    assert metrics.top_label_bins(probs, np.array([0, 0]), num_bins=5).count.tolist() == [0, 0, 1, 1, 0]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("classes", [2, 6])
def test_ece_quantile_equals_chunks_of_the_sorted_rows(classes):
    probs, y = made_up(rows=900, classes=classes)  # 900 = 20 bins of 45, no ties
    order = np.argsort(probs.max(1))
    gaps = [abs(probs[c].max(1).mean() - (probs[c].argmax(1) == y[c]).mean()) for c in np.split(order, 20)]
    assert metrics.ece_quantile(probs, y) == pytest.approx(np.mean(gaps), abs=1e-12)


def test_calibration_marginal_equals_the_definition_class_by_class():
    probs, y = made_up()  # 900 = 15 bins of 60
    squared = []
    for c in range(6):
        total = 0.0
        for rows in np.split(np.argsort(probs[:, c]), 15):
            came = float(np.mean(y[rows] == c))
            total += len(rows) / len(y) * ((np.mean(probs[rows, c]) - came) ** 2 - came * (1 - came) / (len(rows) - 1))
        squared.append(max(total, 0.0))
    assert metrics.calibration_marginal(probs, y) == pytest.approx(np.sqrt(np.mean(squared)), abs=1e-12)


def test_ties_stay_together_whatever_the_order_of_the_rows():
    rng = np.random.default_rng(3)
    p = rng.choice([0.6, 0.7, 0.99, 1.0], 500, p=[0.1, 0.1, 0.1, 0.7])
    probs, y = np.stack([p, 1 - p], 1), (rng.random(500) > p).astype(int)
    shuffled = rng.permutation(500)
    for score in (metrics.ece, metrics.ece_quantile, metrics.calibration_marginal):
        assert score(probs, y) == pytest.approx(score(probs[shuffled], y[shuffled]), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "tolerance"), [(0.0, 0.0), (1.0, 0.004)])
def test_the_debiased_estimator_is_zero_on_average_for_calibrated_samples(spread, tolerance):
    # Failure budget: the mean of 3000 estimates is compared at 5 of its own standard errors, about 6e-7 two-sided, for this
    # fixed seed. Within a bin of varying probabilities the estimator sits below zero by their variance over n: `tolerance`
    # bounds that, as a share of the noise taken off.
    rng = np.random.default_rng(11)
    centres = (np.arange(15) + 0.5) / 15
    rows = 20 * 15
    estimates, plain = [], []
    for _ in range(3000):
        p = np.repeat(centres, 20) + spread * rng.uniform(-1 / 30, 1 / 30, rows)
        event = (rng.random(rows) < p).astype(float)
        estimates.append(debiased_squared_error(p, event))
        plain.append(np.mean((p - event).reshape(15, 20).mean(1) ** 2))
    noise = np.mean(centres * (1 - centres)) / 20
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates)) < 5 * error + tolerance * noise
    assert 5 * error < 0.1 * noise  # the comparison is sharp enough to see a tenth of the bias ...
    assert np.mean(plain) > 0.9 * noise  # ... which the plain estimator has in full


def test_the_debiased_estimator_finds_a_true_error():
    # Failure budget: the root has a standard error of 0.0011 (a bin's mean 0.0042, averaged over 15); the tolerance is five.
    rng = np.random.default_rng(5)
    p = rng.uniform(0.2, 0.6, 200_000)
    event = (rng.random(200_000) < p + 0.1).astype(float)
    assert np.sqrt(debiased_squared_error(p, event)) == pytest.approx(0.1, abs=0.006)


def test_a_bin_with_one_row_counts_as_zero():
    assert debiased_squared_error(np.array([0.1, 0.9]), np.array([1.0, 0.0]), num_bins=2) == 0.0


def test_the_three_numbers_differ():
    probs, y = made_up()
    assert len({round(f(probs, y), 6) for f in (metrics.ece, metrics.ece_quantile, metrics.calibration_marginal)}) == 3


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("num_bins", [0, -1, True])
def test_the_number_of_bins_is_checked(num_bins):
    with pytest.raises(ValueError, match="num_bins"):
        metrics.ece(*made_up(), num_bins=num_bins)
    with pytest.raises(ValueError, match="num_bins"):
        metrics.calibration_marginal(*made_up(), num_bins=num_bins)
