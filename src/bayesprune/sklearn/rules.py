"""Rules that turn fits of a sparse network into a selection of inputs, one function each."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float64
from sklearn.base import is_classifier
from sklearn.covariance import graphical_lasso, ledoit_wolf_shrinkage
from sklearn.exceptions import ConvergenceWarning

from bayesprune import features
from bayesprune.core.numbers import is_constant
from bayesprune.features.copies import shrunk_covariance
from bayesprune.sklearn import worth
from bayesprune.sklearn.base import SparseNetwork
from bayesprune.sklearn.worth import best_of, fit_seeded, judge_of

ROUNDING = 1e-9  # of the largest importance: differences below it are none

Candidates = Sequence[SparseNetwork]  # of which each rule takes the `best_of`


class RuleSettings(NamedTuple):
    """The knobs of all rules; `BayesianFeatureSelector` says which rule reads which."""

    level: float
    fraction: float
    fractions: Sequence[float]
    cv: int
    cv_rule: str
    shrinkage: float | str
    copies: int


class Selection(NamedTuple):
    """``support``: (features,) booleans. ``estimator``: the fitted one that the rule used. ``details``: what else it found."""

    support: Bool[np.ndarray, " features"]
    estimator: Any
    details: dict[str, Any]


def median(rng_key: jax.Array, candidates: Candidates, x: np.ndarray, y: np.ndarray, settings: RuleSettings) -> Selection:
    """Inputs of the median probability network, as it was cut."""
    fitted = fit_seeded(best_of(rng_key, candidates, x, y), rng_key, x, y)
    return Selection(fitted.used_features_, fitted, {})


def fdr(rng_key: jax.Array, candidates: Candidates, x: np.ndarray, y: np.ndarray, settings: RuleSettings) -> Selection:
    """The largest selection with an expected share of false inputs of at most ``level``."""
    fitted = fit_seeded(best_of(rng_key, candidates, x, y), rng_key, x, y)
    if not fitted._inputs.gated:
        raise ValueError(
            f"rule='fdr' needs inclusion probabilities, which prior={fitted.prior!r} does not give: take 'dirac_slab' or "
            "'gaussian_slab', or rule='knockoff'."
        )
    return Selection(features.control_fdr(fitted.inclusion_probabilities_, settings.level), fitted, {})


def fraction(rng_key: jax.Array, candidates: Candidates, x: np.ndarray, y: np.ndarray, settings: RuleSettings) -> Selection:
    """The stated share of the inputs, the most important ones."""
    fitted = fit_seeded(best_of(rng_key, candidates, x, y), rng_key, x, y)
    return Selection(features.top_fraction(fitted._inputs.log_importance, settings.fraction), fitted, {})


def cv(rng_key: jax.Array, candidates: Candidates, x: np.ndarray, y: np.ndarray, settings: RuleSettings) -> Selection:
    """The share of the inputs that predicts held-out rows best, then that share of them by a fit to all rows."""
    fit_key, cv_key = jax.random.split(rng_key)
    estimator = best_of(cv_key, candidates, x, y)
    targets, loss = judge_of(estimator, y)
    labels = is_classifier(estimator)
    if labels and len(counts := np.bincount(targets)) == 2 and counts.min() < 2:
        rare = str(np.unique(y)[np.argmin(counts)])
        raise ValueError(f"rule='cv' needs two rows of each of two classes, and {rare!r} has one: take rule='median'.")
    choice = features.choose_fraction(
        cv_key,
        lambda key, x, y, x_held, y_held: loss(fit_seeded(estimator, key, x, y), x_held, y_held),
        # Dropped inputs become 0, which should be their mean; what varies by its rounding only must not become all that varies.
        np.where(is_constant(x), 0.0, np.asarray(x, np.float64) - x.mean(axis=0, dtype=np.float64)),
        targets,
        lambda key, x, y: fit_seeded(estimator, key, x, y)._inputs.log_importance,
        settings.fractions,
        settings.cv,
        settings.cv_rule,
        stratified=labels,
    )
    chosen = fraction(fit_key, (estimator,), x, y, settings._replace(fraction=choice.fraction))
    return chosen._replace(details={"fraction_choice_": choice})


def knockoff(rng_key: jax.Array, candidates: Candidates, x: np.ndarray, y: np.ndarray, settings: RuleSettings) -> Selection:
    """Inputs that beat their knockoff copies, with the false discovery rate held at ``level``. Constant columns never do."""
    varying = ~is_constant(x)
    columns, needed = int(varying.sum()), _winners_needed(settings)
    # Copied in standard units: whether the correlations are singular must not depend on the columns' units.
    if not columns:
        raise ValueError("every column of X is constant: there is nothing to select among.")
    if columns < needed:
        _warn_of_none(f"X has {columns} columns that vary", settings, columns)
    rows = np.asarray(x[:, varying], np.float64)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    worths, differences = [], []
    for key in jax.random.split(rng_key, settings.copies):
        copy_key, fit_key = jax.random.split(key)
        both = np.concatenate([rows, _copies(copy_key, rows, settings.shrinkage)], axis=1)
        worths.append(worth.of_columns(fit_key, candidates, both, y))
        difference = np.subtract(*np.split(worths[-1].importances, 2))
        # Of an input that nothing was learnt of 1e-18 is rounding, whose sign is the CPU's: no evidence for it, or against.
        noise = ROUNDING * np.max(np.abs(worths[-1].importances))
        differences.append(np.where(np.abs(difference) <= noise, 0.0, difference))
    statistics, support = np.zeros(x.shape[1]), np.zeros(x.shape[1], bool)
    statistics[varying] = np.mean(differences, axis=0)
    details: dict[str, Any] = {"statistics_": statistics}
    if settings.copies == 1:
        support[varying] = features.knockoff_select(differences[0], settings.level)
    else:
        details["e_values_"] = np.zeros(x.shape[1])
        details["e_values_"][varying] = features.knockoff_e_values(np.stack(differences), settings.level / 2)
        support[varying] = features.select_by_e_values(details["e_values_"][varying], settings.level)
        if columns >= needed and not details["e_values_"].any():
            _warn_of_none("in no set of copies did so many win, e_values_ are all zero", settings, columns)
    return Selection(support, worths[0].fitted, details)


def _winners_needed(settings: RuleSettings) -> int:
    """Inputs that must beat their copies before any is selected: of several sets each is read at half the level."""
    level = settings.level if settings.copies == 1 else settings.level / 2
    return math.ceil(1 / level - 1e-9)  # 1 / 0.1 need not be 10 to the bit


def _warn_of_none(why: str, settings: RuleSettings, columns: int) -> None:
    fewer = _winners_needed(settings._replace(copies=1))
    one = f"copies=1, which asks for {fewer}; " if settings.copies > 1 and fewer <= columns else ""
    warnings.warn(
        f"knockoffs select nothing: at a false discovery rate of {settings.level:g} with copies={settings.copies}, "
        f"{_winners_needed(settings)} inputs must beat their copies, and {why}. Take {one}a higher rate; or rule='median', "
        "which holds none.",
        UserWarning,
        stacklevel=5,
    )


def _copies(rng_key: jax.Array, rows: np.ndarray, shrinkage: float | str) -> np.ndarray:
    try:
        return features.gaussian_knockoffs(rng_key, rows, rows.mean(axis=0), covariance(rows, shrinkage))
    except ValueError as error:
        raise ValueError(
            f"rule='knockoff' cannot copy X; the selector's shrinkage= is the remedy for few rows: {error}"
        ) from error


RULES: dict[str, Callable[..., Selection]] = {rule.__name__: rule for rule in (median, fdr, fraction, cv, knockoff)}


AUTO = "auto"
LEAST, MOST = 1e-3, 0.999  # share by which correlations are drawn towards 0, so that dependent columns have room to differ
PENALTY = 0.5  # of the graphical lasso, in units of sqrt(log columns / rows)
LARGEST = 500  # columns for it: five seconds, and half a minute for twice as many


def covariance(rows: Float64[np.ndarray, "rows columns"], shrinkage: float | str) -> Float64[np.ndarray, "columns columns"]:
    """The sample's, its correlations drawn towards 0 by the share ``shrinkage``; of "auto" by that of Ledoit & Wolf (2004).

    Where columns are as many as rows, "auto" estimates sparse partial correlations instead, by the graphical lasso. To draw all
    correlations towards 0 makes copies of correlated columns that are too unlike their neighbours: at a level of .2 the false
    discovery rate was then .29 to .35 (`benchmarks/selection.md`). Of more than `LARGEST` columns that is all there is, with
    a warning; and of columns that share a factor, whose partial correlations are not sparse and which the lasso cannot fit.

    Raises `ValueError` for another ``shrinkage``.

    >>> rows = np.random.default_rng(0).standard_normal((50, 60))
    >>> bool(np.abs(covariance(rows, "auto") - np.eye(60)).max() < 0.7)
    True

    Source: Friedman, Hastie & Tibshirani (2008); Ravikumar et al. (2011) for the order of the penalty.
    """
    number, columns = rows.shape
    if shrinkage != AUTO and (isinstance(shrinkage, str) or not 0.0 <= shrinkage < 1.0):
        raise ValueError(f"shrinkage must be a number in [0, 1) or 'auto', got {shrinkage!r}.")
    if shrinkage == AUTO and number <= columns <= LARGEST:
        sparse = _sparse(shrunk_covariance(rows, 0.0), PENALTY * np.sqrt(np.log(columns) / number))
        if sparse is not None:
            return sparse
    if shrinkage == AUTO and columns > max(LARGEST, number - 1):
        warnings.warn(
            f"copies of {columns:,} columns by {number:,} rows are rough: the false discovery rate may be above its level "
            f"where columns are correlated. Give more rows, or at most {LARGEST} columns.",
            UserWarning,
            stacklevel=6,
        )
    share = float(np.clip(ledoit_wolf_shrinkage(rows), LEAST, MOST)) if isinstance(shrinkage, str) else float(shrinkage)
    return shrunk_covariance(rows, share)


def _sparse(covariance: np.ndarray, penalty: float) -> np.ndarray | None:
    """Of the graphical lasso, variances as they are; None where it finds none that is positive definite."""
    spread = np.sqrt(np.diag(covariance))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # as near as it is, it is positive definite
            found, _ = graphical_lasso(covariance / np.outer(spread, spread), min(penalty, 0.99), tol=1e-3)
    except FloatingPointError:
        return None
    scale = spread / np.sqrt(np.diag(found))
    return found * np.outer(scale, scale)  # type: ignore[no-any-return]
