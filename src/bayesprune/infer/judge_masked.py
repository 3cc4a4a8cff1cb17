"""Held-out figures where targets are missing: of what is observed alone."""

from typing import Any

import jax
import numpy as np

from bayesprune.core.given import GivenRows
from bayesprune.core.types import Mask, PyTree
from bayesprune.infer.judge import figures_of_bits, figures_of_numbers, sampled_by_target
from bayesprune.infer.log_score import log_density
from bayesprune.infer.observed import draws_of_targets, kind_of
from bayesprune.infer.predict import predict, predict_draws
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Ordinal
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.report import metrics


def figures_where_observed(
    rng_key: jax.Array, bnn: BNN, params: dict[str, Any], data: GivenRows, mask: Mask | None, num_samples: int
) -> tuple[dict[str, float], np.ndarray | None]:
    """The figures of the likelihood that is masked; of classes also the probabilities of what is observed.

    All but nll are averages over the targets that are observed. nll is per row, or token, in which anything is, its observed
    outputs together.
    """
    masked: Any = bnn.likelihood
    inner, y = masked.likelihood, np.asarray(data.y)
    if hasattr(inner, "metrics"):
        raise TypeError(
            f"{type(inner).__name__} has figures of its own, which know of nothing missing: predict, and judge there."
        )
    present, targets = masked.present(y), masked.observed(y)
    settings: dict[str, Any] = {"mask": mask, "num_samples": num_samples}
    mean = predict(rng_key, bnn, params, data.x, **settings)
    kind, task = kind_of(bnn, params), getattr(inner, "task", "other")
    if task == "classes" or (kind == "classes" and mean.shape[:-1] == present.shape):
        ordered, labels = mean[present], targets.astype(np.int32)
        more = {"rps": metrics.ranked_probability_score(ordered, labels)} if isinstance(inner, Ordinal) else {}
        return metrics.classification_summary(ordered, labels) | more, ordered
    nll = _nll(log_density(rng_key, bnn, params, data, mask, num_samples), present)
    if kind == "bits":
        return figures_of_bits(mean.reshape(present.shape)[present], targets, None) | nll, None
    if (normal := _normals(rng_key, bnn, params, data, kind, settings)) is not None:
        loc, scale = (values.reshape((len(values), *present.shape))[:, present, None] for values in normal)
        return figures_of_numbers(loc, targets[:, None], scale) | nll, None
    if getattr(inner, "exposure", None) is not None:
        mean = inner.apart(y)[1] * mean.reshape(present.shape)
        return {"rmse": metrics.rmse(mean[present], targets)} | nll, None
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


def _nll(nats: np.ndarray | None, present: np.ndarray) -> dict[str, float]:
    if nats is None:
        return {}
    anything = present.reshape((*nats.shape, -1)).any(-1)
    return {"nll": -float(np.mean(nats[anything], dtype=np.float64))}
