"""What is drawn of a fitted estimator: networks, and what they predict, for blocks of rows."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bayesprune.core.checks import check_integer
from bayesprune.core.numbers import joined
from bayesprune.core.streams import OfAnEstimator, stream
from bayesprune.core.types import Dataset
from bayesprune.deploy.program.laws import posterior
from bayesprune.infer.observed import log_density
from bayesprune.infer.predict import predict_draws
from bayesprune.infer.uncertainty import Uncertainty, uncertainty
from bayesprune.posteriors.samples import count, draws_of
from bayesprune.sklearn.places import at_once, filling, repeated


class WithDraws:
    """The methods of both estimators that draw networks."""

    def _networks(self: Any, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters that so many networks can be drawn of, and a mask: those of the fit, if it does not hold too few."""
        if not draws_of(self.params_) or number <= np.prod(count(self.params_)):
            return self.params_, self.mask_
        return self._law.held(stream(self._key(), OfAnEstimator.MEMBERS), number)

    def predict_draws(self: Any, X: ArrayLike | Any) -> np.ndarray:
        """E[y | X, w] of each of the ``num_samples`` networks that a prediction is averaged over.

        Of a regressor (num_samples, rows) or (num_samples, rows, outputs), in the units of y; of a classifier probabilities,
        (num_samples, rows, classes) in the order of ``classes_``. One network for all rows: functions drawn from the posterior.
        """
        return self._drawn(self._rows(X), self.num_samples)

    def _drawn(self: Any, x: np.ndarray, num_samples: int) -> np.ndarray:
        draws = joined(list(self._streamed(predict_draws, x, num_samples)))
        return self._of_draws(np.asarray(draws, np.float64))

    def sample_posterior(self: Any, n_samples: int | Any = 1, random_state: int | Any = 0) -> dict[str, np.ndarray]:
        """Networks drawn from the posterior as it was cut: site -> values (n_samples, ...), zero where a weight is dead.

        Weights are the network's own, for standardised inputs (and targets, of `Normal` and `StudentT`), with the names of
        ``bnn_.layout``. ``random_state``: a whole number, for other draws of the same fit.
        """
        check_is_fitted(self)
        check_integer(n_samples, "n_samples")
        check_integer(random_state, "random_state", minimum=0)
        key = jax.random.fold_in(stream(self._key(), OfAnEstimator.POSTERIOR), random_state)
        params, mask = self._law.drawn(key, n_samples)
        law: Any = posterior(self.bnn_, params, mask, key, n_samples)
        return dict(law.values)

    def uncertainty(self: Any, X: ArrayLike | Any) -> Uncertainty:
        """The uncertainty of each row's prediction in two parts, see `bayesprune.uncertainty`.

        Of a classifier in nats, (rows,); of a regressor variances in the square of y's unit, (rows,) or (rows, outputs).
        """
        x = self._rows(X)
        parts = lambda *args, **how: np.stack(uncertainty(*args, **how))  # noqa: E731
        return Uncertainty(*map(self._of_parts, np.concatenate(list(self._streamed(parts, x)), axis=1)))

    def _filled(self: Any, x: np.ndarray) -> np.ndarray:
        """Standardised, the last row repeated to fill a block: its size decides what is compiled."""
        return self._columns.apply(x[filling(len(x))])

    def _log_density(self: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log p(y | x) of each row, nats, y as the network was trained on."""
        rows = Dataset(self._filled(x), y[filling(len(x))])
        key = stream(self._key(), OfAnEstimator.PREDICTING)
        params, mask = self._networks(self.num_samples)
        nats = log_density(key, self.bnn_, params, rows, mask, self.num_samples)
        if nats is None:
            raise ValueError(f"{type(self.bnn_.likelihood).__name__} has no density of single rows.")
        return np.asarray(nats[: len(x)], np.float64)

    def _streamed(self: Any, draw: Callable[..., Any], x: np.ndarray, num_samples: int | None = None) -> Iterator[Any]:
        """``draw``, called as `predict` is, for blocks of rows, its second axis, the same networks for all.

        Rows are repeated to fill a block: its size decides how XLA rounds, and a row's prediction must not depend on others.
        """
        key, number = stream(self._key(), OfAnEstimator.PREDICTING), num_samples or self.num_samples
        params, mask = self._networks(number)
        size = at_once(len(x))
        for first in range(0, len(x), size):
            rows = x[first : first + size]
            filled = self._columns.apply(rows[repeated(len(rows), size)])
            drawn = draw(key, self.bnn_, params, filled, mask=mask, num_samples=number)
            yield drawn[:, : len(rows)]
