import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from bayesprune import data
from bayesprune.core.types import Dataset


def table(seed, rows):
    rng = np.random.default_rng(seed)
    return Dataset(rng.normal(3.0, [1.0, 10.0, 0.1], (rows, 3)), rng.normal(100.0, 5.0, rows))


def test_it_is_scikit_learns_standardisation_with_training_statistics():
    raw_train, raw_test = table(0, 50), table(1, 20)
    train, test = data.standardise(raw_train, raw_test, targets=True)
    oracle = StandardScaler().fit(raw_train.x)
    np.testing.assert_allclose(train.x, oracle.transform(raw_train.x), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(test.x, oracle.transform(raw_test.x), rtol=1e-6, atol=1e-6)
    target = StandardScaler().fit(raw_train.y[:, None])
    np.testing.assert_allclose(test.y, target.transform(raw_test.y[:, None])[:, 0], rtol=1e-6, atol=1e-6)
    assert train.x.dtype == train.y.dtype == np.float32


def test_targets_stay_unless_asked_for():
    raw = table(0, 50)
    assert data.standardise(raw, raw)[0].y is raw.y


def test_a_constant_column_becomes_exactly_zero_even_where_its_mean_is_rounded():
    # Ten times 0.3 does not have the mean 0.3 in floating point: dividing by the left-over deviation would blow it up.
    values = np.full((10, 1), 0.3)
    assert values.std() > 0
    scaling = data.fit_scaling(values)
    assert np.all(scaling.apply(values) == 0)
    assert scaling.scale == 1
    assert scaling.apply(np.array([[0.8]]))[0, 0] == pytest.approx(0.5)


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e140])
def test_the_unit_of_a_column_does_not_matter(unit):
    """Squares of 1e-170 are 0 in float64."""
    raw = table(0, 50).x
    scaled = data.fit_scaling(raw * unit)
    np.testing.assert_allclose(scaled.scale / unit, raw.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaled.apply(raw * unit), data.fit_scaling(raw).apply(raw), atol=1e-6)


@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6, 1e7])
def test_a_column_in_float32_keeps_all_digits_that_it_has(ratio):
    """Whatever its mean is of its spread: what is lost was lost when it was made float32, by up to 2^-24 of the mean."""
    exact = np.random.default_rng(0).normal(size=400)
    single = (exact + ratio).astype(np.float32)
    scaled = data.fit_scaling(single[:, None]).apply(single[:, None])[:, 0]
    np.testing.assert_allclose(scaled, StandardScaler().fit_transform(single[:, None].astype(np.float64))[:, 0], atol=1e-6)
    wide = single.astype(np.float64)
    assert np.abs(scaled * wide.std() + wide.mean() - ratio - exact).max() < 1e-5 + 1.01 * ratio * 2.0**-24


def test_undo_is_the_inverse():
    raw = table(0, 50)
    scaling = data.fit_scaling(raw.y)
    np.testing.assert_allclose(scaling.undo(scaling.apply(raw.y)), raw.y, rtol=1e-5)
    with pytest.raises(ValueError, match="masked array with 1 masked value"):
        scaling.undo(np.ma.array([1.0, 2.0], mask=[True, False]))


@pytest.mark.parametrize("values", [np.zeros((0, 2)), np.array([[1.0, np.nan]]), np.array([[np.inf]])])
def test_what_has_no_mean_is_refused(values):
    with pytest.raises(ValueError, match="values must be finite"):
        data.fit_scaling(values)


def test_class_labels_are_not_standardised():
    part = Dataset(np.eye(3), np.arange(3))
    with pytest.raises(ValueError, match="targets=True is for real targets"):
        data.standardise(part, part, targets=True)


@pytest.mark.parametrize("pair", [(0.3, 0.1 + 0.2), (1e9, 1e9 + 1e-7)])
def test_a_column_that_varies_by_its_rounding_is_constant(pair):
    scaling = data.fit_scaling(np.array([pair] * 20).reshape(-1, 1))
    assert scaling.scale == 1
    assert np.abs(scaling.apply(np.float32([pair]).reshape(-1, 1))).max() < 1e-6 * abs(pair[0])
    single = np.float32(0.3)
    assert data.fit_scaling(np.array([single, np.nextafter(single, np.float32(1))])).scale == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("field", ["x", "y"])
def test_what_is_not_finite_in_the_test_part_is_refused(field, value):
    train, test = table(0, 50), table(1, 20)
    getattr(test, field)[3] = value
    with pytest.raises(ValueError, match=f"test.{field} must be finite"):
        data.standardise(train, test, targets=True)


def test_one_column_is_not_taken_for_all_of_them():
    train, test = table(0, 50), table(1, 20)
    with pytest.raises(ValueError, match=r"rows of x must have one shape, got \(3,\) in train, \(1,\) in test"):
        data.standardise(train, test._replace(x=test.x[:, :1]))
    with pytest.raises(ValueError, match="rows of y must have one shape"):
        data.standardise(train._replace(y=train.x), test, targets=True)
