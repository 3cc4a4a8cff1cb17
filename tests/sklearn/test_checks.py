"""scikit-learn's own checks of an estimator: a few that tell the most at once, all of them among the slow tests."""

import pytest
from sklearn.utils import estimator_checks

import bayesprune as bp
from tests.sklearn.problems import NET

SMALL = {name: value for name, value in NET.items() if name != "random_state"}
ESTIMATORS = {
    "regressor": bp.BayesianSparseRegressor(**SMALL),
    "classifier": bp.BayesianSparseClassifier(**SMALL),
    "selector": bp.BayesianFeatureSelector(bp.BayesianSparseRegressor(**SMALL)),
}
CHEAP = (
    "check_estimator_cloneable",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_estimators_unfitted",
    "check_estimator_sparse_tag",
    "check_get_params_invariance",
    "check_set_params",
    "check_requires_y_none",
)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("check", CHEAP)
def test_a_check_that_fits_little(name, check):
    getattr(estimator_checks, check)(type(ESTIMATORS[name]).__name__, ESTIMATORS[name])


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_check_of_scikit_learn(name):
    results = estimator_checks.check_estimator(ESTIMATORS[name], on_skip=None, on_fail=None)
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []
    assert sum(r["status"] == "passed" for r in results) > 30
