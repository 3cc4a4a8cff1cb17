"""Held-out figures of a fitted network."""

from typing import Any

import numpy as np

from bayesprune.infer.predict import check_bnn, predict, predict_draws
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Categorical, Normal
from bayesprune.report import metrics


def evaluate(
    rng_key: Any,
    bnn: BNN | Any,
    params: dict[str, Any],
    data: Any,
    *,
    mask: dict[str, Any] | None = None,
    num_samples: int = 100,
) -> dict[str, float]:
    """Figures of ``num_samples`` posterior draws on a data set, by name; see `bayesprune.metrics` for the definitions.

    Classification: accuracy, nll, ece, brier, ece_quantile, calibration_marginal. Regression: rmse in the units of y, and with
    a Gaussian likelihood nll, coverage and width of 95 % predictive intervals, noise included. Binary targets: accuracy, brier.

    Raises:
        TypeError: ``bnn`` is no `BNN`.
        ValueError: see `predict`.
    """
    check_bnn(bnn)
    y = np.asarray(data.y)
    if isinstance(bnn.likelihood, Categorical):
        probs = predict(rng_key, bnn, params, data.x, mask=mask, num_samples=num_samples)
        extra = {"ece_quantile": metrics.ece_quantile(probs, y), "calibration_marginal": metrics.calibration_marginal(probs, y)}
        return {name: float(value) for name, value in (metrics.summary(probs, y) | extra).items()}
    if isinstance(bnn.likelihood, Normal):
        draws = predict_draws(rng_key, bnn, params, data.x, mask=mask, num_samples=num_samples)
        return metrics.regression_summary(draws, y, bnn.likelihood.read_noise_scale(params))
    mean = predict(rng_key, bnn, params, data.x, mask=mask, num_samples=num_samples)
    y = y.reshape(mean.shape)
    return {"accuracy": float(np.mean((mean > 0.5) == y)), "brier": float(np.mean((mean - y) ** 2))}
