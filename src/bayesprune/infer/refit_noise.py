"""The learned noise of a pruned network: its posterior given the weights that are left, in closed form."""

from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.checks import check_integer, check_key
from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.send import send
from bayesprune.infer.data import check_program_data
from bayesprune.infer.predict import check_bnn, predict_draws
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Masked, Normal
from bayesprune.model.likelihoods.masked import of_observed

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
        ValueError: the noise is given, predicted, or of another likelihood; ``params`` are samples, or not this network's.
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
        found = {LOC: np.log((shape - 1) / rate)}
    else:
        found = {LOC: np.log(shape / rate) - 0.5 / shape, SCALE: np.broadcast_to(shape**-0.5, rate.shape)}
    return {name: send(value, params[name].dtype) for name, value in found.items()}
