"""Log densities of targets under drawn networks, computed by NumPy: no further program is compiled."""

from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.special import logsumexp

from bayesprune.infer.refit_noise import LOC, SCALE

SEED = 103  # of the noise's draws: apart from the fit's own


def of_numbers(
    rng: np.random.Generator,
    params: dict[str, Any],
    draws: Float[np.ndarray, "networks rows outputs"],
    y: Float64[np.ndarray, "rows outputs"],
) -> Float64[np.ndarray, " rows"]:
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


def of_labels(
    probabilities: Float64[np.ndarray, "rows classes"], labels: Int64[np.ndarray, " rows"]
) -> Float64[np.ndarray, " rows"]:
    """log p of each row's own class, nats; -inf of a probability that was rounded to zero."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities[np.arange(len(labels)), labels])  # type: ignore[no-any-return]
