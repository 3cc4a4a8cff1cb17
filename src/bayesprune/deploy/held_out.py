"""Held-out figures while a network is trained, by kernels."""

import math
from typing import Any

import jax
import numpy as np

from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.types import Mask, Params
from bayesprune.deploy.compact import Compact, compact
from bayesprune.deploy.engines.engine import DENSE
from bayesprune.deploy.program.laws import factorised
from bayesprune.deploy.sparse.kernels import has_numba
from bayesprune.infer import evaluate as by_jax
from bayesprune.model.bnn import BNN
from bayesprune.model.program import Trainable


def evaluate_by_kernels(
    rng_key: RandomKey,
    bnn: BNN,
    params: dict[str, Any],
    data: GivenRows,
    *,
    mask: dict[str, Any] | None = None,
    num_samples: int = 100,
) -> dict[str, float]:
    """`bayesprune.evaluate`, by the kernels of a compact network where these are quicker: for ``fit_svi(evaluator=...)``.

    Kernels run where numba is installed (extra "fast"), JAX runs on the CPU, the weights are independent Gaussians up to a
    scale for each layer, and most products are convolutions or sparse; else this is `bayesprune.evaluate`. The networks that
    are drawn are others than that one's for the same key; their law is the same. Arguments, returns, errors: as there.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=2, batch_size=64, eval_data=test, eval_every=2,
        ...                  evaluator=evaluate_by_kernels)
        >>> fit.history["eval/accuracy"].shape
        (1,)
    """
    small = _by_kernels(bnn, params, mask)
    if small is None:
        return by_jax.evaluate(rng_key, bnn, params, data, mask=mask, num_samples=num_samples)
    return by_jax.evaluate(rng_key, small, None, data, num_samples=num_samples)


def _by_kernels(bnn: Trainable, params: Params, mask: Mask | None) -> Compact | None:
    """The smaller network; None where JAX is quicker, or where it alone can run the network or judge it."""
    if not _may_pay(bnn, params, mask):
        return None
    try:
        small = compact(bnn, params, mask)
    except ValueError:  # rows that meet, half precision: only JAX runs it, and says what else may be wrong
        return None
    return small if small.task != "other" and small.by_kernels else None


def _may_pay(bnn: Trainable, params: Params, mask: Mask | None) -> bool:
    """Whether kernels may be quicker, as far as is known before the network is made smaller."""
    if not (has_numba() and jax.default_backend() == "cpu" and isinstance(bnn, BNN)):
        return False
    if not factorised(bnn, params):
        return False
    kernels = [spec for spec in bnn.layout if len(spec.shape) > 1]
    whole = sum(math.prod(spec.shape) for spec in kernels)
    alive = sum(np.count_nonzero((mask or {}).get(str(spec.path), np.ones(spec.shape, bool))) for spec in kernels)
    return any(len(spec.shape) > 2 for spec in kernels) or bool(alive < DENSE * whole)
