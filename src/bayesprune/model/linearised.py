"""A network that is linear in its weights about their means: the model that a Gauss-Newton curvature is exact for."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.checks import got
from bayesprune.core.types import ArrayTree
from bayesprune.model.bnn import BNN, STATE
from bayesprune.posteriors.samples import draws_of


def check_linearised(bnn: BNN, params: Mapping[str, Any], linearised: object) -> None:
    """Refuse parameters without a mean to linearise about, gates that are no weights, and words: "no" would be a yes."""
    if not isinstance(linearised, bool | int | np.bool_):
        raise TypeError(f"linearised must be True or False, got {got(linearised)}.")
    if bnn.drops:
        raise ValueError("linearised=True is of the weights alone, and mc_dropout's gates would be left out: leave it out.")
    if draws_of(params):
        raise ValueError(
            "linearised=True is about the posterior's mean, and params are samples, whose mean is no network: leave it out."
        )
    if reason := bnn.family.no_mean:
        raise ValueError(f"linearised=True needs the posterior's mean: {reason}")


def tangent(bnn: BNN, params: Mapping[str, Any], mask: Mapping[str, Any], drawn: Mapping[str, Any]) -> Callable[[Any], Any]:
    """x -> f(x, w) + J(x) (v - w), w the weights' mean and v a draw of them, in the network's units, (25.8)."""
    nodes, raw = bnn.posterior(dict(params)), bnn.of(params).family.posterior(dict(params), bnn.layout)
    mean = {site: jnp.where(mask.get(site, True), node.moments()[0] * nodes[site].unit, 0) for site, node in raw.items()}
    change = {site: jnp.asarray(drawn[site], mean[site].dtype) - mean[site] for site in mean}
    points = {str(spec.path): params[str(spec.path)] for spec in bnn.layout if not spec.bayesian}
    state = params.get(STATE, {})

    def outputs(x: ArrayTree) -> Any:
        at, slope = jax.jvp(lambda weights: bnn.outputs(points | weights, state, x), (mean,), (change,))
        return jax.tree.map(jnp.add, at, slope)

    return outputs
