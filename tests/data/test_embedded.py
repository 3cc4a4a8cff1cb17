import sys

import numpy as np
import pytest

from bayesprune import data
from sklearn import datasets


def test_digits_hold_every_row_of_scikit_learn_once():
    train, test = data.load("digits", standardise=False)
    assert train.x.shape == (1438, 8, 8, 1) and test.x.shape == (359, 8, 8, 1)
    assert train.x.dtype == np.float32 and train.y.dtype == np.int32
    source = datasets.load_digits()
    ours = np.column_stack([np.concatenate([train.x, test.x]).reshape(-1, 64) * 16, np.concatenate([train.y, test.y])])
    theirs = np.column_stack([source.data, source.target])
    np.testing.assert_array_equal(ours[np.lexsort(ours.T)], theirs[np.lexsort(theirs.T)])


def test_digits_are_standardised_with_the_training_part():
    train, test = data.load("digits")
    raw_train, raw_test = data.load("digits", standardise=False)
    assert abs(train.x.mean(dtype=np.float64)) < 1e-6 and abs(train.x.std(dtype=np.float64) - 1) < 1e-6
    expected = (raw_test.x - raw_train.x.mean(dtype=np.float64)) / raw_train.x.std(dtype=np.float64)
    np.testing.assert_allclose(test.x, expected, atol=1e-5)


def test_the_cut_never_changes():
    train, test = data.load("digits")
    assert train.y[:8].tolist() == [2, 8, 2, 6, 6, 7, 1, 9]
    again, _ = data.load("Digits")
    np.testing.assert_array_equal(train.x, again.x)
    assert set(test.y.tolist()) == set(range(10))


def test_digits_can_be_padded_before_they_are_standardised():
    train, _ = data.load("digits", pad=10)
    assert train.x.shape[1:] == (10, 10, 1)
    assert abs(train.x.mean(dtype=np.float64)) < 1e-6 and abs(train.x.std(dtype=np.float64) - 1) < 1e-6
    corner = train.x[:, 0, 0, 0]
    assert np.all(corner == corner[0]) and corner[0] < 0


def test_diabetes_in_its_units_and_standardised():
    raw_train, raw_test = data.load("diabetes", standardise=False)
    assert raw_train.x.shape == (354, 10) and raw_test.y.shape == (88,)
    source = datasets.load_diabetes(scaled=False)
    np.testing.assert_allclose(np.sort(np.concatenate([raw_train.y, raw_test.y])), np.sort(source.target))
    train, test = data.load("diabetes")
    np.testing.assert_allclose(train.x.mean(axis=0, dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(train.x.std(axis=0, dtype=np.float64), 1, atol=1e-6)
    np.testing.assert_allclose(data.fit_scaling(raw_train.y).undo(test.y), raw_test.y, rtol=1e-4)
    assert train.x.dtype == train.y.dtype == np.float32


def test_targets_can_keep_their_units():
    train, _ = data.load("diabetes", standardise="inputs")
    raw_train, _ = data.load("diabetes", standardise=False)
    np.testing.assert_array_equal(train.y, raw_train.y)
    assert abs(train.x.mean()) < 1e-5


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesprune\[data\]'"):
        data.load("digits")
