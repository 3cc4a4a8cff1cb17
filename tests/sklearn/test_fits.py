"""A fit that fails leaves the estimator as it was; what a fit takes beside X and y."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bayesprune as bp
from bayesprune.sklearn import base
from bayesprune.sklearn.rules import RULES
from tests.sklearn.problems import NET, linear_rows

X, Y = linear_rows(rows=60, features=3, relevant=1)
LABELS = np.where(Y > 0, "up", "down")
OTHER = np.where(X[:, 1] > 0, "left", "right")


@pytest.fixture(scope="module")
def regressor() -> bp.BayesianSparseRegressor:
    return bp.BayesianSparseRegressor(**NET).fit(X, Y)


@pytest.fixture(scope="module")
def classifier() -> bp.BayesianSparseClassifier:
    return bp.BayesianSparseClassifier(**NET).fit(X, LABELS)


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("setting", [{"density": 2.0}, {"learning_rate": -1.0}, {"hidden": "8"}, {"random_state": -1}])
def test_a_refused_fit_leaves_a_regressor_as_it_was(regressor, setting):
    """The old network in the units of the new targets, 50,000, was what it predicted."""
    model, before = regressor, dict(vars(regressor))
    old = {name: model.get_params()[name] for name in setting}
    with pytest.raises((ValueError, TypeError)):
        model.set_params(**setting).fit(X[:, :2], 1000.0 * Y + 5e4)
    assert {name: value for name, value in vars(model).items() if name not in setting} == {
        name: value for name, value in before.items() if name not in setting
    }
    assert np.abs(model.predict(X)).max() < 100.0 and model.n_features_in_ == 3
    model.set_params(**old)


@pytest.mark.parametrize("labels", [OTHER, np.full(60, "one")], ids=["stopped", "one class"])
def test_a_fit_that_is_broken_off_leaves_a_classifier_as_it_was(classifier, labels, monkeypatch):
    foreseen = classifier.predict(X)
    monkeypatch.setattr(base, "fit_svi", stopped)
    with pytest.raises((KeyboardInterrupt, ValueError)):
        classifier.fit(X, labels)
    assert classifier.classes_.tolist() == ["down", "up"]
    np.testing.assert_array_equal(classifier.predict(X), foreseen)


def test_a_first_fit_that_fails_leaves_nothing(regressor, classifier, monkeypatch):
    monkeypatch.setattr(base, "fit_svi", stopped)
    for estimator, y in ((regressor, Y), (classifier, LABELS)):
        model = clone(estimator)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        assert vars(model) == vars(clone(estimator))
        with pytest.raises(NotFittedError):
            model.predict(X)


def test_a_selection_that_fails_leaves_the_one_before(monkeypatch):
    selector = bp.BayesianFeatureSelector(bp.BayesianSparseRegressor(**NET), random_state=0).fit(X, Y)
    before = dict(vars(selector))
    monkeypatch.setitem(RULES, "median", stopped)
    with pytest.raises(KeyboardInterrupt):
        selector.fit(X[:, :2], Y)
    assert vars(selector) == before and selector.transform(X).shape[1] == selector.support_.sum()


def test_of_the_settings_only_the_number_of_networks_says_anything_after_the_fit(regressor):
    model, foreseen = regressor, regressor.predict(X)
    asked = model.get_params(deep=False)
    model.set_params(
        hidden=(), prior="flat", method="none", density=0.1, num_steps=1, batch_size=None, learning_rate=-1.0, annealing=2.0,
        form="none", presets="best", held_out=0.9, stacking=None, time_limit=-1, activation="none", likelihood="poisson",
        random_state=9, verbose=True,
    )  # fmt: skip
    np.testing.assert_array_equal(model.predict(X), foreseen)
    with pytest.raises(ValueError, match="num_samples"):
        model.set_params(num_samples=0).predict(X)
    model.set_params(**asked)


def test_no_weights_of_rows_are_taken(regressor):
    """Callers that hand on their own ``sample_weight=None`` ask for nothing."""
    weighted = clone(regressor).fit(X, Y, sample_weight=None)
    np.testing.assert_array_equal(weighted.predict(X), regressor.predict(X))
