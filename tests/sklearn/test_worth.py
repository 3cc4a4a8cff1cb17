"""What columns are worth to what predicts best, whichever of them are copies."""

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.sklearn import worth
from tests.sklearn.problems import LINEAR, NET, linear_rows

KEY = jax.random.key(0)
NETWORK = (bp.BayesianSparseRegressor(hidden=()), bp.BayesianSparseRegressor(**NET))


def test_of_a_linear_function_it_is_slope_and_spread() -> None:
    rng = np.random.default_rng(0)
    x, slopes, order = rng.standard_normal((40, 5)), rng.standard_normal((5, 2)), rng.permutation(40)
    found = worth.by_permutation(lambda rows: rows @ slopes, x, order)
    np.testing.assert_allclose(found, (slopes**2).sum(1) * ((x - x[order]) ** 2).mean(0))


def test_columns_beyond_one_call(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    x, order = rng.standard_normal((40, 5)), rng.permutation(40)
    whole = worth.by_permutation(lambda rows: rows[:, :2] ** 2, x, order)
    monkeypatch.setattr(worth, "ROWS", 100)
    np.testing.assert_allclose(worth.by_permutation(lambda rows: rows[:, :2] ** 2, x, order), whole)


@pytest.mark.slow
def test_a_linear_truth_is_left_to_a_lasso_which_does_not_know_the_copies(monkeypatch) -> None:
    """Swapping two columns swaps what they are worth, to the rounding of coordinate descent."""
    monkeypatch.setattr(worth, "_of_data", lambda key, x, y: key)  # another order of columns is other data
    x, y = linear_rows()
    idle = (NETWORK[0], bp.BayesianSparseRegressor(**NET | {"num_steps": 5}))
    order = np.array([3, 1, 2, 0, 5, 4])
    found, swapped = worth.of_columns(KEY, idle, x, y), worth.of_columns(KEY, idle, x[:, order], y)
    assert type(found.fitted).__name__ == "LassoCV"
    np.testing.assert_allclose(swapped.importances, found.importances[order], atol=1e-3)
    assert (found.importances[:3] > 0.5).all() and (found.importances[3:] < 0.2).all()


@pytest.mark.slow
def test_what_no_line_foresees_is_left_to_the_network() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4))
    given = (bp.BayesianSparseRegressor(hidden=()), bp.BayesianSparseRegressor(hidden=(16,), num_steps=1500, num_samples=20))
    found = worth.of_columns(KEY, given, x, x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(300))
    assert isinstance(found.fitted, bp.BayesianSparseRegressor)
    assert found.importances[:2].min() > 5 * found.importances[2:].max()


@pytest.mark.slow
def test_labels_and_several_targets() -> None:
    x, y = linear_rows(features=3, relevant=1)
    labels = np.digitize(y, [-0.5, 0.5])
    classifier = (bp.BayesianSparseClassifier(hidden=()), bp.BayesianSparseClassifier(**NET))
    for candidates, targets in ((classifier, labels), (NETWORK, np.stack([y, -2 * y], 1)), ((classifier[1],), labels)):
        found = worth.of_columns(KEY, candidates, x, targets)
        assert found.importances.shape == (3,) and found.importances[0] > 2 * found.importances[1:].max()


def test_seeds_are_the_datas_own_and_the_same_again() -> None:
    x, y = linear_rows()
    data = lambda *given: jax.random.key_data(worth._of_data(KEY, *given)).tolist()  # noqa: E731
    assert data(x, y) == data(x.copy(), y) == data(np.asfortranarray(x), y)
    assert len({tuple(data(*given)) for given in ((x, y), (x, -y), (-x, y), (x[:, ::-1], y))}) == 4


@pytest.mark.slow
def test_labels_that_are_objects_give_the_same_again() -> None:
    """Texts of the same letters at other places in memory."""
    x, y = linear_rows(features=3, relevant=1)
    idle = (bp.BayesianSparseClassifier(**NET | {"num_steps": 5}),)
    labels = lambda: np.array(["".join(["u", "p"]) if value > 0 else "".join(["lo", "w"]) for value in y], object)  # noqa: E731
    one, same = (worth.of_columns(KEY, idle, x, given) for given in (labels(), labels()))
    np.testing.assert_array_equal(one.importances, same.importances)


@pytest.mark.slow
def test_several_sets_of_copies_and_the_short_form() -> None:
    x, y = linear_rows(rows=200, features=8, relevant=6)
    estimator = bp.BayesianSparseRegressor(**LINEAR)
    several = bp.BayesianFeatureSelector(estimator, fdr=0.4, copies=3, random_state=0).fit(x, y)
    np.testing.assert_array_equal(several.support_, bp.features.select_by_e_values(several.e_values_, 0.4))
    assert several.e_values_.shape == several.statistics_.shape == (8,)
    one = bp.BayesianFeatureSelector(estimator, fdr=0.4, random_state=0).fit(x, y)
    same = bp.BayesianFeatureSelector(estimator, rule="knockoff", level=0.4, random_state=0).fit(x, y)
    np.testing.assert_array_equal(one.statistics_, same.statistics_)
    assert one.support_[:6].all() and not hasattr(one, "e_values_")
    with pytest.raises(ValueError, match=r"fdr=0\.2 is short for rule='knockoff', and rule='cv'"):
        bp.BayesianFeatureSelector(rule="cv", fdr=0.2).fit(x, y)
    with pytest.raises(ValueError, match="copies"):
        bp.BayesianFeatureSelector(fdr=0.2, copies=0).fit(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("branch", ["lasso", "network"])
def test_units_of_several_targets_make_no_difference(branch: str, monkeypatch) -> None:
    x, y = linear_rows()
    targets = np.column_stack([y, x[:, -1] + 0.1 * y])
    if branch == "network":
        monkeypatch.setattr(worth, "thirds", lambda *args: iter(()))
    monkeypatch.setattr(worth, "_of_data", lambda key, *rest: key)  # else the seed is of the data, whose rounding differs
    net = bp.BayesianSparseRegressor(**LINEAR)
    one, other = (
        worth.of_columns(jax.random.key(0), [net, net], x, targets * scale).importances for scale in (1.0, [1000.0, 1.0])
    )
    np.testing.assert_allclose(one, other, rtol=0.02, atol=0.01 * one.max())
