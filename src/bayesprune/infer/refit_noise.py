"""The learned noise of a pruned network, Gaussian or of counts, given the weights that are left; and their scales under it."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Shaped
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, xlog1py, xlogy

from bayesprune.core.checks import check_integer, check_key
from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.send import send
from bayesprune.core.types import Node
from bayesprune.infer.data import check_program_data
from bayesprune.infer.predict import check_bnn, predict_draws
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Masked, NegativeBinomial, Normal
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.posteriors import params as posterior_params

LOC, SCALE = "noise_precision_log_loc", "noise_precision_log_scale"
ROWS = 8192  # whose draws are held at once


def refit_noise(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params: dict[str, Any] | Any,
    data: GivenRows,
    *,
    mask: dict[str, Any] | Any = None,
    num_samples: int = 100,
) -> dict[str, Any]:
    """Give a network of learned Gaussian noise the noise of its weights as they are now, as after a cut.

    In training the noise explains what weights that were cut since have added; then intervals are too wide. Its posterior given
    that of the weights is the Gamma distribution of coordinate ascent, for N targets,

      p(y | w, c) = N(f(w), 1/c),    q(c) = Gamma(A, B),    A = a + N/2,    B = b + sum_i E_w[(y_i - f_i(w))²] / 2

    With a noise for every output, N is that output's number of targets, and the sum is over its errors; c of each its own.
    Of q the guide's log-normal takes the maximum of the ELBO: variance 1/A, mean log(A/B) - 1/(2 A), of log c. The point of
    ``posterior="map"`` is the mode, (A - 1)/B.

    Args:
        rng_key: a JAX random key, for the draws of the weights.
        bnn: the network that was fitted, of `likelihoods.Normal()`, whose a and b are its noise_shape and noise_rate.
        params: its parameters, as in ``fit.params`` or ``pruned.params``.
        data: the training data, fields x and y.
        mask: site -> booleans, True = alive; None prunes nothing beyond what ``params`` hold.
        num_samples: networks drawn for the expectation.

    Returns:
        ``params`` with another noise; all else is shared.

    Raises:
        ValueError: the noise is given, predicted, or of another likelihood; ``params`` are samples, or not this network's; a
            point's A is not above 1.
        TypeError: ``bnn`` is no `BNN`.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("diabetes")
        >>> bnn = bp.BNN(bp.nets.MLP((8,), 1), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=(10,))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=20, batch_size=64)
        >>> pruned = bp.bmr_prune(fit.params, program=bnn)
        >>> params = bp.refit_noise(jax.random.key(1), bnn, pruned.params, train, mask=pruned.mask)
        >>> [name for name in params if params[name] is not pruned.params[name]]
        ['noise_precision_log_loc', 'noise_precision_log_scale']

    Source: Bishop (2006), section 10.3.1, for the Gamma distribution.
    """
    rng_key = check_key(rng_key)
    check_bnn(bnn)
    check_integer(num_samples, "num_samples")
    if not learns_noise(bnn, params):
        raise ValueError(
            f"params of a network of {bnn.likelihood!r} hold no {LOC!r}: only the noise of likelihoods.Normal(), where fit_svi "
            "learns one for all rows, can be refitted. Of samples each network has its own, a given or predicted one stays."
        )
    data = check_program_data(bnn, data, "data")
    squared, count = np.zeros(()), np.zeros(())
    for first in range(0, len(data.y), ROWS):
        x, y = jax.tree.map(lambda leaf, at=first: leaf[at : at + ROWS], (data.x, data.y))
        drawn, observed = predict_draws(rng_key, bnn, params, x, mask=mask, num_samples=num_samples), present_in(bnn, y)
        squared, count = squared + squared_errors(drawn, y, params, observed), count + counts(observed, params)
    return params | noise_of(of_observed(bnn.likelihood), params, squared, count)


def learns_noise(bnn: BNN, params: dict[str, Any]) -> bool:
    """Whether there is a Gaussian noise, the same for all rows, that is learned, as a density or a point."""
    likelihood = of_observed(bnn.likelihood)
    return isinstance(likelihood, Normal) and likelihood.learns_noise and LOC in params


def present_in(bnn: BNN, y: np.ndarray | jax.Array) -> np.ndarray:
    """Which targets are observed: all, but of a masked likelihood."""
    likelihood, y = bnn.likelihood, np.asarray(y)
    return np.asarray(likelihood.present(y)) if isinstance(likelihood, Masked) else np.ones(y.shape, bool)


def counts(observed: np.ndarray, params: dict[str, Any]) -> np.ndarray:
    """How many targets there are of every noise in ``params``."""
    return np.asarray(observed.reshape((-1, *np.shape(params[LOC]))).sum(axis=0))


def squared_errors(
    draws: np.ndarray | jax.Array, y: np.ndarray | jax.Array, params: dict[str, Any], observed: np.ndarray
) -> np.ndarray:
    """sum_i E_w[(y_i - f_i(w))²], of means (num_samples, rows, ...) and targets of as many numbers.

    Of every noise in ``params``: of all outputs together (), or of each place along their last axis, (outputs,).
    """
    targets = np.where(observed, np.asarray(y, np.float64), 0.0).reshape(-1)
    errors = (np.asarray(draws, np.float64).reshape((len(draws), -1)) - targets) * observed.reshape(-1)
    return np.asarray(np.mean(errors**2, axis=0).reshape((-1, *np.shape(params[LOC]))).sum(axis=0))


def noise_of(likelihood: Normal | Any, params: dict[str, Any], squared: ArrayLike, count: ArrayLike) -> dict[str, Any]:
    """The parameters of the noise, given the expected squared errors of ``count`` targets of each."""
    shape, rate = likelihood.noise_shape + 0.5 * np.asarray(count), likelihood.noise_rate + 0.5 * np.asarray(squared)
    if SCALE not in params:
        if (shape <= 1).any():
            raise ValueError(
                f"the noise has no mode: of {int(np.min(count))} targets A = noise_shape + N/2 is {float(np.min(shape)):.3g}, "
                "and (A - 1)/B is positive above 1. Give likelihoods.Normal a larger noise_shape=, more targets, or scale=."
            )
        found = {LOC: np.log((shape - 1) / rate)}
    else:
        found = {LOC: np.log(shape / rate) - 0.5 / shape, SCALE: np.broadcast_to(shape**-0.5, rate.shape)}
    return {name: send(value, params[name].dtype) for name, value in found.items()}


LOG_R_LOC, LOG_R_SCALE = "concentration_log_loc", "concentration_log_scale"
REACH = 25.0  # of log r about the prior's mode, far beyond what counts can tell
STEP = 1e-2  # of the second difference


def learns_concentration(bnn: BNN, params: dict[str, Any]) -> bool:
    """Whether counts have a concentration that is learned, as a density."""
    return isinstance(of_observed(bnn.likelihood), NegativeBinomial) and LOG_R_LOC in params and LOG_R_SCALE in params


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
    columns = [[place] for place in range(y.shape[-1])] if np.ndim(params[LOG_R_LOC]) else [list(range(y.shape[-1]))]
    found = []
    for places in columns:
        seen = observed[:, places]
        counts, drawn = np.asarray(y[:, places], np.float64)[seen], means[:, :, places][:, seen]
        shape, rate = likelihood.concentration_shape, likelihood.concentration_rate / float(np.mean(start[places]))
        found.append(_normal(_bound_of_log_r(counts, drawn, shape, rate), math.log(shape / rate)))
    dtype = np.asarray(params[LOG_R_LOC]).dtype
    shaped = np.asarray(found, dtype).T.reshape((2, *np.shape(params[LOG_R_LOC])))
    return {LOG_R_LOC: np.asarray(shaped[0]), LOG_R_SCALE: np.asarray(shaped[1])}


def _bound_of_log_r(counts: np.ndarray, means: np.ndarray, shape: float, rate: float) -> Callable[[float], float]:
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


def rescaled(bnn: BNN, params: dict[str, Any], ratio: float) -> dict[str, Any]:
    """The parameters with each weight's precision for data that tell ``ratio`` times as much of it,

      1 / s'² = 1 / p² + ratio (1 / s² - 1 / p²)                                                          (21.19)

    with p the prior's standard deviation: coordinate ascent of a linear network, where the precision that comes of the data
    goes with the noise's. A weight that the data leave no surer than its prior stays as it is, and so do the dead, and weights
    of other families, or whose prior is no Gaussian and no spike and slab.
    """
    nodes = {site: _rescaled(node, ratio) for site, node in bnn.posterior(params).items()}
    return posterior_params.write(params, {site: node for site, node in nodes.items() if node is not None})


def _rescaled(node: Node, ratio: float) -> Node | None:
    prior = 1.0 if node.gated else node.prior_scale  # a slab's, in units of the node
    if node.together or prior is None:
        return None
    scale = np.asarray(node.scale, np.float64)
    least = np.broadcast_to(np.asarray(prior, np.float64) ** -2.0, scale.shape)
    known = np.where(scale > 0, scale, 1.0) ** -2.0
    informed = (scale > 0) & (known > least)
    changed = np.where(informed, (least + ratio * np.where(informed, known - least, 0.0)) ** -0.5, scale)
    return replace(node, scale=changed.astype(np.asarray(node.scale).dtype))  # type: ignore[type-var]


def information(params: dict[str, Any], means: Float[np.ndarray, " rows"]) -> float | None:
    """What a target tells of the function on average: a Gaussian noise's precision, or that of log counts of these means.

    1 / (1 / m + 1 / r), the Fisher information of log m under (21.5). None where outputs have noises of their own.
    """
    name = LOC if LOC in params else LOG_R_LOC
    if name not in params or np.ndim(params[name]):
        return None
    value = float(np.exp(np.float64(params[name])))
    return value if name == LOC else float(np.mean(means / (1.0 + means / value)))
