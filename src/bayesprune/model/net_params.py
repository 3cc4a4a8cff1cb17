"""A fit as plain weights: each at its posterior mean, for the network to be called in its own way."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core.checks import check_mask, check_params
from bayesprune.core.given import GivenParams
from bayesprune.core.send import send, send_all
from bayesprune.core.types import Node
from bayesprune.model.layout import LaidOut
from bayesprune.model.prior import check_fixed_units
from bayesprune.posteriors import params as posterior_params
from bayesprune.posteriors.joint import check_conditioned
from bayesprune.posteriors.samples import draws_of


def mean_weights(bnn: LaidOut, params: GivenParams, mask: Mapping[str, Any] | None) -> dict[str, Any]:
    """Every parameter of the network by its path: the Bayesian ones at E[w], zero where dead, the others as they are.

    ``bnn``: a `BNN`; ``params``, ``mask``: as `BNN.net_params` takes them, whose errors these are.
    """
    check_params(params)
    posterior_params.read(params)  # which refuses those of several fits
    if reason := why_no_mean(bnn, params):
        raise ValueError(reason)
    given = check_mask({} if mask is None else mask, {str(s.path): s.shape for s in bnn.layout if s.bayesian})
    try:
        nodes, raw = bnn.posterior(dict(params)), bnn.of(params).family.posterior(dict(params), bnn.layout)
        fixed = {str(s.path): send(params[str(s.path)]) for s in bnn.layout if not s.bayesian}
    except KeyError as error:
        raise ValueError(f"params have no {error.args[0]!r}: give those of a fit of this network, as fit.params are.") from None
    check_fixed_units(bnn.prior, bnn.layout, nodes, params)
    check_conditioned(raw, given)
    means = {}
    for site, node in raw.items():
        # Of what the guide has: a probability that the prior reads off a Gaussian gates nothing.
        means[site] = _alive(send(given.get(site, True)), send_all(node), send(nodes[site].unit))
    return {str(spec.path): (means | fixed)[str(spec.path)] for spec in bnn.layout}


@jax.jit
def _alive(alive: jax.Array, node: Node, unit: jax.Array) -> jax.Array:
    return jnp.where(alive, node.moments()[0] * unit, 0)


def why_no_mean(bnn: LaidOut, params: GivenParams) -> str:
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
    return bnn.family.no_mean  # type: ignore[no-any-return]
