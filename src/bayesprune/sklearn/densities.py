"""Densities and moments of targets under drawn networks, computed by NumPy: few programs are compiled."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy import stats
from scipy.special import logsumexp

from bayesprune.infer.observed import draws_of_targets
from bayesprune.infer.refit_noise import LOC, SCALE
from bayesprune.model.bnn import BNN

SEED = 103  # of the noise's draws: apart from the fit's own

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
