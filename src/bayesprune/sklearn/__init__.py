"""bayesprune in scikit-learn: a sparse regressor, a sparse classifier, and a selector of inputs.

scikit-learn is an extra. ``bp.BayesianSparseRegressor`` and its neighbours import this package when they are first asked for.
"""

try:
    from sklearn.utils.validation import validate_data as _needed  # noqa: F401  the newest name that this package asks for
except ImportError as error:
    raise ImportError(
        "the estimators need scikit-learn 1.6 or newer: pip install 'bayesprune[data]' 'scikit-learn>=1.6'."
    ) from error

from bayesprune.sklearn.classifier import BayesianSparseClassifier
from bayesprune.sklearn.regressor import BayesianSparseRegressor
from bayesprune.sklearn.selector import BayesianFeatureSelector
from bayesprune.sklearn.student import distil

__all__ = ["BayesianFeatureSelector", "BayesianSparseClassifier", "BayesianSparseRegressor", "distil"]
