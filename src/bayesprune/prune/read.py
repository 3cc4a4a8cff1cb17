"""Reading posteriors out of NumPyro parameters, and writing a pruned one back."""

from collections.abc import Container
from typing import Any

import jax.numpy as jnp

from bayesprune.core.types import MeanField, SpikeSlab

LOC, SCALE, LOGIT, POINT = "_auto_loc", "_auto_scale", "_auto_logit", "_map_loc"


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
        for name in (site + LOC, site + SCALE, site + POINT):
            if name in params:
                new[name] = jnp.where(alive, params[name], jnp.zeros_like(params[name]))
    return new


def stems(params: dict[str, Any], sites: Container[str]) -> dict[str, str]:
    """Parameter -> site, for those that describe the weights of one of ``sites``, each by an array of the site's shape.

    Example:
        >>> stems({"w_auto_loc": 0.0, "w_auto_scale": 1.0, "w$state": {}, "v_auto_loc": 0.0}, {"w"})
        {'w_auto_loc': 'w', 'w_auto_scale': 'w'}
    """
    pairs = (
        (name, name.removesuffix(suffix)) for name in params for suffix in (LOC, SCALE, LOGIT, POINT) if name.endswith(suffix)
    )
    return {name: site for name, site in pairs if site in sites}


def write_nodes(params: dict[str, Any], nodes: dict[str, MeanField | SpikeSlab]) -> dict[str, Any]:
    """The parameters with loc and scale of each site as ``nodes`` has them; the inverse of reading."""
    new = dict(params)
    for site, node in nodes.items():
        for name, value in ((site + LOC, node.loc), (site + SCALE, node.scale), (site + POINT, node.loc)):
            if name in params:
                new[name] = value
    return new
