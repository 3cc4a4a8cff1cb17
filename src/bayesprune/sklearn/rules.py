"""Rules that turn fits of a sparse network into a selection of inputs, one function each."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool
from sklearn.base import clone, is_classifier
from sklearn.covariance import ledoit_wolf_shrinkage

from bayesprune import features
from bayesprune.data.scaling import fit_scaling
from bayesprune.report.classification import nll
from bayesprune.sklearn.base import SparseNetwork

LEAST_SHRINKAGE, MOST_SHRINKAGE = 1e-3, 0.999
UNSURE = 1e-7  # share of the classes that a fold's network gives to each of them, so that none it never saw costs infinity


class Settings(NamedTuple):
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


def fit_seeded(estimator: SparseNetwork, rng_key: jax.Array, x: Any, y: Any) -> SparseNetwork:
    """A fitted clone, with the seed that a key stands for.

    Under "auto", the prior for prediction, every second weight is there a priori, and of an input some weight nearly always:
    to select, the sparse prior is taken in its place.
    """
    seed = int(jax.random.randint(rng_key, (), 0, np.iinfo(np.int32).max))
    sparse = {"prior": "dirac_slab"} if isinstance(estimator.prior, str) and estimator.prior == "auto" else {}
    return clone(estimator).set_params(random_state=seed, **sparse).fit(x, y)


def median(rng_key: jax.Array, estimator: SparseNetwork, x: Any, y: Any, settings: Settings) -> Selection:
    """Inputs of the median probability network, as it was cut."""
    fitted = fit_seeded(estimator, rng_key, x, y)
    return Selection(fitted.used_features_, fitted, {})


def fdr(rng_key: jax.Array, estimator: SparseNetwork, x: Any, y: Any, settings: Settings) -> Selection:
    """The largest selection with an expected share of false inputs of at most ``level``."""
    fitted = fit_seeded(estimator, rng_key, x, y)
    if not fitted._inputs.gated:
        raise ValueError(
            f"rule='fdr' needs inclusion probabilities, which prior={estimator.prior!r} does not give: take 'dirac_slab' or "
            "'gaussian_slab', or rule='knockoff'."
        )
    return Selection(features.control_fdr(fitted.inclusion_probabilities_, settings.level), fitted, {})


def fraction(rng_key: jax.Array, estimator: SparseNetwork, x: Any, y: Any, settings: Settings) -> Selection:
    """The stated share of the inputs, the most important ones."""
    fitted = fit_seeded(estimator, rng_key, x, y)
    return Selection(features.top_fraction(fitted._inputs.log_importance, settings.fraction), fitted, {})


def cv(rng_key: jax.Array, estimator: SparseNetwork, x: Any, y: Any, settings: Settings) -> Selection:
    """The share of the inputs that predicts held-out rows best, then that share of them by a fit to all rows."""
    fit_key, cv_key = jax.random.split(rng_key)
    targets, loss = _labels(y) if is_classifier(estimator) else _values(y)
    choice = features.choose_fraction(
        cv_key,
        lambda key, x, y, x_held, y_held: loss(fit_seeded(estimator, key, x, y), x_held, y_held),
        # Dropped inputs become 0, which should be their mean.
        x - x.mean(axis=0),
        targets,
        lambda key, x, y: fit_seeded(estimator, key, x, y)._inputs.log_importance,
        settings.fractions,
        settings.cv,
        settings.cv_rule,
    )
    chosen = fraction(fit_key, estimator, x, y, settings._replace(fraction=choice.fraction))
    return chosen._replace(details={"fraction_choice_": choice})


def knockoff(rng_key: jax.Array, estimator: SparseNetwork, x: Any, y: Any, settings: Settings) -> Selection:
    """Inputs that beat their knockoff copies, with the false discovery rate held at ``level``. Constant columns never do."""
    fit_key, copy_key = jax.random.split(rng_key)
    varying = np.ptp(x, axis=0) > 0
    rows = x[:, varying]
    # Copied in standard units: whether the correlations are singular must not depend on the columns' units.
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    try:
        copies = features.knockoffs(copy_key, rows, _shrinkage(settings.shrinkage, rows))
    except ValueError as error:
        raise ValueError(
            f"rule='knockoff' cannot copy X; the selector's shrinkage= is the remedy for few rows: {error}"
        ) from error
    fitted = fit_seeded(estimator, fit_key, np.concatenate([rows, copies], axis=1), y)
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


def _values(y: Any) -> tuple[np.ndarray, Callable[..., float]]:
    """Targets as they are, and the mean squared error in units of their deviation, so that several outputs count alike."""
    values = np.asarray(y, np.float64)
    scale = fit_scaling(values).scale
    return values, lambda fitted, x, y: float(np.mean(((fitted.predict(x) - y) / scale) ** 2))


def _labels(y: Any) -> tuple[np.ndarray, Callable[..., float]]:
    """Labels counted from 0, and the negative log probability, nats per row; a fold need not show every class."""
    classes, labels = np.unique(y, return_inverse=True)

    def loss(fitted: Any, x: Any, y: Any) -> float:
        probabilities = np.full((len(x), len(classes)), UNSURE)
        probabilities[:, fitted.classes_] += fitted.predict_proba(x)
        return nll(probabilities / probabilities.sum(axis=1, keepdims=True), y)

    return labels, loss
