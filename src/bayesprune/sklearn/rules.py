"""Rules that turn fits of a sparse network into a selection of inputs, one function each."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool
from sklearn.covariance import ledoit_wolf_shrinkage

from bayesprune import features
from bayesprune.core.spread import is_constant
from bayesprune.sklearn.base import SparseNetwork
from bayesprune.sklearn.trials import best_of, fit_seeded, judge_of

LEAST_SHRINKAGE, MOST_SHRINKAGE = 1e-3, 0.999


Candidates = Sequence[SparseNetwork]  # of which each rule takes the `best_of`


class RuleSettings(NamedTuple):
    """The knobs of all rules; `BayesianFeatureSelector` says which rule reads which."""

    level: float
    fraction: float
    fractions: Sequence[float]
    cv: int
    cv_rule: str
    shrinkage: float | str


class Selection(NamedTuple):
    """``support``: (features,) booleans. ``estimator``: the network the rule looked at. ``details``: what else it found."""

    support: Bool[np.ndarray, " features"]
    estimator: SparseNetwork
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
    )
    chosen = fraction(fit_key, (estimator,), x, y, settings._replace(fraction=choice.fraction))
    return chosen._replace(details={"fraction_choice_": choice})


def knockoff(rng_key: jax.Array, candidates: Candidates, x: np.ndarray, y: np.ndarray, settings: RuleSettings) -> Selection:
    """Inputs that beat their knockoff copies, with the false discovery rate held at ``level``. Constant columns never do."""
    fit_key, copy_key = jax.random.split(rng_key)
    varying = ~is_constant(x)
    # Copied in standard units: whether the correlations are singular must not depend on the columns' units.
    rows = np.asarray(x[:, varying], np.float64)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    try:
        copies = features.knockoffs(copy_key, rows, _shrinkage(settings.shrinkage, rows))
    except ValueError as error:
        raise ValueError(
            f"rule='knockoff' cannot copy X; the selector's shrinkage= is the remedy for few rows: {error}"
        ) from error
    both = np.concatenate([rows, copies], axis=1)
    fitted = fit_seeded(best_of(fit_key, candidates, both, y), fit_key, both, y)
    originals, rivals = np.split(np.asarray(fitted.feature_importances_, np.float64), 2)
    statistics, support = np.zeros(x.shape[1]), np.zeros(x.shape[1], bool)
    statistics[varying] = originals - rivals
    support[varying] = features.knockoff_select(originals - rivals, settings.level)
    return Selection(support, fitted, {"statistics_": statistics})


def _shrinkage(shrinkage: float | str, rows: np.ndarray) -> float:
    """The share itself; or that of Ledoit & Wolf, and no less than leaves copies of dependent columns room to differ."""
    if not isinstance(shrinkage, str):
        return shrinkage
    if shrinkage != "auto":
        raise ValueError(f"shrinkage must be a number in [0, 1) or 'auto', got {shrinkage!r}.")
    return float(np.clip(ledoit_wolf_shrinkage(rows), LEAST_SHRINKAGE, MOST_SHRINKAGE))


RULES: dict[str, Callable[..., Selection]] = {
    "median": median,
    "fdr": fdr,
    "fraction": fraction,
    "cv": cv,
    "knockoff": knockoff,
}
