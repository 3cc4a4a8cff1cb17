import math

import numpy as np
import pytest

from bayesprune import data


def test_experiment_1_mixes_two_inputs():
    made = data.saha_1(seed=2, alpha=0.3, num_train=50, num_test=7, noise_scale=0.0)
    for part in (made.train, made.test):
        np.testing.assert_allclose(part.y, [0.7 * a + 0.3 * b for a, b in part.x], rtol=1e-5, atol=1e-6)
    assert made.relevant.tolist() == [True, True]
    assert data.saha_1(seed=0, alpha=0.0).relevant.tolist() == [True, False]
    assert data.saha_1(seed=0, alpha=1.0).relevant.tolist() == [False, True]


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 1.0])
def test_influence_has_the_stated_expectation(alpha):
    # 200 000 rows; I is a smooth function of three means whose deviations are below 0.01: 0.03 is beyond six of its own.
    made = data.saha_1(seed=0, alpha=alpha, num_train=200_000)
    expected = (alpha**2) / ((1 - alpha) ** 2 + alpha**2 + 1)
    assert data.saha_influence(made) == pytest.approx(expected, abs=0.03)


def scalar_truth(function, row, weights):
    total = 0.0
    for x, weight in zip(row.tolist(), weights.tolist(), strict=True):
        total += weight * (x if function == "linear" else math.exp(abs(x)) - 2 * x + math.sin(2 * math.pi * x))
    return total


@pytest.mark.parametrize("function", ["linear", "nonlinear"])
def test_experiments_2_and_3_are_weighted_sums(function):
    second = data.saha_2(seed=1, alpha=4.0, num_features=12, function=function, num_train=40, num_test=5, noise_scale=0.0)
    third = data.saha_3(seed=1, alpha=4.0, num_features=12, function=function, num_train=40, num_test=5, noise_scale=0.0)
    np.testing.assert_allclose(second.weights, [j / 4 for j in range(1, 13)])
    assert second.relevant.all() and 0 < third.relevant.sum() < 12
    np.testing.assert_allclose(third.weights, second.weights * third.relevant)
    for made in (second, third):
        for part in (made.train, made.test):
            wanted = [scalar_truth(function, row, made.weights) for row in part.x]
            np.testing.assert_allclose(part.y, wanted, rtol=1e-5, atol=1e-4)


def test_the_active_share_is_a_probability():
    # 20 000 indicators at 0.2: their share deviates by 0.0028; 0.017 is six of those.
    made = data.saha_3(seed=0, num_features=20_000, num_train=1, num_test=1)
    assert made.relevant.mean() == pytest.approx(0.2, abs=0.017)
    assert not data.saha_3(seed=0, num_features=50, active=0.0).relevant.any()
    assert data.saha_3(seed=0, num_features=50, active=1.0).relevant.all()


def test_inputs_and_noise_are_independent_standard_normals():
    noisy, quiet = (data.saha_2(seed=0, num_features=4, num_train=20_000, noise_scale=s).train for s in (2.0, 0.0))
    np.testing.assert_array_equal(noisy.x, quiet.x)
    # 20 000 rows: covariances deviate by 0.007, variances by 0.01, and the noise's deviation by 0.01: six of the largest.
    np.testing.assert_allclose(np.cov(noisy.x.T), np.eye(4), atol=0.06)
    np.testing.assert_allclose(np.std(noisy.y.astype(float) - quiet.y), 2.0, atol=0.06)


@pytest.mark.parametrize(("name", "rows", "features"), [("saha_1", 2000, 2), ("saha_2", 2000, 100), ("saha-3", 1600, 100)])
def test_load_takes_them_by_name_and_the_seed_decides(name, rows, features):
    (train, test), (again, _), (other, _) = (data.load(name, seed=seed) for seed in (1, 1, 2))
    assert train.x.shape == (rows, features) and test.x.shape == (500 if rows == 2000 else 400, features)
    assert train.x.dtype == train.y.dtype == np.float32
    np.testing.assert_array_equal(train.y, again.y)
    assert not np.array_equal(train.x, other.x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.saha_1(seed=0, alpha=1.5), "alpha"),
        (lambda: data.saha_1(seed=-1), "seed"),
        (lambda: data.saha_2(seed=0, alpha=0.0), "alpha"),
        (lambda: data.saha_2(seed=0, num_features=0), "num_features"),
        (lambda: data.saha_2(seed=0, function="quadratic"), "unknown function 'quadratic'"),
        (lambda: data.saha_3(seed=0, active=-0.1), "active"),
        (lambda: data.saha_3(seed=0, num_train=0), "num_train"),
        (lambda: data.saha_3(seed=0, noise_scale=-1.0), "noise_scale"),
        (lambda: data.saha_influence(data.saha_2(seed=0)), "saha_1"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_share_is_of_the_first_experiment_alone():
    with pytest.raises(ValueError, match="must be one of saha_1, with weights of sum 1"):
        data.saha_influence(data.saha_2(seed=0, num_features=2))
