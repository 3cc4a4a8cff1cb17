"""Columns that are constant but for their rounding, beside what scikit-learn says of them."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from bayesprune import data
from bayesprune.core.numbers import is_constant

RNG = np.random.default_rng(0)
ALTERNATING = np.arange(40) % 2
COLUMNS = {
    "a third decimal": np.where(ALTERNATING, 0.3, 0.1 + 0.2),
    "large": 1e9 + 1e-7 * ALTERNATING,
    "sums in another order": np.array([sum(RNG.permutation([0.1] * 7 + [0.2, 0.7])) for _ in range(40)]),
    "huge": np.full(40, 1e150),
    "zeros": np.zeros(40),
    "around zero": RNG.normal(0.0, 1e-30, 40),
    "one in a million": 1e6 + ALTERNATING,
    "seconds of a day": 1.7e9 + 86400 * RNG.random(40),
    "far below one": 1.6e-19 * (1.0 + 0.01 * RNG.standard_normal(40)),
    "one that differs": np.r_[np.full(39, 0.3), 0.300001],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_double_precision_is_judged_as_scikit_learn_does(name):
    scaler = StandardScaler().fit(COLUMNS[name][:, None])
    with np.errstate(over="raise", under="ignore"):
        assert bool(is_constant(COLUMNS[name])) == (scaler.scale_[0] == 1.0)


def test_single_precision_has_its_own_rounding():
    third = np.float32(0.3)
    assert is_constant(np.array([third, np.nextafter(third, np.float32(1))] * 20))
    assert not is_constant(np.array([third, third * np.float32(1 + 1e-5)] * 20))
    assert not is_constant(np.array([third, np.nextafter(third, np.float32(1))] * 20).astype(np.float64))


def test_whole_numbers_and_bits_are_exact():
    assert not is_constant(np.array([2**53 - 1, 2**53]))
    assert is_constant(np.array([7, 7])) and not is_constant(np.array([True, False]))
    assert is_constant(np.array([[1, 2], [1, 3]])).tolist() == [True, False]


def test_whole_numbers_that_are_one_double_have_no_spread():
    """Numbers of rows of eighteen digits: their standard deviation is 0, and to divide by it would be no number."""
    ids = 10**18 + np.arange(40)
    assert ids.astype(np.float64).std() == 0 and is_constant(ids)
    assert data.fit_scaling(ids[:, None]).apply(ids[:, None]).tolist() == [[0.0]] * 40
