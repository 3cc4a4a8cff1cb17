"""Held-out figures of a fitted network, by what its likelihood observes, and where targets are missing."""

import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import jax
import numpy as np

from bayesprune.core.checks import check_params
from bayesprune.core.fields import check_fields
from bayesprune.core.given import GivenArray, GivenRows, RandomKey
from bayesprune.core.numbers import arrays_in, without_mask
from bayesprune.core.types import Dataset, Mask, PyTree, Standalone
from bayesprune.infer.data import check_same_length
from bayesprune.infer.observed import draws_of_targets, kind_of, log_density
from bayesprune.infer.predict import check_bnn, draws_by_block, part_of, predict, predict_draws, standalone
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Likelihood, Masked, Normal, Ordinal
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.posteriors.samples import count, draws_of, spread_out
from bayesprune.report import metrics
from bayesprune.report.crps import sampled_figures
from bayesprune.report.regression import SumsOfNormals


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


SAMPLES = 1000  # targets drawn of each row, over all networks; of a quantile at 2.5 % they leave an error of .005 in its level
VALUES = 2**22  # of them at once


def figures_of_classes(likelihood: Likelihood, mean: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The figures of probabilities of classes; of ordered ones the ranked probability score besides."""
    ordered = {"rps": metrics.ranked_probability_score(mean, y)} if isinstance(likelihood, Ordinal) else {}
    return metrics.classification_summary(mean, y) | ordered


def figures_of_numbers(draws: np.ndarray, y: np.ndarray, noise_scale: float | np.ndarray | jax.Array) -> dict[str, float]:
    """The figures of draws (num_samples, rows, ..., outputs) with Gaussian noise; each token counts as a row."""
    outputs = draws.shape[-1]
    return metrics.regression_summary(draws.reshape(len(draws), -1, outputs), y.reshape(-1, outputs), noise_scale)


def figures_by_block(draws: Iterable[np.ndarray], y: np.ndarray, noise_scale: Callable[[slice], Any]) -> dict[str, float]:
    """The same of draws that come some rows at a time, so that memory grows with one block.

    ``noise_scale``: rows -> the noise of their targets, which broadcasts against draws (num_samples, rows and tokens, outputs).
    """
    sums, first = SumsOfNormals(), 0
    for block in draws:
        outputs, rows = block.shape[-1], slice(first, first + block.shape[1])
        sums.add(block.reshape(len(block), -1, outputs), y[rows].reshape(-1, outputs), noise_scale(rows))
        first = rows.stop
    return sums.figures()


def figures_of_bits(mean: np.ndarray, y: np.ndarray, nats: np.ndarray | None) -> dict[str, float]:
    """Of the probability of a one: accuracy and Brier score of each label, and the mean of ``-nats``."""
    y = y.reshape(mean.shape)
    return {"accuracy": float(np.mean((mean > 0.5) == y)), "brier": float(np.mean((mean - y) ** 2))} | _nll(nats)


def figures_observed(
    rng_key: jax.Array, bnn: BNN, params: dict[str, Any], data: GivenRows, mean: np.ndarray, mask: Mask | None, num_samples: int
) -> dict[str, float]:
    """Figures by what the likelihood samples as "obs"; and the error of its mean, where that has the targets' shape."""
    y, likelihood = np.asarray(data.y), cast(Any, bnn.likelihood)
    if getattr(likelihood, "exposure", None) is None:
        kind = kind_of(bnn, params)
    else:  # it stands beside the counts in y, and the means are of an exposure of one
        y, exposure = likelihood.apart(y)
        kind, mean = "rates", exposure.reshape(len(y), -1) * mean.reshape(len(y), -1)
    if kind == "gaussian":
        drawn = draws_of_targets(rng_key, bnn, params, data.x, mask, num_samples, read=("loc", "scale"))
        shape = (len(y), *_tokens(bnn, drawn["loc"].shape[2:]), -1)
        loc, scale = (drawn[name].reshape(num, *shape) for name, num in ((n, len(drawn[n])) for n in ("loc", "scale")))
        return figures_of_numbers(loc, y, scale.reshape(len(scale), -1, scale.shape[-1]))
    nats = log_density(rng_key, bnn, params, data, mask, num_samples)
    fits = mean.size == y.size
    if kind == "bits" and fits:
        return figures_of_bits(mean, y, nats)
    figures = ({"rmse": metrics.rmse(mean.reshape(len(y), -1), y.reshape(len(y), -1))} if fits else {}) | _nll(nats)
    if kind == "values":
        found = sampled_by_target(rng_key, bnn, params, data.x, y, mask, num_samples)
        figures |= {name: float(values.mean()) for name, values in found.items()}
    if not figures:
        raise TypeError(
            f"{type(bnn.likelihood).__name__} has no figures: its mean is no prediction of y, and it samples no 'obs' "
            "row by row; give it a method metrics(draws, y, params) that returns them by name."
        )
    return figures


def nll_of_bits(draws: np.ndarray, y: np.ndarray) -> float:
    """-log of the mean over networks of what they say of a row's (or token's) labels together, (num_samples, ..., labels).

    From probabilities in single precision, in which nothing next to 1 lies nearer than 6e-8: at most 16.6 nats for each label.
    """
    probability = np.clip(np.where(y.reshape(draws.shape[1:]) == 1, draws, 1.0 - draws.astype(np.float64)), 2.0**-24, 1.0)
    together = np.log(probability).sum(-1)
    return float(-np.mean(np.logaddexp.reduce(together, axis=0) - math.log(len(draws))))


def sampled_by_target(
    rng_key: jax.Array, bnn: BNN, params: dict[str, Any], x: PyTree, y: np.ndarray, mask: Mask | None, num_samples: int
) -> dict[str, np.ndarray]:
    """The figures of `sampled_figures` of every target, (rows, -1), from samples of so many rows at a time as memory holds."""
    num_networks = min(num_samples, math.prod(count(params))) if draws_of(params) else num_samples
    each = math.ceil(SAMPLES / num_networks)
    rows = max(1, VALUES // (SAMPLES * max(1, y[0].size)))
    parts: dict[str, list[np.ndarray]] = {}
    for first in range(0, len(y), rows):
        part = slice(first, first + rows)
        drawn = draws_of_targets(rng_key, bnn, params, part_of(x, part), mask, num_samples, each)["y"]
        target = y[part].reshape(len(y[part]), -1)
        for name, values in sampled_figures(drawn.reshape(*drawn.shape[:2], -1), target).items():
            parts.setdefault(name, []).append(values)
    return {name: np.concatenate(values) for name, values in parts.items()}


def _tokens(bnn: BNN, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of a row of targets that count as rows: its tokens, where it has those of the network's outputs."""
    tokens = bnn.tokens
    return tokens if shape[: len(tokens)] == tokens else ()


def _nll(nats: np.ndarray | None) -> dict[str, float]:
    return {} if nats is None else {"nll": -float(np.mean(nats, dtype=np.float64))}


def figures_where_observed(
    rng_key: jax.Array, bnn: BNN, params: dict[str, Any], data: GivenRows, mask: Mask | None, num_samples: int
) -> tuple[dict[str, float], np.ndarray | None]:
    """The figures of the likelihood that is masked; of classes also the probabilities of what is observed.

    All but nll are averages over the targets that are observed, of events of several numbers those of which all is. nll is per
    row, or token, in which anything is, its observed outputs together.
    """
    masked: Any = bnn.likelihood
    inner, y = masked.likelihood, np.asarray(data.y)
    if hasattr(inner, "metrics"):
        raise TypeError(
            f"{type(inner).__name__} has figures of its own, which know of nothing missing: predict, and judge there."
        )
    present, targets = masked.counted(y, bnn.output_shape)
    settings: dict[str, Any] = {"mask": mask, "num_samples": num_samples}
    mean = predict(rng_key, bnn, params, data.x, **settings)
    kind, task = kind_of(bnn, params), getattr(inner, "task", "other")
    if task == "classes" or (kind == "classes" and mean.shape[:-1] == present.shape):
        return figures_of_classes(inner, mean[present], targets.astype(np.int32)), mean[present]
    nats = log_density(rng_key, bnn, params, data, mask, num_samples)
    nll = _nll(None if nats is None else nats[present.reshape((*nats.shape, -1)).any(-1)])
    if kind == "bits":
        return figures_of_bits(mean.reshape(present.shape)[present], targets, None) | nll, None
    if (normal := _normals(rng_key, bnn, params, data, kind, settings)) is not None:
        loc, scale = (values.reshape((len(values), *present.shape))[:, present, None] for values in normal)
        return figures_of_numbers(loc, targets[:, None], scale) | nll, None
    if getattr(inner, "exposure", None) is not None:
        mean = inner.apart(y)[1] * mean.reshape(present.shape)
    figures = {"rmse": metrics.rmse(mean.reshape(present.shape)[present], targets)} if mean.size == present.size else {}
    if kind == "values" and present.size == y.size:
        found = sampled_by_target(rng_key, bnn, params, data.x, masked.filled(y), mask, num_samples)
        figures |= {name: float(values.reshape(present.shape)[present].mean()) for name, values in found.items()}
    return figures | nll, None


def _normals(rng_key: jax.Array, bnn: BNN, params: PyTree, data: GivenRows, kind: str | None, settings: dict[str, Any]) -> Any:
    """Means and scales of every network's Gaussian targets, each of one network along the first axis; None of other laws."""
    inner: Any = of_observed(bnn.likelihood)
    if getattr(inner, "known", False):
        draws = predict_draws(rng_key, bnn, params, data.x, **settings)
        scale = inner.apart(np.asarray(data.y))[1]
        return draws, np.broadcast_to(scale.reshape(draws.shape[1:]), draws.shape)
    if kind != "gaussian":
        return None
    drawn = draws_of_targets(rng_key, bnn, params, data.x, settings["mask"], settings["num_samples"], read=("loc", "scale"))
    return drawn["loc"], drawn["scale"]
