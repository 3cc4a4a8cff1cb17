"""The predictive distribution of a regressor's target: samples, quantiles and intervals of it, and its log density at y."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, check_X_y

from bayesprune.core.checks import check_integer, check_level
from bayesprune.core.numbers import without_mask
from bayesprune.core.streams import OfAnEstimator, stream
from bayesprune.infer.observed import draws_of_targets, kind_of
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Masked
from bayesprune.report.regression import predictive_quantile
from bayesprune.sklearn import gaps

EACH = 20  # targets drawn of every network, where quantiles are those of samples
Values = Float64[np.ndarray, "rows ..."]


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
