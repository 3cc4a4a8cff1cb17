"""A selector of inputs for scikit-learn pipelines."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from bayesprune.core.checks import check_integer, check_name, check_within
from bayesprune.core.numbers import without_mask
from bayesprune.core.tracing import check_process
from bayesprune.data.tables.target import guess
from bayesprune.features.groups import correlated_groups
from bayesprune.sklearn.base import SparseNetwork
from bayesprune.sklearn.classifier import BayesianSparseClassifier
from bayesprune.sklearn.fits import refuse_others, undone_if_it_fails
from bayesprune.sklearn.frames import check_frame, check_no_moments, in_order, names_of, of_polars
from bayesprune.sklearn.reading import FLOATS, is_encoded
from bayesprune.sklearn.regressor import BayesianSparseRegressor
from bayesprune.sklearn.rules import RULES, RuleSettings


class BayesianFeatureSelector(SelectorMixin, BaseEstimator):
    """Select the inputs that a sparse Bayesian network needs.

    Args:
        estimator: an unfitted `BayesianSparseRegressor` or `BayesianSparseClassifier`; None takes the one that suits y, by the
            rule of the command line: a classifier for texts, booleans, two whole numbers, or at most 20 of them with five rows
            each on the average, of whatever dtype; else a regressor. Of a linear model and the default network it takes the one
            that predicts held-out rows better, in five fits in place of one. Its prior must have gates for "fdr" and should
            have them for the others; for "auto" the sparser "dirac_slab" is taken, and for annealing="auto" none.
        rule: "median": inputs that the cut network still reads (the median probability model). "fdr": the largest selection
            with an expected share of false ones of at most ``level``, given the inclusion probabilities. "fraction": the share
            ``fraction``, the most important ones. "cv": the same with the share chosen by cross-validation. "knockoff": inputs
            that beat their knockoff copies; holds the false discovery rate at ``level`` if the inputs are Gaussian, as far as
            their correlations can be estimated from X.
        fdr: the false discovery rate to hold: short for rule="knockoff" at that level.
        level: for "fdr" and "knockoff", in (0, 1). Knockoffs can select nothing unless 1/level inputs beat their copy; with
            ``copies`` > 1, unless about 2/level do.
        fraction: for "fraction", in (0, 1].
        fractions: for "cv", the shares to try.
        cv: folds for "cv"; it fits cv * (1 + len(fractions)) + 1 times.
        cv_rule: for "cv": "min", or "one_standard_error" for the smallest share within one standard error of the best.
        shrinkage: for "knockoff", the share in [0, 1) by which the inputs' estimated correlations are drawn towards 0; "auto"
            estimates it from X (Ledoit & Wolf 2004), and of columns as many as the rows sparse partial correlations, by the
            graphical lasso.
        copies: for "knockoff", sets of copies, each with its fits. Several, such as ten, leave less to the draw: their e-values
            are averaged (`features.knockoff_e_values`). Each set is read at half the level, so that about 2/level inputs must
            win in it before any counts: where fewer matter, one set finds more. Where none counts there is a warning.
        random_state: a whole number makes the selection repeatable; None leaves it to the estimator's.

    Attributes, after ``fit``:
        support_: (features,) booleans, as ``get_support()``.
        estimator_: the fitted network that the rule looked at; for "knockoff" that, or scikit-learn's lasso, and its inputs are
            the standardised columns of X that vary, then their copies.
        fraction_choice_: for "cv", the `features.FractionChoice`. statistics_: for "knockoff", (features,), importance of the
            input less that of its copy, the mean over sets of copies. e_values_: of several sets, (features,).
        groups_: arrays of columns, see `features.correlated_groups`: which of a group is selected says little.
        n_features_in_, feature_names_in_: of X.

    Errors in settings are raised by ``fit``: `ValueError` or `TypeError`, naming the setting.

    Example:
        >>> import numpy as np, bayesprune as bp
        >>> x = np.random.default_rng(0).standard_normal((60, 2))
        >>> linear = bp.BayesianSparseRegressor(hidden=(), num_steps=300, num_samples=10)
        >>> selector = bp.BayesianFeatureSelector(linear, random_state=0).fit(x, 3 * x[:, 0])
        >>> selector.get_support().tolist(), selector.transform(x).shape
        ([True, False], (60, 1))

    Source: Barbieri & Berger (2004); Newton et al. (2004); Saha, Liu & Liang (2024), Algorithm 2; Barber & Candès (2015).
    """

    # Or Any: scikit-learn wants every value taken here, and refused by ``fit``.
    def __init__(
        self,
        estimator: SparseNetwork | Any | None = None,
        *,
        rule: str | Any = "median",
        level: float | Any = 0.1,
        fdr: float | Any | None = None,
        fraction: float | Any = 0.2,
        fractions: Sequence[float] | Any = (0.05, 0.1, 0.2, 0.5, 1.0),
        cv: int | Any = 5,
        cv_rule: str | Any = "min",
        shrinkage: float | str | Any = "auto",
        copies: int | Any = 1,
        random_state: int | np.random.RandomState | Any | None = None,
    ) -> None:
        self.estimator = estimator
        self.rule = rule
        self.level = level
        self.fdr = fdr
        self.fraction = fraction
        self.fractions = fractions
        self.cv = cv
        self.cv_rule = cv_rule
        self.shrinkage = shrinkage
        self.copies = copies
        self.random_state = random_state

    @undone_if_it_fails
    def fit(self, X: ArrayLike | Any, y: ArrayLike | Any, **others: object) -> "BayesianFeatureSelector":
        """Select among the columns of X (rows, features) for the targets y, labels or real; ``others`` are refused."""
        refuse_others(others)
        check_name("rule", self.rule, RULES)
        rule, level = self._rule()
        check_integer(self.copies, "copies")
        check_no_moments(X)
        check_frame(X := of_polars(X))
        if is_encoded(X):
            raise ValueError(
                "X holds texts, dates or gaps (NaN), and columns are compared as numbers here: encode and fill them first, "
                "as by scikit-learn's OneHotEncoder and SimpleImputer. An estimator fitted to X itself names what it reads in "
                "used_features_."
            )
        x, y = validate_data(
            self, without_mask(X, "X"), without_mask(y, "y"), dtype=FLOATS, multi_output=True, ensure_min_samples=2
        )
        self._names = names_of(X)
        if y.dtype == object:  # numbers among a mixed frame's values
            plain = np.array(y.tolist())
            y = plain if plain.dtype.kind in "biuf" else y
        candidates = self._candidates(y)
        if is_classifier(candidates[0]):
            y = column_or_1d(y, warn=True)
        source = candidates[0].random_state if self.random_state is None else self.random_state
        seed = int(check_random_state(source).randint(np.iinfo(np.int32).max))
        settings = RuleSettings(level, self.fraction, self.fractions, self.cv, self.cv_rule, self.shrinkage, self.copies)
        check_process()
        selection = RULES[rule](jax.random.key(seed), candidates, x, y, settings)
        self.support_, self.estimator_ = selection.support, selection.estimator
        self.groups_ = correlated_groups(x)
        for name in ("fraction_choice_", "statistics_", "e_values_"):
            self.__dict__.pop(name, None)  # of an earlier fit by another rule
        self.__dict__.update(selection.details)
        return self

    def transform(self, X: ArrayLike | Any) -> Any:
        """The selected columns of X: by their places, and of frames whose columns are numbers, dates or the like by those.

        Frames with names of text are refused in another order, as scikit-learn does.
        """
        check_is_fitted(self)
        return super().transform(in_order(without_mask(X, "X"), self._names))

    def _rule(self) -> tuple[str, float]:
        """The rule and its level, of which ``fdr`` may speak for both."""
        if self.rule == "cv":
            check_integer(self.cv, "cv", minimum=2)
        if self.rule in ("fdr", "knockoff") or self.fdr is not None:
            name = "level" if self.fdr is None else "fdr"
            check_within(getattr(self, name), name, "(0, 1)", "0.1 allows one false input in ten that are selected")
        if self.fdr is None:
            return self.rule, self.level
        if self.rule not in ("median", "knockoff"):
            raise ValueError(
                f"fdr={self.fdr} is short for rule='knockoff', and rule={self.rule!r} is given: leave one of them out."
            )
        return "knockoff", self.fdr

    def _candidates(self, y: np.ndarray) -> tuple[SparseNetwork, ...]:
        if self.estimator is None:
            labels = all(guess(column) == "classes" for column in np.atleast_2d(np.transpose(y)))
            kind = BayesianSparseClassifier if labels else BayesianSparseRegressor
            return kind(hidden=()), kind()
        if not isinstance(self.estimator, SparseNetwork):
            raise TypeError(
                "estimator must be an object of BayesianSparseRegressor or BayesianSparseClassifier, or None; "
                f"got {self.estimator!r}."
            )
        return (self.estimator,)

    def _get_support_mask(self) -> Bool[np.ndarray, " features"]:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
