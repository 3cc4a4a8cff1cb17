"""What a hand-written model says of its own sites: which are weights, and which of those have a fixed Gaussian prior."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints
from numpyro.handlers import seed, trace

from bayesprune.model.divergence import read_gaussian
from bayesprune.posteriors.params import PRIOR_SCALE, UNIT


def meanings(model: Callable[..., Any], data: Any) -> dict[str, Any]:
    """Unit 1 and the prior's standard deviation, for every latent array of unbounded support, in order of use, as entries of
    parameters; see `posteriors.params.describe`.

    Sites of positive or bounded support, and scalars, are no weights and are left out; so is the prior scale of a site that is
    not Gaussian about zero, or whose scale another site sets: that shows itself by changing from draw to draw.
    """
    weights: list[str] = []

    def priors(rng_key: jax.Array) -> dict[str, Any]:
        sites = trace(seed(model, rng_key)).get_trace(data.x, data.y)
        weights[:] = [name for name, site in sites.items() if _is_weight(site)]
        found = {name: read_gaussian(sites[name]["fn"]) for name in weights}
        return {name: (normal.loc, normal.scale) for name, normal in found.items() if normal is not None}

    # Compiled, because only the priors are wanted: all else that the model computes from the rows is left out.
    one, other = (jax.jit(priors)(jax.random.key(n)) for n in range(2))
    fixed = {name: _fixed(one.get(name), other.get(name)) for name in weights}
    return {name + UNIT: jnp.ones(()) for name in weights} | {n + PRIOR_SCALE: s for n, s in fixed.items() if s is not None}


def _is_weight(site: dict[str, Any]) -> bool:
    if site["type"] != "sample" or site["is_observed"] or jnp.ndim(site["value"]) == 0:
        return False
    support = site["fn"].support
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return isinstance(support, type(constraints.real))


def _fixed(one: Any, other: Any) -> jax.Array | None:
    """The scale of a Gaussian about zero that two draws agree on."""
    changes = one is None or other is None or bool(jnp.any((one[0] != 0) | (one[1] != other[1])))
    return None if changes else one[1]
