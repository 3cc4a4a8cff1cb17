"""Rows that judge a form have had no part in it."""

import numpy as np
import pytest

import bayesprune as bp
from bayesprune.sklearn import base, choosing, forms


def test_a_row_that_several_folds_hold_out_calibrates_once() -> None:
    """40 rows say nothing of .98: the 41 st of them would have to be known."""
    x = np.random.default_rng(0).standard_normal((40, 2))
    model = bp.BayesianSparseRegressor(hidden=(), num_steps=20, num_samples=5, random_state=0, presets="best", held_out=0.5)
    assert np.isinf(model.fit(x, x[:, 0]).predict(x[:1], interval=0.98)[1]).all()


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("labels", [False, True])
def test_thresholds_are_found_without_the_rows_that_are_held_out(labels: bool, monkeypatch) -> None:
    """Other targets of held-out rows change the thresholds of the last fit, and not those of the fit that they judge."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((200, 5)), rng.integers(0, 2, 200)
    kind = bp.BayesianSparseClassifier if labels else bp.BayesianSparseRegressor
    model = kind(hidden=(3,), num_steps=20, num_samples=5, form="steps", held_out=0.3, random_state=0)
    fits: list = []
    whole = base.SparseNetwork._learn

    def learn(self, columns, *args, **kwargs):
        fits.append(columns)
        return whole(self, columns, *args, **kwargs)

    monkeypatch.setattr(base.SparseNetwork, "_learn", learn)
    model.fit(x, y)
    choice = forms.FormChoice(("steps",), 1, 0.3)
    held = next(choosing._folds(np.random.default_rng([choosing.SEED, model._seed]), len(x), choice))[1]
    other = y.copy()
    other[held] = rng.integers(0, 2, len(held))
    model.fit(x, other)
    judged, last, judged_too, last_too = (columns.at for columns in fits)
    np.testing.assert_array_equal(judged, judged_too)
    assert len(last) == len(judged) and not np.array_equal(last, last_too)
