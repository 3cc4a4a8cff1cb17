"""Reading posteriors out of NumPyro parameters, and writing a pruned one back."""

from typing import Any

import jax.numpy as jnp

from bayesprune.core.types import MeanField, SpikeSlab

LOC, SCALE, LOGIT = "_auto_loc", "_auto_scale", "_auto_logit"


def read(params: dict[str, Any]) -> dict[str, MeanField | SpikeSlab]:
    """Sites of NumPyro parameters: `MeanField` from ``"<site>_auto_loc"`` and ``"<site>_auto_scale"``.

    These are the names that `numpyro.infer.autoguide.AutoNormal` uses, and that our guides use for weights that may be pruned.
    With a ``"<site>_auto_logit"`` beside them a site is a `SpikeSlab`. Scalar sites are not weights and are left out.

    Example:
        >>> import jax.numpy as jnp
        >>> list(read({"w_auto_loc": jnp.zeros(3), "w_auto_scale": jnp.ones(3), "nn$params": {}}))
        ['w']
    """
    sites = [name.removesuffix(LOC) for name in params if name.endswith(LOC) and name.removesuffix(LOC) + SCALE in params]
    nodes = {site: _node(params, site) for site in sites}
    return {site: node for site, node in nodes.items() if jnp.ndim(node.loc) > 0}


def _node(params: dict[str, Any], site: str) -> MeanField | SpikeSlab:
    loc, scale, logit = params[site + LOC], params[site + SCALE], params.get(site + LOGIT)
    return MeanField(loc, scale) if logit is None else SpikeSlab(loc, scale, logit)


def write(params: dict[str, Any], mask: dict[str, Any]) -> dict[str, Any]:
    """The parameters with every dead weight at its reduced posterior, loc = scale = 0; everything else untouched.

    Points of a MAP fit (``"<site>_map_loc"``) are cut likewise.
    """
    new = dict(params)
    for site, alive in mask.items():
        for name in (site + LOC, site + SCALE, site + "_map_loc"):
            if name in params:
                new[name] = jnp.where(alive, params[name], jnp.zeros_like(params[name]))
    return new
