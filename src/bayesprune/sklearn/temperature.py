"""One number that a classifier's logits are divided by, so that its probabilities hold on rows that it has not seen."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from bayesprune.model.bnn import BNN
from bayesprune.posteriors import params as posterior_params

REFERENCE = "guo2017calibration"
SPREAD = 0.3  # standard deviation of log T a priori: of forty rows, a few of which surprise, T goes half of the way
FARTHEST = 2.0  # of log T from 0
ROWS = 2000  # that T is found by: a single number needs no more


def tempered(draws: Float[np.ndarray, "networks rows classes"], temperature: float) -> Float64[np.ndarray, "rows classes"]:
    """Mean over the networks of softmax(f_s / T), of their probabilities softmax(f_s).

    >>> tempered(np.array([[[0.8, 0.2]]]), 2.0).round(4)
    array([[0.6667, 0.3333]])
    """
    return softmax(_log(draws) / temperature, axis=-1).mean(axis=0)  # type: ignore[no-any-return]


def temperature_of(draws: Float[np.ndarray, "networks rows classes"], labels: Int64[np.ndarray, " rows"]) -> float:
    """The T of the highest

      sum_i log 1/S sum_s softmax(f_s(x_i) / T)_{y_i}  -  (log T)² / (2 · 0.3²)                               (21.31)

    for probabilities ``draws`` = softmax(f_s(x_i)) of S networks on rows that they have not seen; at most 2,000 of those.

    Source: Guo, Pleiss, Sun & Weinberger (2017), section 4.2; its penalty is ours, for sets of which few rows are held out.
    """
    some = slice(None, None, -(-len(labels) // ROWS))
    log_p, places = _log(draws[:, some]), (np.arange(len(labels[some])), labels[some])

    def loss(log_t: float) -> float:
        probabilities = softmax(log_p / np.exp(log_t), axis=-1).mean(axis=0)[places]
        return float(0.5 * (log_t / SPREAD) ** 2 - np.log(np.maximum(probabilities, np.finfo(float).tiny)).sum())

    found = minimize_scalar(loss, bounds=(-FARTHEST, FARTHEST), method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))


def cool(bnn: BNN, params: dict[str, Any], temperature: float) -> dict[str, Any]:
    """The parameters with all weights of the last layers divided by T, and so the logits.

    The network itself then has the calibrated probabilities, also when it is compacted or exported.
    """
    nodes: dict[str, Any] = bnn.posterior(params)
    last = {str(spec.path): nodes[str(spec.path)] for spec in bnn.layout if spec.path.is_last}
    return posterior_params.write(params, {site: _cooled(node, temperature) for site, node in last.items()})


def _cooled(node: Any, temperature: float) -> Any:
    loc, scale = np.asarray(node.loc), np.asarray(node.scale)
    return replace(node, loc=(loc / temperature).astype(loc.dtype), scale=(scale / temperature).astype(scale.dtype))


def _log(draws: np.ndarray) -> Float64[np.ndarray, "networks rows classes"]:
    """Probabilities that float32 rounds to zero are the least that it has."""
    return np.log(np.maximum(np.asarray(draws, np.float64), np.finfo(np.float32).tiny))
