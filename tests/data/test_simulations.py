import math

import numpy as np
import pytest

from bayesprune import data


def scalar_truth(name, x):
    """The formulas once more, one row at a time, with the standard library."""
    x1, x2, x3, x4, x5 = (float(v) for v in x[:5])
    if name == "simulation_e1":
        inner = math.tanh(2 * x1 - x2), math.tanh(x3 - 2 * x4)
        return math.tanh(2 * inner[0]) + 2 * math.tanh(inner[1]) - math.tanh(2 * x5)
    if name == "simulation_e3":
        return float(math.exp(x1) + x2 * x2 + 5 * math.sin(x3 * x4) > 3)
    slope = 5 if name == "simulation_e2" else 7
    return slope * x2 / (1 + x1 * x1) + 5 * math.sin(x3 * x4) + 2 * x5


@pytest.mark.parametrize(
    "name", ["simulation_e1", "simulation_e2", "simulation_e3", "simulation_svbnn", "simulation_svbnn_normal"]
)
def test_targets_without_noise_are_the_formula(name):
    made = data.simulate(name, seed=3, num_train=200, num_test=50, num_features=9, noise_scale=0.0)
    for part in (made.train, made.test):
        np.testing.assert_allclose(part.y, [scalar_truth(name, row) for row in part.x], rtol=1e-5, atol=1e-5)
    assert made.relevant.tolist() == [True] * (4 if name == "simulation_e3" else 5) + [False] * (
        5 if name == "simulation_e3" else 4
    )


@pytest.mark.parametrize(
    ("name", "features", "train_rows", "test_rows"),
    [
        ("simulation_e1", 1000, 10240, 1024),
        ("simulation_e3", 1000, 10240, 1024),
        ("simulation_svbnn", 200, 3000, 10000),
        ("simulation_svbnn_normal", 200, 3000, 10000),
    ],
)
def test_the_papers_sizes_are_the_default(name, features, train_rows, test_rows):
    train, test = data.load(name)
    assert train.x.shape == (train_rows, features) and test.x.shape == (test_rows, features)
    assert train.x.dtype == np.float32
    assert train.y.dtype == (np.int32 if name == "simulation_e3" else np.float32)


def test_inputs_have_variance_1_and_correlation_one_half():
    # 20 000 rows: a sample correlation's standard deviation is below 0.0054 at 1/2, so 0.03 is over five of them, for
    # each of 6 pairs and 4 variances (variance of a variance 2/n: 0.01): failure odds below 1e-5, and the seed is fixed.
    x = data.simulate("simulation_e2", seed=0, num_train=20_000, num_test=1, num_features=5).train.x[:, :4]
    np.testing.assert_allclose(np.cov(x.T), 0.5 + 0.5 * np.eye(4), atol=0.06)
    np.testing.assert_allclose(np.corrcoef(x.T)[np.triu_indices(4, 1)], 0.5, atol=0.03)


def test_the_two_svbnn_sets_differ_in_their_inputs():
    # 20 000 rows: a variance deviates by at most 0.01, a covariance by 0.007; the margin is six of the largest.
    uniform, normal = (
        data.simulate(name, seed=0, num_train=20_000, num_test=1, num_features=5).train.x
        for name in ("simulation_svbnn", "simulation_svbnn_normal")
    )
    np.testing.assert_allclose(np.cov(uniform.T), np.eye(5) / 3, atol=0.06)
    np.testing.assert_allclose(np.cov(normal.T), np.eye(5), atol=0.06)
    assert np.abs(uniform).max() <= 1 < np.abs(normal).max()


def test_noise_has_the_deviation_asked_for():
    quiet, noisy = (
        data.simulate("simulation_e1", seed=0, num_train=5000, num_features=5, noise_scale=s).train for s in (0.0, 2.0)
    )
    np.testing.assert_array_equal(quiet.x, noisy.x)
    # 5000 draws: the sample deviation's own is 1 % of it; 6 % is six of those.
    assert np.std(noisy.y - quiet.y) == pytest.approx(2.0, rel=0.06)


def test_the_seed_decides():
    first, again, other = (data.load("simulation-svbnn", seed=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.x, other.x)


def test_a_simulation_is_standardised_only_when_asked():
    raw, _ = data.load("linear_regression", seed=4)
    inputs, _ = data.load("linear_regression", seed=4, standardise="inputs")
    both, _ = data.load("linear_regression", seed=4, standardise=True)
    np.testing.assert_array_equal(raw.y, inputs.y)
    assert abs(both.y.std() - 1) < 1e-5 and abs(raw.y.std() - 1) > 0.1
    np.testing.assert_allclose(inputs.x.std(axis=0), 1, atol=1e-5)


def test_linear_regression_knows_its_weights():
    made = data.linear_regression(seed=0, num_features=30, num_relevant=7, noise_scale=0.0)
    assert made.relevant.sum() == 7
    np.testing.assert_array_equal(made.relevant, made.weights != 0)
    assert np.all((np.abs(made.weights[made.relevant]) >= 1) & (np.abs(made.weights[made.relevant]) <= 2))
    recovered, *_ = np.linalg.lstsq(made.train.x.astype(np.float64), made.train.y, rcond=None)
    np.testing.assert_allclose(recovered, made.weights, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.simulate("simulation_e1", seed=-1), "seed"),
        (lambda: data.simulate("simulation_e1", seed=0.5), "seed"),
        (lambda: data.simulate("simulation_e1", seed=0, num_features=3), "num_features"),
        (lambda: data.simulate("simulation_e1", seed=0, num_train=-5), "num_train"),
        (lambda: data.simulate("simulation_e1", seed=0, noise_scale=-1.0), "noise_scale"),
        (lambda: data.simulate("digits", seed=0), "unknown simulation"),
        (lambda: data.linear_regression(seed=0, num_features=3, num_relevant=4), "num_relevant"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):  # a wrong type is told first by the tests' type checker
        call()


def test_classes_without_noise_are_not_asked_for_with_some():
    with pytest.raises(ValueError, match=r"noise_scale=5\.0 means nothing for 'simulation_e3'"):
        data.simulate("simulation_e3", seed=0, num_train=5, num_test=5, num_features=5, noise_scale=5.0)
