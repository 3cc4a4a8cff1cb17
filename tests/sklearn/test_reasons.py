"""Reasons for predictions, shares of the game (6.6): exact in a linear model, adding up always, and against sets one by one."""

import itertools
import math

import numpy as np
import pytest

import bayesprune as bp
from tests.sklearn.problems import LINEAR, linear_rows


@pytest.fixture(scope="module")
def fitted():
    x, y = linear_rows()
    return bp.BayesianSparseRegressor(**LINEAR).fit(x, y), x


@pytest.mark.slow
def test_of_a_linear_model_they_are_slopes_times_distances(fitted) -> None:
    model, x = fitted
    found = model.explain(x[:5])
    draws = model.predict_draws(np.eye(6)) - model.predict_draws(np.zeros((6, 6)))
    slopes = draws[:25].mean(axis=0)
    np.testing.assert_allclose(found.values, slopes * (x[:5] - model._background.mean(axis=0)), atol=1e-3)
    assert not found.values[:, 3:].any() and not found.error.any() and (found.spread[:, :3] > 0).any()
    mean = model.predict_draws(x[:5])[:25].mean(axis=0)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base, mean, atol=1e-3)


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
