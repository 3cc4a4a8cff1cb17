"""The layout of a network: one row per parameter, in the order in which the network uses them."""

from collections.abc import Mapping
from typing import Any

from bayesprune.core.layout import Layout, ParamPath, ParamSpec, Predicate
from bayesprune.structure import Graph

__all__ = ["Layout", "ParamPath", "ParamSpec", "Predicate", "make_layout", "prunable_where_bayesian"]


def make_layout(
    graph: Graph, params: Mapping[str, Any], bayesian: Predicate, prunable: Predicate, frozen: Predicate = lambda *_: False
) -> Layout:
    """Describe ``params`` (path -> array or abstract array) as the graph has found them, in the order of first use."""
    last = {ParamPath(site).layer for site, role in graph.roles.items() if role.is_last}
    specs = []
    for site, role in graph.roles.items():
        # What the net never reads has shown no role: of that, its name is all that is known.
        path = ParamPath(site, ParamPath(site).layer in last, role.is_norm if role.used else None)
        still = bool(frozen(path, role.shape))
        chosen = not still and bool(bayesian(path, role.shape))
        pruned = chosen and bool(prunable(path, role.shape))
        axes = (role.inputs, role.outputs, role.fan_in, role.fan_out, role.channel_groups)
        specs.append(ParamSpec(path, role.shape, params[site].dtype, chosen, pruned, *axes, still))
    return tuple(specs)


def prunable_where_bayesian(layout: Layout) -> Layout:
    """The layout as it is; where points or frozen arrays stand before a Bayesian end, all of which is kept, with that prunable.

    Keeping the last layer whole is for nets that can be pruned before it.
    """
    before = [spec for spec in layout if len(spec.shape) > 1 and not spec.path.is_last and not spec.path.is_norm]
    if any(spec.prunable for spec in layout) or not before or any(spec.bayesian for spec in before):
        return layout
    return tuple(spec._replace(prunable=spec.bayesian) for spec in layout)
