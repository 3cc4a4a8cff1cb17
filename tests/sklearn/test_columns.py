"""What the network reads of a table, against scikit-learn's own scalers, decompositions and trees."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from bayesprune.sklearn.columns import fit_columns, is_collinear, of_rows
from bayesprune.sklearn.thresholds import Thresholds, fit_thresholds


def rows(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((200, 4)) * np.array([1.0, 1e6, 1e-3, 2.0]) + 5.0


def test_plain_columns_are_those_of_the_standard_scaler() -> None:
    x = rows()
    np.testing.assert_allclose(fit_columns(x).apply(x), StandardScaler().fit_transform(x), atol=1e-5)


def test_far_numbers_are_drawn_in_in_their_order_and_near_ones_stay() -> None:
    x = rows()
    plain, clipped = fit_columns(x).apply(1e6 * x), fit_columns(x)._replace(clipped=True).apply(1e6 * x)
    assert np.abs(plain).max() > 1e5 and np.abs(clipped).max() <= 6.0
    plain, clipped = fit_columns(x).apply(x), fit_columns(x)._replace(clipped=True).apply(x)
    near = np.abs(plain) <= 3.0
    np.testing.assert_array_equal(clipped[near], plain[near])
    far = np.linspace(-9.0, 9.0, 2001)[:, None] * fit_columns(x).scaling.scale + fit_columns(x).scaling.loc
    steps = np.diff(fit_columns(x)._replace(clipped=True).apply(far), axis=0)
    assert (steps > 0).all() and np.abs(np.diff(steps, axis=0)).max() < 1e-4  # no corner where the bend begins


def test_components_are_those_of_pca_whitened() -> None:
    x = rows()
    x[:, 3] = x[:, 0] + 1e-2 * x[:, 3]  # a near copy: its difference is a component of unit size
    columns = fit_columns(x, components=True)
    found, wanted = columns.apply(x)[:, 4:], PCA(whiten=True).fit_transform(StandardScaler().fit_transform(x))
    wanted = wanted / wanted.std(axis=0)
    far = np.abs(wanted) > 3
    wanted[far] = np.sign(wanted[far]) * (3 + 3 * np.tanh((np.abs(wanted[far]) - 3) / 3))
    signs = np.sign((found * wanted).sum(axis=0))
    np.testing.assert_allclose(found * signs, wanted, atol=1e-3)


def wide_rows() -> np.ndarray:
    """Three factors that load on thirty columns, in twenty rows; a constant column."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 30)) + 0.3 * rng.standard_normal((20, 30))
    return np.column_stack([x, np.full(20, 7.0)])


def test_components_stand_alone_where_columns_outnumber_rows() -> None:
    x = wide_rows()
    columns = fit_columns(x, components=True).only(steps=False, components=True, clipped=True)
    wanted = PCA(19, whiten=True).fit_transform(StandardScaler().fit_transform(x))
    wanted = wanted / wanted.std(axis=0)
    found = columns.apply(x)
    assert found.shape == wanted.shape and columns.num_inputs == 19 and not columns.silent.any()
    near = np.abs(wanted) < 3
    signs = np.sign((found * wanted).sum(axis=0))
    np.testing.assert_allclose((found * signs)[near], wanted[near], atol=1e-3)
    assert columns.of_column(np.ones(19), np.add).tolist() == [19.0] * 30 + [0.0]
    plain = fit_columns(x, components=True).only(steps=False, components=False, clipped=False)
    assert plain.num_inputs == 31 and not plain.alone


def test_rows_that_judge_have_no_part_in_components_that_stand_alone() -> None:
    x, kept = wide_rows(), np.arange(15)
    columns = fit_columns(x, components=True).only(steps=False, components=True, clipped=True)
    other = x.copy()
    other[15:] *= 5.0
    seen = [of_rows(columns, of, kept, None).apply(x[15:]) for of in (x, other)]
    np.testing.assert_array_equal(*seen)
    tall = fit_columns(rows(), components=True).only(steps=False, components=True, clipped=True)
    assert of_rows(tall, rows(), kept, None) is tall and not tall.alone and tall.num_inputs == 8


@pytest.mark.parametrize(("copy", "wanted"), [(0.0, True), (0.01, True), (1.0, False)])
def test_columns_that_are_nearly_copies_are_collinear(copy: float, wanted: bool) -> None:
    x = rows()
    x[:, 3] = x[:, 0] + copy * x[:, 3]
    assert is_collinear(np.column_stack([x, np.ones(len(x))])) is wanted


def test_what_is_not_asked_for_is_zero_and_counts_for_no_column() -> None:
    x = np.column_stack([rows(), np.full(200, 7.0)])
    cuts = Thresholds(np.array([1, 1]), np.array([0.0, 5.0]))
    whole = fit_columns(x, cuts=cuts, components=True)._replace(clipped=True)
    none = whole.only(steps=False, components=False, clipped=True)
    assert none.num_inputs == 5 and none.silent.tolist() == [False] * 4 + [True]
    assert (none.apply(x) == whole.apply(x)[:, :5]).all()
    assert none.of_column(np.ones(5), np.add).tolist() == [1, 1, 1, 1, 0]
    steps = whole.only(steps=True, components=False, clipped=True)
    assert steps.num_inputs == whole.num_inputs == steps.apply(x).shape[1]
    assert not steps.apply(x)[:, 7:].any() and steps.silent.tolist() == [False] * 4 + [True] + [False] * 2 + [True] * 4
    assert steps.of_column(np.ones(steps.num_inputs), np.add).tolist() == [1, 3, 1, 1, 0]
    assert whole.of_column(np.ones(whole.num_inputs, bool), np.logical_or).tolist() == [True] * 4 + [False]


def test_a_forest_finds_where_the_target_jumps_and_what_it_misses() -> None:
    """A jump of eight deviations of the noise at .3: within the gap of two rows of 400, four gaps allowed."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(400, 3))
    y = 4.0 * (x[:, 1] > 0.3) + 0.5 * rng.standard_normal(400)
    cuts = fit_thresholds(np.random.RandomState(0), x, y, labels=False)
    assert cuts.column[0] == 1 and abs(cuts.at[0] - 0.3) < 0.01
    assert 0.4 < cuts.residuals.std() < 0.8 and cuts.residuals.shape == (400, 1)
    binary = np.column_stack([x[:, 1] > 0.3, x[:, 0]]).astype(float)
    assert 0 not in fit_thresholds(np.random.RandomState(0), binary, y > 2, labels=True).column


def test_numbers_of_one_decimal_lie_on_one_side_of_a_threshold_in_either_precision() -> None:
    """Between 81.6 and 81.8 a tree cuts at 81.69999695, which 81.7 is in float32: a new row would lie on another side there."""
    rng = np.random.default_rng(0)
    x = rng.choice(np.arange(200, 1400, 2), (400, 2)) / 10
    cuts = fit_thresholds(np.random.RandomState(0), x, x[:, 0] + rng.standard_normal(400), labels=False)
    new = np.arange(200, 1400) / 10
    double, single = (new.astype(kind)[:, None] > cuts.at.astype(kind) for kind in (np.float64, np.float32))
    assert np.array_equal(double, single)
    assert np.isclose(new[:, None], cuts.at, rtol=1e-6, atol=0).any()  # some are met


@pytest.mark.parametrize(("base", "step"), [(2e7, 2.0), (1.7e9, 128.0), (3e6, 1.0), (0.0, 0.1), (-5e3, 0.01)])
def test_a_threshold_stays_between_the_values_that_it_parts(base: float, step: float) -> None:
    """Of columns far from zero float32 has few steps between two values: none is stepped over."""
    rows = np.arange(200)
    x, y = (base + step * rows)[:, None], (rows >= 100).astype(float)
    at = fit_thresholds(np.random.RandomState(0), x, y, labels=False).at[0]
    assert np.array_equal(x[:, 0].astype(np.float32).astype(float) > at, rows >= 100)


def test_thresholds_of_a_number_are_the_best_and_what_is_missing_is_silent() -> None:
    x, y = np.random.default_rng(0).standard_normal((200, 3)), np.arange(200.0)
    cuts = fit_thresholds(np.random.RandomState(0), x, y, labels=False)
    fewer, more = cuts.of_size(5), cuts.of_size(len(cuts.at) + 2)
    assert fewer.at.tolist() == cuts.at[:5].tolist() and fewer.column.tolist() == cuts.column[:5].tolist()
    columns = fit_columns(x, cuts=cuts.of_size(len(cuts.at) + 2)).stepped(more, x[:50])
    assert columns.silent.tolist() == [False] * (3 + len(cuts.at)) + [True, True]
    assert np.isfinite(columns.apply(x)).all() and (columns.apply(x)[:, -2:] == 0).all()
