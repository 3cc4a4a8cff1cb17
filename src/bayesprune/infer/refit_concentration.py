"""The learned concentration of counts of a pruned network: its posterior given the weights that are left."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, xlog1py, xlogy

from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import NegativeBinomial
from bayesprune.model.likelihoods.masked import of_observed

LOC, SCALE = "concentration_log_loc", "concentration_log_scale"
REACH = 25.0  # of log r about the prior's mode, far beyond what counts can tell
STEP = 1e-2  # of the second difference


def learns_concentration(bnn: BNN, params: dict[str, Any]) -> bool:
    """Whether counts have a concentration that is learned, as a density."""
    return isinstance(of_observed(bnn.likelihood), NegativeBinomial) and LOC in params and SCALE in params


def concentration_of(
    likelihood: NegativeBinomial,
    params: dict[str, Any],
    means: Float[np.ndarray, "networks rows outputs"],
    y: Shaped[np.ndarray, "rows outputs"],
    observed: Bool[np.ndarray, "rows outputs"],
) -> dict[str, np.ndarray]:
    """The parameters of q(log r) = N(mode, -1 / curvature) of

      g(rho) = sum_i E_w[log p(y_i | m_i(w), r = exp rho)] + a rho - b exp(rho)                           (21.18)

    with p of (21.5), and a and b those of the prior of r. Training raises rho from 0 step by step, while the weights still
    move, and has often not come to where it is going: where the counts are Poisson's, that is far.

    ``means``: E[y | x, w] of networks drawn from the posterior; ``y``: counts, whatever where they are not ``observed``. Of a
    concentration for every output each has its own, of a shared one all together.
    """
    start = np.broadcast_to(1.0 if likelihood.start is None else np.asarray(likelihood.start, np.float64), y.shape[-1:])
    columns = [[place] for place in range(y.shape[-1])] if np.ndim(params[LOC]) else [list(range(y.shape[-1]))]
    found = []
    for places in columns:
        seen = observed[:, places]
        counts, drawn = np.asarray(y[:, places], np.float64)[seen], means[:, :, places][:, seen]
        shape, rate = likelihood.concentration_shape, likelihood.concentration_rate / float(np.mean(start[places]))
        found.append(_normal(_bound(counts, drawn, shape, rate), math.log(shape / rate)))
    dtype = np.asarray(params[LOC]).dtype
    shaped = np.asarray(found, dtype).T.reshape((2, *np.shape(params[LOC])))
    return {LOC: np.asarray(shaped[0]), SCALE: np.asarray(shaped[1])}


def _bound(counts: np.ndarray, means: np.ndarray, shape: float, rate: float) -> Callable[[float], float]:
    """g of (21.18), but for what does not depend on rho."""

    def bound(rho: float) -> float:
        r = math.exp(rho)
        fit = np.mean(xlogy(counts, means / (r + means)) - xlog1py(r, means / r), axis=0)
        return float(np.sum(gammaln(counts + r) - gammaln(r) + fit)) + shape * rho - rate * r

    return bound


def _normal(bound: Callable[[float], float], centre: float) -> tuple[float, float]:
    """The mode and the standard deviation that its curvature says."""
    mode = float(minimize_scalar(lambda rho: -bound(rho), bounds=(centre - REACH, centre + REACH), method="bounded").x)
    curvature = (2 * bound(mode) - bound(mode - STEP) - bound(mode + STEP)) / STEP**2
    return mode, max(curvature, 1e-6) ** -0.5
