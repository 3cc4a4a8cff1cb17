"""Reasons for predictions, shares of the game (6.6): exact in a linear model, adding up always, and against sets one by one."""

import copy
import itertools
import math

import numpy as np
import pytest

import bayesprune as bp
from bayesprune.sklearn import reasons
from tests.sklearn.problems import LINEAR, linear_rows


@pytest.fixture(scope="module")
def fitted():
    x, y = linear_rows()
    return bp.BayesianSparseRegressor(**LINEAR).fit(x, y), x


@pytest.mark.slow
def test_of_a_linear_model_they_are_slopes_times_distances(fitted) -> None:
    model, x = fitted
    model = copy.copy(model).set_params(num_samples=25)  # as many as play
    found = model.explain(x[:5])
    draws = model.predict_draws(np.eye(6)) - model.predict_draws(np.zeros((6, 6)))
    slopes = draws[:25].mean(axis=0)
    np.testing.assert_allclose(found.values, slopes * (x[:5] - model._background.mean(axis=0)), atol=1e-3)
    assert not found.values[:, 3:].any() and not found.error.any() and (found.spread[:, :3] > 0).any()
    mean = model.predict_draws(x[:5])[:25].mean(axis=0)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base, mean, atol=1e-3)


@pytest.mark.slow
def test_errors_say_what_the_networks_that_do_not_play_would_have_changed(fitted) -> None:
    """Twenty-five of fifty: in units of their errors values miss those of all by one, over fifteen of them."""
    model, x = fitted
    found = model.explain(x[:5])
    draws = model.predict_draws(np.eye(6)) - model.predict_draws(np.zeros((6, 6)))
    exact = draws.mean(axis=0) * (x[:5] - model._background.mean(axis=0))
    apart = (found.values - exact)[:, :3] / found.error[:, :3]
    assert (found.error[:, :3] > 0).all() and 0.4 < np.sqrt(np.mean(np.square(apart))) < 1.8


@pytest.mark.slow
def test_eq_6_6_of_a_net_is_the_sum_over_sets_one_by_one() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    model = bp.BayesianSparseClassifier(hidden=(8,), num_steps=2000, num_samples=10, random_state=0).fit(x, y)
    players = np.flatnonzero(model.used_features_)
    found = model.explain(x[:2])

    def worth(known: tuple[int, ...], row: np.ndarray) -> np.ndarray:
        rows = model._background.copy()
        rows[:, list(known)] = row[list(known)]
        return model.predict_draws(rows).mean(axis=(0, 1))

    for row, values in zip(x[:2], found.values, strict=True):
        for player in players:
            others = [one for one in players if one != player]
            total = 0.0
            for size in range(len(players)):
                weight = 1.0 / (len(players) * math.comb(len(players) - 1, size))
                for known in itertools.combinations(others, size):
                    total = total + weight * (worth((*known, player), row) - worth(known, row))
            np.testing.assert_allclose(values[player], total, atol=1e-4)


def test_what_some_networks_miss_of_all_goes_where_it_comes_from() -> None:
    """Of 400 linear games the mean values of all are met as closely as least squares can, beside NumPy's own; and the total."""
    rng = np.random.default_rng(0)
    slopes = rng.standard_normal((3, 400)) * np.array([[3.0], [1.0], [0.0]]) + np.array([[1.0], [2.0], [4.0]])
    some, total = slopes[:, :25], slopes.sum(axis=0).mean()
    found, _ = reasons._of_all(some, np.asarray(total))
    assert found.sum() == pytest.approx(total) and found[2] == pytest.approx(4.0)
    follow = [np.polyfit(some.sum(axis=0), one, 1)[0] for one in some]
    np.testing.assert_allclose(found, some.mean(axis=1) + np.array(follow) * (total - some.sum(axis=0).mean()))
    chosen = [rng.choice(400, 25, replace=False) for _ in range(200)]
    missed = lambda values: np.square(values - slopes.mean(axis=1)).sum()  # noqa: E731
    plain = np.mean([missed(slopes[:, few].mean(axis=1)) for few in chosen])
    assert np.mean([missed(reasons._of_all(slopes[:, few], np.asarray(total))[0]) for few in chosen]) < 0.3 * plain
    alike = np.ones((2, 5))
    np.testing.assert_array_equal(reasons._of_all(alike, np.asarray(3.0))[0], [1.5, 1.5])
    assert reasons._of_all(np.zeros((0, 5, 2)), np.zeros(2))[0].shape == (0, 2)


@pytest.mark.slow
def test_they_add_up_to_what_is_predicted_by_however_many_networks() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 3))
    money = np.exp(2.0 * x[:, 1] + rng.standard_normal(200) + 8.0)
    settings = {"hidden": (8,), "num_steps": 300, "num_samples": 60, "random_state": 0}
    model = bp.BayesianSparseRegressor(**settings).fit(x, money)
    found, predicted = model.explain(x[:10]), model.predict(x[:10])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base, predicted, atol=1e-4 * money.std())
    classes = bp.BayesianSparseClassifier(**settings).fit(x, (money > np.median(money)).astype(int))
    told = classes.explain(x[:10])
    np.testing.assert_allclose(told.values.sum(axis=1) + told.base, classes.predict_proba(x[:10]), atol=1e-5)


@pytest.mark.parametrize("rows", [3, 40, 63, 1000])
def test_what_is_not_known_is_spread_over_the_whole_table(rows) -> None:
    """In a sorted table the first rows would stand for the smallest values alone."""
    x = np.sort(np.random.default_rng(0).uniform(0.0, 10.0, (rows, 2)), axis=0)
    found = reasons.background(rows)
    assert len(set(found)) == min(reasons.BACKGROUND, rows) and (found[0], found[-1]) == (0, rows - 1)
    assert abs(x[found].mean() - x.mean()) < 0.2


def test_a_base_is_of_rows_from_all_over_a_sorted_table() -> None:
    """Of a linear model it is the mean of all predictions."""
    x = np.sort(np.random.default_rng(0).uniform(0.0, 10.0, (63, 2)), axis=0)
    model = bp.BayesianSparseRegressor(**LINEAR, form="plain").fit(x, 5 * x[:, 0])
    assert abs(model.explain(x[:1]).base - model.predict(x).mean()) < 1.0
