"""A fit as plain weights: each at its posterior mean, for the network to be called in its own way."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core.checks import check_mask, check_params
from bayesprune.core.send import send
from bayesprune.core.types import SpikeSlab
from bayesprune.model.structured import StructuredFamily
from bayesprune.posteriors import spike_slab
from bayesprune.posteriors.correlated import check_conditioned
from bayesprune.posteriors.samples import draws_of


def mean_weights(bnn: Any, params: Any, mask: Mapping[str, Any] | None) -> dict[str, Any]:
    """Every parameter of the network by its path: the Bayesian ones at E[w], zero where dead, the others as they are.

    ``bnn``: a `BNN`; ``params``, ``mask``: as `BNN.net_params` takes them, whose errors these are.
    """
    check_params(params)
    if reason := why_no_mean(bnn, params):
        raise ValueError(reason)
    given = check_mask({} if mask is None else mask, {str(s.path): s.shape for s in bnn.layout if s.bayesian})
    try:
        nodes, raw = bnn.posterior(params), bnn.family.posterior(params, bnn.layout)
        fixed = {str(s.path): send(params[str(s.path)]) for s in bnn.layout if not s.bayesian}
    except KeyError as error:
        raise ValueError(f"params have no {error.args[0]!r}: give those of a fit of this network, as fit.params are.") from None
    check_conditioned(raw, given)
    means = {}
    for site, node in raw.items():
        # What the guide has, not what the prior makes of it: a probability that is read off a Gaussian gates nothing.
        mean = spike_slab.FAMILY.moments(node)[0] if isinstance(node, SpikeSlab) else node.loc
        means[site] = _alive(send(given.get(site, True)), mean, send(nodes[site].unit))
    return {str(spec.path): (means | fixed)[str(spec.path)] for spec in bnn.layout}


@jax.jit
def _alive(alive: jax.Array, mean: jax.Array, unit: jax.Array) -> jax.Array:
    return jnp.where(alive, mean * unit, 0)


def why_no_mean(bnn: Any, params: Mapping[str, Any]) -> str:
    """Why the mean of a posterior is not known, or is no network, and what to do; nothing where it is one."""
    if draws_of(params):
        return (
            "params are samples: networks of their own, whose mean is none. Predict by all of them, bp.predict(...), or keep "
            "them in one file, bp.compact(..., keep='posterior')."
        )
    if not hasattr(bnn.prior, "node"):
        return (
            f"{type(bnn.prior).__name__} does not say what its weights are in the network: give it a method node, which says "
            "their unit."
        )
    if isinstance(bnn.family, StructuredFamily):
        return (
            "weights of the StructuredFamily vary with the scales of their units, and the mean of the product is no product "
            "of means: fit with posterior='mean_field', predict by draws, bp.predict(...), or keep drawn networks, "
            "bp.compact(..., keep='posterior', rng_key=..., num_draws=...)."
        )
    return ""
