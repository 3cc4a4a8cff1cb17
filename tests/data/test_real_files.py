"""The published files themselves, where BAYESPRUNE_DATA holds them."""

import os

import numpy as np
import pytest

from bayesprune import data

pytestmark = pytest.mark.skipif(not os.environ.get("BAYESPRUNE_DATA"), reason="BAYESPRUNE_DATA names no folder of data files")


def load_or_skip(name, **options):
    try:
        return data.load(name, **options)
    except FileNotFoundError as error:
        pytest.skip(f"no files of {name}: {error}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mean", "deviation", "first_test_labels"),
    [("mnist", 0.1307, 0.3081, [7, 2, 1, 0]), ("fashion_mnist", 0.2860, 0.3530, [9, 2, 1, 1])],
)
def test_grey_images_have_their_known_statistics(name, mean, deviation, first_test_labels):
    train, test = load_or_skip(name, standardise=False)
    assert train.x.shape == (60000, 28, 28, 1) and test.x.shape == (10000, 28, 28, 1)
    assert train.x.mean(dtype=np.float64) == pytest.approx(mean, abs=1e-4)
    assert train.x.std(dtype=np.float64) == pytest.approx(deviation, abs=1e-4)
    assert test.y[:4].tolist() == first_test_labels


def test_cifar10_has_its_known_statistics():
    train, test = load_or_skip("cifar10", standardise=False)
    assert train.x.shape == (50000, 32, 32, 3) and test.x.shape == (10000, 32, 32, 3)
    np.testing.assert_allclose(train.x.mean(axis=(0, 1, 2), dtype=np.float64), [0.4914, 0.4822, 0.4465], atol=1e-4)
    np.testing.assert_allclose(train.x.std(axis=(0, 1, 2), dtype=np.float64), [0.2470, 0.2435, 0.2616], atol=1e-4)
    assert np.bincount(train.y).tolist() == [5000] * 10 and np.bincount(test.y).tolist() == [1000] * 10


@pytest.mark.slow
def test_the_kmnist_test_part_is_read_as_fashion_mnist_would_be():
    load_or_skip("fashion_mnist")
    try:
        foreign = data.load_test("kmnist", like="fashion_mnist")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert foreign.x.shape == (10000, 28, 28, 1) and np.bincount(foreign.y).tolist() == [1000] * 10


@pytest.mark.parametrize(
    ("name", "train_rows", "test_rows", "columns"),
    [
        ("bostonHousing", 455, 51, 13),
        ("concrete", 927, 103, 8),
        ("naval-propulsion-plant", 10741, 1193, 16),
        ("power-plant", 8611, 957, 4),
        ("protein-tertiary-structure", 41157, 4573, 9),
        ("wine-quality-red", 1439, 160, 11),
        ("yacht", 277, 31, 6),
    ],
)
def test_uci_sets_are_whole_and_their_splits_reproducible(name, train_rows, test_rows, columns):
    train, test = load_or_skip(name, split=1)
    assert train.x.shape == (train_rows, columns) and test.x.shape == (test_rows, columns)
    assert np.isfinite(train.x).all() and np.abs(train.x.std(axis=0, dtype=np.float64)).max() < 1 + 1e-4
    raw, _ = data.load(name, split=1, standardise=False)
    shuffled = np.random.RandomState(1)
    rows = train_rows + test_rows
    first, second = (shuffled.choice(range(rows), rows, replace=False)[:train_rows] for _ in range(2))
    whole = np.zeros(rows)
    whole[second] = raw.y
    zeroth, _ = data.load(name, split=0, standardise=False)
    both = np.isin(first, second)
    np.testing.assert_array_equal(whole[first[both]], zeroth.y[both])


def test_constant_columns_of_naval_propulsion_become_zero():
    train, test = load_or_skip("naval-propulsion-plant")
    for column in (8, 11):
        assert np.all(train.x[:, column] == 0) and np.all(test.x[:, column] == 0)
