"""The noise of what is left after a cut, and the scales that weights have under it."""

import copy
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bayesprune.infer import refit_noise
from bayesprune.infer.predict import predict_draws
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.sklearn.places import LARGEST

PASSES, SETTLED = 4, 0.05  # of noise and scales in turn, until the noise's precision changes by less
NETWORKS = 32  # whose errors are averaged: every row counts in them, so that it is the rows' number that says how sure they are


def settled(estimator: Any, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Parameters of a fitted estimator with what its likelihood learns of noise, and its weights' scales, by coordinate ascent,
    (21.19).

    In training the noise explained what the weights that were cut since have added: it may be far from what is left.
    """
    estimator = copy.copy(estimator)  # its parameters move on the way
    if refit_noise.learns_noise(estimator.bnn_, estimator.params_):
        _ascend(estimator, _noise, x, y)
    if refit_noise.learns_concentration(estimator.bnn_, estimator.params_):
        _ascend(estimator, _concentration, x, y)
    return estimator.params_  # type: ignore[no-any-return]


def _ascend(estimator: Any, refit: Callable[..., dict[str, Any]], x: np.ndarray, y: np.ndarray) -> None:
    """The noise given the weights, and the weights' scales given the noise, in turn."""
    means = np.maximum(np.asarray(y[refit_noise.present_in(estimator.bnn_, y)], np.float64), 1.0)
    trained, ratio, before = estimator.params_, 1.0, refit_noise.information(estimator.params_, means)
    for _ in range(PASSES):
        found = refit(estimator, x, y)
        estimator.params_ = estimator.params_ | found
        if not before or not (now := refit_noise.information(found, means)) or abs(now / before - ratio) < SETTLED * ratio:
            return
        ratio = now / before
        estimator.params_ = jax.tree.map(np.asarray, refit_noise.rescaled(estimator.bnn_, trained, ratio)) | found


def _noise(estimator: Any, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    first, squared, count = 0, np.zeros(()), np.zeros(())
    for drawn in estimator._streamed(predict_draws, x, min(NETWORKS, estimator.num_samples)):
        part = y[first : first + drawn.shape[1]]
        observed = refit_noise.present_in(estimator.bnn_, part)
        squared = squared + refit_noise.squared_errors(drawn, part, estimator.params_, observed)
        count = count + refit_noise.counts(observed, estimator.params_)
        first += len(part)
    found = refit_noise.noise_of(of_observed(estimator.bnn_.likelihood), estimator.params_, squared, count)
    return jax.tree.map(np.asarray, found)


def _concentration(estimator: Any, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Of one block of rows, evenly spaced: a single number needs no more."""
    some = slice(None, None, -(-len(x) // LARGEST))
    y = y[some].reshape((len(y[some]), -1))
    drawn = np.concatenate(list(estimator._streamed(predict_draws, x[some])), axis=1)
    means = np.asarray(drawn, np.float64).reshape((len(drawn), *y.shape))
    observed = refit_noise.present_in(estimator.bnn_, y)
    likelihood = of_observed(estimator.bnn_.likelihood)
    return refit_noise.concentration_of(likelihood, estimator.params_, means, y, observed)
