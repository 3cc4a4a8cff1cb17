"""What a selector's own estimator is: a linear model or a network, by rows that neither has seen."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.sklearn import rules, worth
from tests.sklearn.problems import LINEAR, linear_rows

KEY = jax.random.key(0)


@pytest.mark.parametrize("labels", [False, True])
def test_thirds_are_of_one_size_apart_and_of_every_class_its_share(labels) -> None:
    y = np.array([0] * 41 + [1] * 3 + [2] * 57)
    pairs = list(worth.thirds(KEY, y, labels))
    assert [(len(kept), len(held)) for kept, held in pairs] == [(68, 33)] * 2
    assert not set(pairs[0][1]) & set(pairs[1][1])
    for kept, held in pairs:
        assert sorted([*kept, *held]) == list(range(101))
        if labels:
            assert np.bincount(y[held]).tolist() in ([[13, 1, 19], [14, 1, 18]])


def test_too_few_rows_of_a_class_have_no_thirds() -> None:
    assert list(worth.thirds(KEY, np.array([0, 0, 0, 0, 1, 1]), True)) == []
    assert list(worth.thirds(KEY, np.arange(8.0), False)) == []


@pytest.mark.parametrize("good", [0, 1])
def test_the_best_of_two_predicts_rows_that_it_was_not_fitted_to(monkeypatch, good) -> None:
    x, y = linear_rows(rows=30)
    candidates = bp.BayesianSparseRegressor(hidden=()), bp.BayesianSparseRegressor()

    def fit(estimator, rng_key, x, y):
        seen = {row.tobytes() for row in x}

        def predict(rows):
            assert not seen & {row.tobytes() for row in rows}
            return rows[:, :3].sum(axis=1) * (estimator is candidates[good])

        return SimpleNamespace(predict=predict)

    monkeypatch.setattr(worth, "fit_seeded", fit)
    assert worth.best_of(KEY, candidates, x, y) is candidates[good]
    assert worth.best_of(KEY, candidates[:1], x, y) is candidates[0]
    assert worth.best_of(KEY, candidates, x[:8], y[:8]) is candidates[1]


@pytest.mark.slow
def test_without_an_estimator_a_linear_model_and_the_network_are_tried_on_all_that_is_fitted(monkeypatch) -> None:
    tried = []

    def best_of(rng_key, candidates, x, y):
        tried.append(([each.hidden for each in candidates], x.shape[1]))
        return bp.BayesianSparseRegressor(**LINEAR)

    monkeypatch.setattr(rules, "best_of", best_of)
    x, y = linear_rows()
    fitted = bp.BayesianFeatureSelector(random_state=0).fit(x, y)
    assert tried == [([(), (50,)], 6)]
    assert fitted.get_support().tolist() == [True] * 3 + [False] * 3


@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_labels_in_a_column_are_those_in_a_row(monkeypatch) -> None:
    from bayesprune.sklearn import BayesianFeatureSelector, selector

    seen = []

    def rule(rng_key, candidates, x, y, settings):
        seen.append(y)
        return rules.Selection(np.ones(2, bool), candidates[0], {})

    monkeypatch.setitem(selector.RULES, "median", rule)
    y = np.repeat([0, 1], 6)
    BayesianFeatureSelector(random_state=0).fit(np.eye(12)[:, :2], y[:, None])
    assert seen[0].tolist() == y.tolist()
