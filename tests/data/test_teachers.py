import math

import numpy as np
import pytest

from bayesprune import data


def by_hand(name, layers, row):
    """The teacher once more, one unit at a time, with the standard library."""
    bend = math.tanh if name == "teacher_b" else lambda z: 1 / (1 + math.exp(-z))
    h = [float(v) for v in row]
    for depth, (kernel, bias) in enumerate(layers):
        z = [sum(h[i] * kernel[i, j] for i in range(len(h))) + bias[j] for j in range(len(bias))]
        h = [bend(v) for v in z] if depth < 2 else z
    return h[0]


@pytest.mark.parametrize("name", ["teacher_a", "teacher_b"])
def test_targets_without_noise_are_the_teachers(name):
    made = data.teacher_student(name, seed=3, num_train=20, num_test=10, noise_scale=0.0)
    layers = data.teacher(name, seed=3)
    for part in (made.train, made.test):
        np.testing.assert_allclose(part.y, [by_hand(name, layers, row) for row in part.x], rtol=1e-5, atol=1e-6)


def test_teacher_b_is_the_formula_of_five_inputs():
    made = data.teacher_student("teacher_b", seed=1, num_train=300, noise_scale=0.0)
    x1, x2, x3, x4, x5 = made.train.x[:, :5].astype(float).T
    h1, h2, h3 = np.tanh(3 * x1 - 2 * x2), np.tanh(2 * x2 + 3 * x3), np.tanh(2 * x4 - 3 * x5)
    y = 3 * np.tanh(1.5 * h1 + 1.5 * h2) + 3 * np.tanh(1.5 * h2 - 1.5 * h3)
    np.testing.assert_allclose(made.train.y, y, rtol=1e-5, atol=1e-5)
    assert made.relevant.tolist() == [True] * 5 + [False] * 95


def test_teacher_b_is_sparse_and_the_same_for_all_seeds():
    layers, again = (data.teacher("teacher_b", seed=seed) for seed in (0, 5))
    assert [int((layer.kernel != 0).sum()) for layer in layers] == [6, 4, 2]
    assert sum(layer.kernel.size for layer in layers) == 642 and not any(layer.bias.any() for layer in layers)
    for one, other in zip(layers, again, strict=True):
        np.testing.assert_array_equal(one.kernel, other.kernel)


def test_teacher_b_speaks_louder_than_the_noise():
    # The stated variance is 13.4; that of a sample of 20 000 bounded values is within 3 % of it (six deviations).
    made = data.teacher_student("teacher_b", seed=0, num_train=20_000, noise_scale=0.0)
    assert np.var(made.train.y) == pytest.approx(13.4, rel=0.05)


def test_teacher_a_is_dense_and_uniform_and_new_for_every_seed():
    # 19 500 uniform numbers: their mean is within 0.012 of 1/2 (six deviations of 0.0021), their variance near 1/12.
    values = np.concatenate(
        [np.concatenate([v.ravel() for v in layer]) for s in range(100) for layer in data.teacher("teacher_a", seed=s)]
    )
    assert len(values) == 100 * (20 * 6 + 6 + 6 * 6 + 6 + 6 + 1)
    assert values.min() > 0 and values.max() < 1
    assert values.mean() == pytest.approx(0.5, abs=0.012) and values.var() == pytest.approx(1 / 12, rel=0.05)
    assert not np.array_equal(data.teacher("teacher_a", seed=0)[0].kernel, data.teacher("teacher_a", seed=1)[0].kernel)
    assert data.teacher_student("teacher_a", seed=0, num_train=2, num_test=1).relevant.all()


@pytest.mark.parametrize("name", ["teacher_a", "teacher_b"])
def test_inputs_are_uniform_and_noise_is_standard_normal(name):
    noisy, quiet = (data.teacher_student(name, seed=0, num_train=20_000, num_test=1, noise_scale=s).train for s in (1.0, 0.0))
    np.testing.assert_array_equal(noisy.x, quiet.x)
    # 20 000 rows: a sample correlation deviates by 0.007, a deviation of the noise by 0.005, a variance of U(-1, 1) by 0.002;
    # the margins are six of these or more, over 10 pairs.
    assert np.abs(noisy.x).max() <= 1
    np.testing.assert_allclose(np.cov(noisy.x[:, :5].T), np.eye(5) / 3, atol=0.015)
    noise = noisy.y - quiet.y
    assert np.std(noise) == pytest.approx(1.0, abs=0.03) and abs(np.mean(noise)) < 0.045


@pytest.mark.parametrize(("name", "shape"), [("teacher_a", (3000, 20)), ("Teacher-B", (500, 100))])
def test_load_has_the_papers_sizes_and_the_seed_decides(name, shape):
    (train, test), (again, _), (other, _) = (data.load(name, seed=seed) for seed in (1, 1, 2))
    assert train.x.shape == shape and test.x.shape == (10_000, shape[1])
    assert train.x.dtype == train.y.dtype == np.float32
    np.testing.assert_array_equal(train.y, again.y)
    assert not np.array_equal(train.x, other.x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.teacher("simulation_e1", seed=0), "unknown teacher"),
        (lambda: data.teacher_student("teacher_c", seed=0), "teacher_b"),
        (lambda: data.teacher_student("teacher_a", seed=-1), "seed"),
        (lambda: data.teacher_student("teacher_a", seed=0, num_test=0), "num_test"),
        (lambda: data.teacher_student("teacher_a", seed=0, num_train=-1), "num_train"),
        (lambda: data.teacher_student("teacher_a", seed=0, noise_scale=math.nan), "noise_scale"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
