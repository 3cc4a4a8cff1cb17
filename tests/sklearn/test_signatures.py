"""What editors and checkers are told of the estimators: every public argument has a type beside "anything"."""

import inspect
from typing import Any, get_args, get_type_hints

import pytest

import bayesprune as bp

ESTIMATORS = (bp.BayesianSparseRegressor, bp.BayesianSparseClassifier, bp.BayesianFeatureSelector)


def methods_of(estimator: type) -> dict[str, Any]:
    """The constructor and the public methods that are ours."""
    found = {
        name: getattr(estimator, name)
        for name in dir(estimator)
        if callable(getattr(estimator, name)) and (name == "__init__" or not name.startswith("_"))
    }
    return {name: function for name, function in found.items() if function.__module__.startswith("bayesprune")}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_public_argument_is_anything_alone(estimator: type) -> None:
    looked = 0
    for name, function in methods_of(estimator).items():
        hints = get_type_hints(inspect.unwrap(function))
        for argument, parameter in inspect.signature(function).parameters.items():
            if argument == "self" or parameter.kind is inspect.Parameter.VAR_KEYWORD:
                continue
            hint = hints[argument]
            assert hint is not Any and set(get_args(hint)) != {Any, type(None)}, f"{name}({argument})"
            looked += 1
    assert looked > 8
