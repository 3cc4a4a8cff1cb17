"""Normal noise from a table: its moments, its independence, its shapes.

Failure budget: fixed key; each check allows five standard errors, so that another key would break a correct table with
probability below 1e-5.
"""

import jax
import numpy as np
import pytest
import scipy.stats

from bayesprune.model.transforms import noise

NUM = 400_000


def test_the_table_is_symmetric_increasing_and_of_variance_one() -> None:
    table = noise._table().astype(np.float64)
    assert table.shape == (65_536,)
    assert np.array_equal(table, -table[::-1]) and np.all(np.diff(table) > 0)
    assert np.mean(table**2) == pytest.approx(1.0, abs=1e-7)
    assert np.mean(table**4) == pytest.approx(3.0, rel=1e-3)
    assert table.max() == pytest.approx(4.32, abs=0.01)
    middle = scipy.stats.norm.ppf((np.arange(65_536) + 0.5) / 65_536)
    np.testing.assert_allclose(table, middle, rtol=2e-4)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("draw", [noise.exact, noise.quantile])
def test_moments(draw) -> None:
    values = np.asarray(draw(jax.random.key(11), (NUM,)), np.float64)
    # Standard errors of the first four sample moments of a normal: variances 1, 2, 15, 96 over the number of draws.
    for power, (moment, variance) in enumerate([(0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0)], start=1):
        assert abs(np.mean(values**power) - moment) < 5 * np.sqrt(variance / NUM)


def test_the_two_numbers_of_a_word_are_independent() -> None:
    values = np.asarray(noise.quantile(jax.random.key(12), (NUM,)), np.float64)
    low, high = values[: NUM // 2], values[NUM // 2 :]
    for f, g in ((low, high), (low**2 - 1, high**2 - 1), (np.abs(low), high)):
        assert abs(np.corrcoef(f, g)[0, 1]) < 5 / np.sqrt(NUM // 2)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 5 / np.sqrt(NUM)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5), (0,), (3, 0, 2)])
def test_any_shape(shape) -> None:
    values = noise.quantile(jax.random.key(1), shape)
    assert values.shape == shape and values.dtype == np.float32
    assert np.array_equal(values, noise.quantile(jax.random.key(1), shape))
