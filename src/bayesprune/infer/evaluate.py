"""Held-out figures of a fitted network."""

from typing import Any, TypedDict

import numpy as np

from bayesprune.core.types import Standalone
from bayesprune.infer.log_score import log_density
from bayesprune.infer.predict import check_bnn, predict, predict_draws, standalone
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Bernoulli, Categorical, Normal
from bayesprune.posteriors.samples import draws_of, spread_out
from bayesprune.report import metrics


class Settings(TypedDict):
    """What every prediction is asked with."""

    mask: dict[str, Any] | None
    num_samples: int


def evaluate(
    rng_key: Any,
    bnn: BNN | Any,
    params: dict[str, Any] | None,
    data: Any,
    *,
    mask: dict[str, Any] | None = None,
    num_samples: int = 100,
) -> dict[str, float]:
    """Figures of ``num_samples`` posterior draws on a data set, by name; see `bayesprune.metrics` for the definitions.

    Classification: accuracy, nll, ece, brier, ece_quantile, calibration_marginal. Regression: rmse in the units of y, and with
    a Gaussian likelihood nll, coverage and width of 95 % predictive intervals, noise included. Binary targets: accuracy, brier.
    Of outputs for every token, (rows, tokens, outputs), each token counts as a row: accuracy and nll are per token.

    ``bnn`` may be a `Compact`, which holds its own weights: ``params`` is None then.

    A likelihood of your own may have a method ``metrics(draws, y, params) -> dict[str, float]``, whose figures these then are;
    ``draws``: E[y | x, w], (num_samples, rows, ..., outputs), as `predict_draws` gives them. Without one: the figures of
    classification where its means are probabilities of the classes that y numbers; else the rmse of its mean, where that has
    the shape of y, and the nll of y, where it samples "obs" row by row.

    Raises:
        TypeError: ``bnn`` is no `BNN`; nothing of the above can be said of its likelihood.
        ValueError: see `predict`; and ``data.y`` is not of the shape that the network's outputs ask for.
    """
    return scored(rng_key, bnn, params, data, mask=mask, num_samples=num_samples)[0]


def scored(
    rng_key: Any,
    bnn: BNN | Any,
    params: dict[str, Any] | None,
    data: Any,
    *,
    mask: dict[str, Any] | None = None,
    num_samples: int = 100,
) -> tuple[dict[str, float], np.ndarray | None]:
    """The figures of `evaluate`, and where they are those of classification the probabilities that they come from."""
    if isinstance(bnn, Standalone):
        return _of_standalone(rng_key, standalone(bnn, params, mask), data, num_samples)
    check_bnn(bnn)
    assert params is not None
    y, settings = np.asarray(data.y), Settings(mask=mask, num_samples=num_samples)
    bnn.likelihood.check(y, bnn.output_shape)
    if hasattr(bnn.likelihood, "metrics"):
        figures = bnn.likelihood.metrics(predict_draws(rng_key, bnn, params, data.x, **settings), y, params)
        return {name: float(value) for name, value in figures.items()}, None
    if isinstance(bnn.likelihood, Normal):
        draws = predict_draws(rng_key, bnn, params, data.x, **settings)
        outputs = draws.shape[-1]
        by_token = draws.reshape(len(draws), -1, outputs)
        of = spread_out(params, num_samples) if draws_of(params) else params
        return metrics.regression_summary(by_token, y.reshape(-1, outputs), bnn.likelihood.read_noise_scale(of)), None
    mean = predict(rng_key, bnn, params, data.x, **settings)
    if isinstance(bnn.likelihood, Categorical) or _are_probabilities(mean, y):
        return metrics.classification_summary(mean, y), mean
    if isinstance(bnn.likelihood, Bernoulli):
        return _figures_of_yes_and_no(mean, y), None
    return _figures_of_the_unknown(bnn, mean, y, log_density(rng_key, bnn, params, data, mask, num_samples)), None


def _of_standalone(
    rng_key: Any, network: Standalone, data: Any, num_samples: int
) -> tuple[dict[str, float], np.ndarray | None]:
    y = np.asarray(data.y)
    if network.task == "numbers":
        draws = network.predict_draws(rng_key, data.x, num_samples)
        by_token = draws.reshape(len(draws), -1, draws.shape[-1])
        noise = network.noise(num_samples)
        return metrics.regression_summary(by_token, y.reshape(-1, draws.shape[-1]), noise), None
    mean = predict(rng_key, network, None, data.x, num_samples=num_samples)
    if network.task == "classes":
        return metrics.classification_summary(mean, y), mean
    if network.task == "binary":
        return _figures_of_yes_and_no(mean, y), None
    raise TypeError("the likelihood of this network is one of your own, which a compact one does not hold: compare its draws.")


def _figures_of_yes_and_no(mean: np.ndarray, y: np.ndarray) -> dict[str, float]:
    y = y.reshape(mean.shape)
    return {"accuracy": float(np.mean((mean > 0.5) == y)), "brier": float(np.mean((mean - y) ** 2))}


def _are_probabilities(mean: np.ndarray, y: np.ndarray) -> bool:
    """Whether ``mean`` holds a probability for each class that an integer y may name."""
    if y.dtype.kind not in "iu" or y.shape != mean.shape[:-1] or mean.shape[-1] < 2:
        return False
    return bool((mean >= 0).all() and np.allclose(mean.sum(-1), 1.0, atol=1e-3) and y.min() >= 0 and y.max() < mean.shape[-1])


def _figures_of_the_unknown(bnn: BNN, mean: np.ndarray, y: np.ndarray, nats: np.ndarray | None) -> dict[str, float]:
    figures = {}
    if mean.size == y.size:
        figures["rmse"] = metrics.rmse(mean, y.reshape(mean.shape))
    if nats is not None:
        figures["nll"] = -float(np.mean(nats, dtype=np.float64))
    if not figures:
        raise TypeError(
            f"{type(bnn.likelihood).__name__} has no figures: its mean is no prediction of y, and it samples no 'obs' "
            "row by row; give it a method metrics(draws, y, params) that returns them by name."
        )
    return figures
