"""The predictive distribution of targets: densities and moments under drawn networks; of a regressor samples and quantiles.

Densities are computed by NumPy: few programs are compiled.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted, check_X_y

from bayesprune.core.checks import check_integer, check_level
from bayesprune.core.numbers import without_mask
from bayesprune.core.streams import OfAnEstimator, stream
from bayesprune.infer.observed import draws_of_targets, kind_of
from bayesprune.infer.refit_noise import LOC, SCALE
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Masked
from bayesprune.report.regression import predictive_quantile
from bayesprune.sklearn import gaps

SEED = 103  # of the noise's draws: apart from the fit's own
EACH = 20  # targets drawn of every network, where quantiles are those of samples
Values = Float64[np.ndarray, "rows ..."]
Outputs = Float64[np.ndarray, "rows outputs"]
Nats = Float64[np.ndarray, " rows"]
Laws = Float64[np.ndarray, "networks rows outputs 3"]  # degrees of freedom, location and scale


def of_numbers(
    rng: np.random.Generator, params: dict[str, Any], draws: Float[np.ndarray, "networks rows outputs"], y: Outputs
) -> Nats:
    """log p(y) of each row under Gaussian noise that was learned, outputs added up, nats.

      log 1/S sum_s prod_j N(y_j; f_s,j, 1/c_s,j),   log c_s,j ~ N(loc_j, scale_j²)

    for ``draws`` f of the S networks, and one precision drawn for each of them from the noise's posterior in ``params``.

    >>> params = {"noise_precision_log_loc": np.zeros(1), "noise_precision_log_scale": np.zeros(1)}
    >>> of_numbers(np.random.default_rng(0), params, np.zeros((5, 1, 1)), np.zeros((1, 1))).round(4)
    array([-0.9189])
    """
    loc = np.asarray(params[LOC], np.float64)
    drawn = rng.standard_normal((len(draws), *loc.shape))
    log_c = (loc + np.asarray(params.get(SCALE, 0.0), np.float64) * drawn).reshape((len(draws), 1, -1))
    squared = np.exp(log_c) * np.square(np.asarray(draws, np.float64) - y)
    nats = 0.5 * (log_c - np.log(2 * np.pi) - squared).sum(axis=2)
    return np.asarray(logsumexp(nats, axis=0) - np.log(len(draws)), np.float64)


def variances(rng_key: jax.Array, bnn: BNN, params: dict[str, Any], x: np.ndarray, **how: Any) -> Any:
    """Var[y | x, w] of each network, (num_samples, rows, ...); ``how``: mask and num_samples."""
    return draws_of_targets(rng_key, bnn, params, x, read=("variance",), **how)["variance"]


def laws_of_t(rng_key: jax.Array, bnn: BNN, params: dict[str, Any], x: np.ndarray, **how: Any) -> np.ndarray:
    """Degrees of freedom, location and scale of every network's Student t, (num_samples, rows, outputs, 3), by one program.

    ``how``: mask and num_samples.
    """
    found = draws_of_targets(rng_key, bnn, params, x, read=("df", "loc", "scale"), **how)
    laws = np.stack([found[name] for name in ("df", "loc", "scale")], axis=-1, dtype=np.float64)
    return laws.reshape((*laws.shape[:2], -1, 3))


def of_t(laws: Laws, y: Outputs) -> Nats:
    """log 1/S sum_s prod_j t(y_j; df_s,j, loc_s,j, scale_s,j) of each row, nats.

    >>> of_t(np.full((5, 1, 1, 3), [3.0, 0.0, 1.0]), np.zeros((1, 1))).round(4)
    array([-1.0009])
    """
    nats = stats.t.logpdf(y, *np.moveaxis(laws, -1, 0)).sum(axis=2)
    return np.asarray(logsumexp(nats, axis=0) - np.log(len(laws)), np.float64)


def moments_of_t(laws: Laws) -> tuple[Outputs, Outputs]:
    """Mean and variance of the mixture over networks, infinite at two degrees of freedom and below.

    >>> [float(one[0, 0]) for one in moments_of_t(np.full((5, 1, 1, 3), [4.0, 1.0, 2.0]))]
    [1.0, 8.0]
    """
    df, loc, scale = np.moveaxis(laws, -1, 0)
    with np.errstate(divide="ignore"):
        noise = np.where(df > 2.0, np.square(scale) * df / np.abs(df - 2.0), np.inf)
    return loc.mean(axis=0), loc.var(axis=0) + noise.mean(axis=0)


def of_labels(probabilities: Float64[np.ndarray, "rows classes"], labels: Int64[np.ndarray, " rows"]) -> Nats:
    """log p of each row's own class, nats; -inf of a probability that was rounded to zero."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities[np.arange(len(labels)), labels])  # type: ignore[no-any-return]


class PredictiveDistribution:
    """Methods of `BayesianSparseRegressor` on the whole predictive distribution, in the units of y."""

    def sample_y(self: Any, X: ArrayLike | Any, n_samples: int | Any = 1, random_state: int | Any = 0) -> Values:
        """Targets drawn from the predictive distribution, noise included, each by a network of its own.

        Returns (rows, n_samples), or (rows, outputs, n_samples), as scikit-learn's Gaussian processes do. ``random_state``: a
        whole number, for other draws of the same fit.
        """
        x = self._rows(X)
        check_integer(n_samples, "n_samples")
        check_integer(random_state, "random_state", minimum=0)
        key = jax.random.fold_in(stream(self._key(), OfAnEstimator.DISTRIBUTION), random_state)
        params, mask = self._law.drawn(stream(key, OfAnEstimator.MEMBERS), n_samples)
        drawn = draws_of_targets(key, self.bnn_, params, self._filled(x), mask, n_samples)["y"]
        return np.stack([self._in_units(one[: len(x)], self._target_scaling.loc) for one in drawn], axis=-1)

    def predict_quantiles(self: Any, X: ArrayLike | Any, quantiles: Sequence[float] | Any = (0.05, 0.5, 0.95)) -> Values:
        """Quantiles of the predictive distribution: (rows, quantiles), or (rows, outputs, quantiles).

        Under Gaussian noise they are exact for the ``num_samples`` networks drawn: the quantiles of their mixture. Under
        another likelihood they are of 20 targets of each network, with an error of about sqrt(p (1 - p) / (20 num_samples))
        in p.
        """
        x, levels = self._rows(X), np.asarray(without_mask(quantiles, "quantiles"), np.float64)
        if levels.ndim != 1 or not levels.size or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"quantiles must be a list of probabilities in (0, 1), got {quantiles!r}.")
        quantiles_of = functools.partial(_quantiles, levels, kind_of(self.bnn_, self.params_) == "gaussian")
        found = np.concatenate(list(self._streamed(quantiles_of, x)), axis=1)
        return np.stack([self._in_units(one, self._target_scaling.loc) for one in found], axis=-1)

    def predict_interval(self: Any, X: ArrayLike | Any, level: float | Any = 0.9) -> Values:
        """The central interval that holds a new y with probability ``level``: (rows, 2), or (rows, outputs, 2)."""
        check_level(level, "level")
        return self.predict_quantiles(X, (0.5 - 0.5 * level, 0.5 + 0.5 * level))

    def log_density(self: Any, X: ArrayLike | Any, y: ArrayLike | Any) -> Float64[np.ndarray, " rows"]:
        """log p(y | X) of each row under the predictive distribution, in nats, of densities in the units of y.

        Several outputs of a row share their networks, and count together; where fitted to targets with gaps, what is missing
        counts for nothing. Its mean, negated, is the NLL.
        """
        check_is_fitted(self)
        y = without_mask(y, "y")
        missing = gaps.gaps_in(y, self.likelihood)
        if missing is not None and not isinstance(self.bnn_.likelihood, Masked):
            raise ValueError("y has gaps, and the targets of the fit had none: leave the rows with gaps out of X and y.")
        x, whole = check_X_y(self._rows(X), gaps.without(y, missing), dtype=np.float64, multi_output=True, y_numeric=True)
        columns = np.asarray(whole, np.float64).reshape((len(x), -1))
        if columns.shape[1] != (outputs := int(np.prod(self._outputs))):
            raise ValueError(f"y has {columns.shape[1]} column(s), and the fit had {outputs}: give a target for each output.")
        columns = columns if missing is None else np.where(missing, np.nan, columns)
        units = np.where(np.isnan(columns), 0.0, np.log(self._target_scaling.scale)).sum(axis=1)
        scaled = self._target_scaling.apply(columns)
        return self._log_density(x, scaled[:, 0] if scaled.shape[1] == 1 else scaled) - units


def _quantiles(
    levels: np.ndarray, exact: bool, rng_key: jax.Array, bnn: BNN, params: dict[str, Any], x: np.ndarray, **how: Any
) -> np.ndarray:
    """(levels, rows, ...) of the mixture of the networks' Gaussians, ``exact``; else of targets drawn of every network.

    ``how``: mask and num_samples.
    """
    if not exact:
        drawn = draws_of_targets(rng_key, bnn, params, x, each=EACH, **how)
        return np.quantile(drawn["y"], levels, axis=0, method="inverted_cdf")
    drawn = draws_of_targets(rng_key, bnn, params, x, read=("loc", "scale"), **how)
    return np.stack([predictive_quantile(drawn["loc"], drawn["scale"], level) for level in levels])
