"""Held-out figures of a fitted network."""

from typing import Any

import numpy as np

from bayesprune.core.checks import check_params
from bayesprune.core.fields import check_fields
from bayesprune.core.given import GivenArray, GivenRows, RandomKey
from bayesprune.core.numbers import arrays_in, without_mask
from bayesprune.core.types import Dataset, Mask, Standalone
from bayesprune.infer.data import check_same_length
from bayesprune.infer.judge import (
    figures_by_block,
    figures_observed,
    figures_of_bits,
    figures_of_classes,
    figures_of_numbers,
    figures_where_observed,
    nll_of_bits,
)
from bayesprune.infer.predict import check_bnn, draws_by_block, predict, predict_draws, standalone
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Masked, Normal
from bayesprune.posteriors.samples import draws_of, spread_out
from bayesprune.report import metrics


def evaluate(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params: dict[str, Any] | None,
    data: GivenRows,
    *,
    mask: dict[str, Any] | None = None,
    num_samples: int = 100,
) -> dict[str, float]:
    """Figures of ``num_samples`` posterior draws on a data set, by name; see `bayesprune.metrics` for the definitions.

    Classification: accuracy, nll, ece, brier, ece_quantile, calibration_marginal; of ordered classes (`likelihoods.Ordinal`)
    rps besides. Binary targets: accuracy and brier (p - y)² of each label, half of that of two classes, nll of a row's labels
    together. All others: rmse in the units of y, nll, and of the predictive distribution, noise included, crps, coverage and
    width of 95 % intervals: exact for Gaussian noise, also of scales that are known, else from a thousand targets drawn for
    each row. Of outputs for every token, (rows, tokens, outputs), each token counts as a row: accuracy and nll are per token.
    Of counts with known exposures: rmse and nll. Of `likelihoods.Masked` ones: of what is observed.

    ``bnn`` may be a `Compact`, which holds its own weights: ``params`` is None then. It holds no distribution of y: it has
    figures of classes, of binary targets, and of Gaussian noise that is the same for all rows.

    A likelihood of your own may have a method ``metrics(draws, y, params) -> dict[str, float]``, whose figures these then are;
    ``draws``: E[y | x, w], (num_samples, rows, ..., outputs), as `predict_draws` gives them. Without one: the figures of
    classification where its means are probabilities of the classes that y numbers; else those of what it samples as "obs".

    Raises:
        TypeError: ``bnn`` is no `BNN`, ``data`` no data set; nothing of the above can be said of its likelihood.
        ValueError: see `predict`; and ``data.y`` is not of the shape that the network's outputs ask for.
    """
    return scored(rng_key, bnn, params, data, mask=mask, num_samples=num_samples)[0]


def scored(
    rng_key: RandomKey, bnn: BNN | Any, params: dict[str, Any] | None, data: GivenRows, mask: Mask | None, num_samples: int
) -> tuple[dict[str, float], np.ndarray | None]:
    """The figures of `evaluate`, and where they are those of classification the probabilities that they come from."""
    check_fields(data, "data")
    data = Dataset(arrays_in(data.x), _targets(data.y))
    check_same_length(data.x, data.y, "data")
    if isinstance(bnn, Standalone):
        return _of_standalone(rng_key, standalone(bnn, params, mask), data, num_samples)
    check_bnn(bnn)
    check_params(params)
    assert params is not None  # for mypy: None was refused above
    settings: dict[str, Any] = {"mask": mask, "num_samples": num_samples}
    y = data.y
    likelihood: Any = bnn.likelihood
    likelihood.check(y, bnn.output_shape)
    if isinstance(likelihood, Masked):
        return figures_where_observed(rng_key, bnn, params, data, **settings)
    if hasattr(likelihood, "metrics"):
        figures = likelihood.metrics(predict_draws(rng_key, bnn, params, data.x, **settings), y, params)
        return {name: float(value) for name, value in figures.items()}, None
    task = getattr(likelihood, "task", "other")
    if isinstance(likelihood, Normal) and likelihood.known:
        targets, scale = likelihood.apart(y)
        blocks = draws_by_block(rng_key, bnn, params, data.x, mask, num_samples)
        return figures_by_block(blocks, targets, lambda rows: scale[rows].reshape(-1, bnn.output_shape[-1])), None
    if task == "numbers":
        blocks = draws_by_block(rng_key, bnn, params, data.x, mask, num_samples)
        noise = likelihood.read_noise_scale(spread_out(params, num_samples) if draws_of(params) else params)
        return figures_by_block(blocks, y, lambda rows: noise), None
    mean = predict(rng_key, bnn, params, data.x, **settings)
    if task == "classes" or _are_probabilities(mean, y):
        return figures_of_classes(likelihood, mean, y), mean
    return figures_observed(rng_key, bnn, params, data, mean, **settings), None


def _targets(y: GivenArray) -> np.ndarray:
    """Targets as an array of numbers: bits are whole numbers, as a fit has them; floats keep the digits that they come with."""
    array = np.asarray(without_mask(y, "data.y"))
    return array.astype(np.int32) if array.dtype == bool else array


def _of_standalone(
    rng_key: RandomKey, network: Standalone, data: Dataset, num_samples: int
) -> tuple[dict[str, float], np.ndarray | None]:
    y = data.y
    if network.task == "numbers":
        return figures_of_numbers(network.predict_draws(rng_key, data.x, num_samples), y, network.noise(num_samples)), None
    mean = predict(rng_key, network, None, data.x, num_samples=num_samples)
    if network.task == "classes":
        return metrics.classification_summary(mean, y), mean
    if network.task == "binary":
        if not np.isin(y, (0, 1)).all():
            raise ValueError("data.y must hold only 0 and 1, of a compact network of bits: write its labels as these.")
        draws = network.predict_draws(rng_key, data.x, num_samples)
        return figures_of_bits(mean, y, None) | {"nll": nll_of_bits(draws, y)}, None
    raise TypeError(
        "a compact network holds the mean of y, not its distribution, which the figures of this likelihood are of: evaluate "
        "the BNN with its parameters, or compare predictions, as in bp.metrics.rmse(small.predict(x), y)."
    )


def _are_probabilities(mean: np.ndarray, y: np.ndarray) -> bool:
    """Whether ``mean`` holds a probability for each class that an integer y may name."""
    if y.dtype.kind not in "iu" or y.shape != mean.shape[:-1] or mean.shape[-1] < 2:
        return False
    return bool((mean >= 0).all() and np.allclose(mean.sum(-1), 1.0, atol=1e-3) and y.min() >= 0 and y.max() < mean.shape[-1])
