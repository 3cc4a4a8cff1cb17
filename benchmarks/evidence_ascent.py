"""Training points while the evidence chooses their prior: fit, Laplace, new prior precisions, on from there.

What SpaM (Dhahri et al. 2024) does every few epochs of its training, in rounds of `fit_svi` and `laplace`; a precision for each
output of a layer.
"""

from collections.abc import Callable
from typing import Any

import jax

import bayesprune as bp


def ascend(
    rng_key: jax.Array, under: Callable[[Any], bp.BNN], train: bp.Dataset, rounds: int, **settings: Any
) -> tuple[bp.BNN, Any]:
    """The network under its last prior, and its fit. ``under``: of a prior, the network; ``settings``: of each fit."""
    bnn, init = under(bp.priors.Gaussian()), {}
    for number, key in enumerate(jax.random.split(rng_key, rounds)):
        fit = bp.fit_svi(key, bnn, train, **settings, **init)
        if number < rounds - 1:
            around = bp.laplace(key, bnn, fit, train, prior_precision="unit", num_draws=1, excess=None)
            variables, bnn = fit.net_params(bnn), under(bp.priors.Empirical(around))
            init = {"init_params": bp.from_trained(bnn, variables)}
    return bnn, fit
