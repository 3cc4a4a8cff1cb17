"""Weights in use: alive, and on a living path through the network. The others are alive and do nothing."""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from bayesprune.core.checks import check_mask
from bayesprune.core.given import GivenNetwork
from bayesprune.report.inputs import ArrayLike
from bayesprune.structure import Graph, Role, Terms, reachable

Alive = Bool[np.ndarray, "..."]
REMEDY = (
    "weights_in_use knows chains of layers, each with a kernel (..., inputs, outputs) and perhaps a bias (outputs,), listed "
    "from the input to the output; of a BNN's network ask bp.connected(bnn, mask), which follows any."
)


def connected(bnn: GivenNetwork, mask: Mapping[str, ArrayLike]) -> dict[str, Alive]:
    """The mask without the weights that no living path needs: alive, and in use.

    A weight is not in use if its unit feeds nothing that reaches an output, or if nothing feeds what it multiplies. The network
    gives the same outputs without those weights, for any rows and any values of the others. It is followed through reshapes,
    residual sums, concatenations, norms, pools, attention and convolutions (whose channels count as a whole); a unit that is a
    constant, by its bias, by a batch norm's mean or by an activation that is not 0 at 0, is in use where something reads it.
    What the network's graph does not follow is kept: ``bnn.graph.unfollowed`` names it and says why.

    Args:
        bnn: a `bayesprune.BNN`.
        mask: {site: booleans, True = alive}, as in ``fit.mask``; the sites that it does not name are whole.

    Returns:
        {site: booleans}, of the sites of ``mask``. Count them by `metrics.sparsity_report`.

    Raises:
        TypeError: ``bnn`` is no `bayesprune.BNN`.
        ValueError: ``mask`` has unknown sites, other shapes, or is not boolean.

    Example:
        >>> import bayesprune as bp
        >>> bnn = bp.BNN(bp.nets.MLP(hidden=(2,), num_outputs=1), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(),
        ...              input_shape=(1,), prunable=bp.select.everything)
        >>> mask = {"Dense_0.kernel": np.array([[True, True]]), "Dense_1.kernel": np.array([[True], [False]])}
        >>> connected(bnn, mask)["Dense_0.kernel"].tolist()
        [[True, False]]
    """
    return reachable(graph_of(bnn, "follow its weights"), mask)


def graph_of(bnn: GivenNetwork, aim: str) -> Graph:
    """A network's graph; what has none is refused, ``aim`` being what it was asked for."""
    graph = getattr(bnn, "graph", None)
    if not isinstance(graph, Graph):
        raise TypeError(f"bnn must be a bp.BNN, got {type(bnn).__name__}: wrap the network in one to {aim}.")
    return graph


def weights_in_use(mask: Mapping[str, ArrayLike], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Alive]:
    """`connected` of a chain of layers that is given by its shapes alone, such as one that another program has trained.

    ``mask``: {site: booleans, True = alive}, of the prunable sites; all others are whole. ``shapes``: {site: shape} of every
    weight tensor from the input to the output. Each layer reads the one before and nothing else: sites ``<layer>.kernel``,
    (inputs, outputs) of a dense layer or (height, width, channels, features) of a convolution, and ``<layer>.bias``. A dense
    layer after a convolution reads its flattened pixels, features last. Activations are taken to be 0 at 0 (ReLU, swish, tanh).
    A chain with shortcuts around its layers looks the same and is not refused: of a `BNN`, ask `connected`.

    Raises ``ValueError`` for another network, or a mask that does not fit.

    >>> mask = {"Dense_0.kernel": np.array([[True, True]]), "Dense_1.kernel": np.array([[True], [False]])}
    >>> weights_in_use(mask, {"Dense_0.kernel": (1, 2), "Dense_1.kernel": (2, 1)})["Dense_0.kernel"].tolist()
    [[True, False]]
    """
    check_mask(mask, shapes)
    return reachable(_graph(_chain({str(site): tuple(shape) for site, shape in shapes.items()})), mask)


class _Layer(NamedTuple):
    """One layer: its name, the shape of its kernel, and whether it has a bias."""

    name: str
    kernel: tuple[int, ...]
    bias: bool


def _chain(shapes: Mapping[str, tuple[int, ...]]) -> list[_Layer]:
    """The layers in order, or an error that says why they are no chain."""
    parts = {site: site.rpartition(".")[::2] for site in shapes}
    strange = [site for site, (_, kind) in parts.items() if kind not in ("kernel", "bias")]
    names = [name for name, kind in parts.values() if kind == "kernel"]
    strange += [site for site, (name, _) in parts.items() if name not in names]
    if strange or not names:
        raise ValueError(f"shapes are of no chain of layers: got {', '.join(strange) or 'no kernel'}. {REMEDY}")
    layers = []
    for name in names:
        kernel = shapes[f"{name}.kernel"]
        bias = shapes.get(f"{name}.bias", kernel[-1:])
        if len(kernel) < 2 or bias != kernel[-1:]:
            raise ValueError(f"{name} has a kernel of shape {kernel} and a bias of shape {bias}. {REMEDY}")
        layers.append(_Layer(name, kernel, f"{name}.bias" in shapes))
    for before, layer in itertools.pairwise(layers):
        ins, outs = layer.kernel[-2], before.kernel[-1]
        flattens = len(before.kernel) > 2 and len(layer.kernel) == 2
        if ins != outs and not (flattens and ins % outs == 0):
            raise ValueError(f"{layer.name} reads {ins} inputs, and {before.name} before it has {outs} outputs. {REMEDY}")
    return layers


def _graph(layers: list[_Layer]) -> Graph:
    """A chain as a graph: signal 0 is the input, the others are the layers' outputs."""
    roles: dict[str, Role] = {}
    terms: list[Terms] = []
    signals, count = np.zeros(1, int), 1
    for name, kernel, bias in layers:
        source = np.resize(signals, kernel[-2])  # flattened pixels repeat their features
        signals, count = np.arange(count, count + kernel[-1]), count + kernel[-1]
        wide = (1,) * (len(kernel) - 1)
        terms.append(Terms(signals.reshape(*wide, 1, -1), source.reshape(*wide, -1, 1), site=f"{name}.kernel"))
        roles[f"{name}.kernel"] = Role(kernel)
        if bias:
            terms.append(Terms(signals[None], np.zeros((1, 1), int), site=f"{name}.bias"))
            roles[f"{name}.bias"] = Role(kernel[-1:])
    none = np.zeros((0, 2), int)
    return Graph(roles, tuple(terms), signals, none, none, np.zeros(count, bool), {})
