"""The layout of a network: one row per parameter, in the order in which the network uses them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayesprune.core.layout import Layout, ParamPath, ParamSpec, Predicate, with_posterior
from bayesprune.structure import Graph

# The files that `BNN` itself imports know it by its annotation alone.
if TYPE_CHECKING:
    from bayesprune.model.bnn import BNN as LaidOut
else:
    LaidOut = Any

__all__ = ["LaidOut", "Layout", "ParamPath", "ParamSpec", "Predicate", "with_posterior"]  # handed on


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
        specs.append(ParamSpec(path, role.shape, params[site].dtype, chosen, pruned, *axes, still, role.reads, role.beside))
    return tuple(specs)


def prunable_where_bayesian(layout: Layout) -> Layout:
    """The layout as it is; where points or frozen arrays come before a Bayesian end, all of which is kept, with that prunable.

    Keeping the last layer whole is for nets that can be pruned before it.
    """
    before = [spec for spec in layout if len(spec.shape) > 1 and not spec.path.is_last and not spec.path.is_norm]
    if any(spec.prunable for spec in layout) or not before or any(spec.bayesian for spec in before):
        return layout
    return tuple(spec._replace(prunable=spec.bayesian) for spec in layout)


def of_outputs(spec: ParamSpec) -> tuple[int, ...]:
    """The shape in which a number for each output broadcasts to the array: that of a bias is its own."""
    return _along(spec, spec.outputs)


def of_inputs(spec: ParamSpec) -> tuple[int, ...]:
    """The same for each input."""
    return _along(spec, spec.inputs)


def of_compression(spec: ParamSpec) -> tuple[int, ...] | None:
    """The same for each input of a dense kernel, or each output channel of a convolution; None for what is no kernel.

    A convolution has axes that are neither inputs nor outputs: positions.
    """
    if not spec.inputs or not spec.outputs:
        return None
    positions = len(spec.shape) > len(spec.inputs) + len(spec.outputs)
    return _along(spec, spec.outputs if positions else spec.inputs)


def _along(spec: ParamSpec, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size if axis in axes else 1 for axis, size in enumerate(spec.shape))
