"""Weights in use: alive, and on a living path through the network. The others are alive and do nothing."""

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from bayesprune.core.checks import check_mask
from bayesprune.report.inputs import ArrayLike

Alive = Bool[np.ndarray, "..."]
Units = Bool[np.ndarray, " units"]
REMEDY = (
    "weights_in_use knows chains of layers, each with a kernel (..., inputs, outputs) and perhaps a bias (outputs,), listed "
    "from the input to the output; of another network it is not known which weights are in use."
)


class _Layer(NamedTuple):
    """One layer: its name, its kernel, and its bias, all dead where there is none."""

    name: str
    kernel: Alive
    bias: Units


def weights_in_use(mask: Mapping[str, ArrayLike], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Alive]:
    """The mask without weights that no living path leads through: ``{site: booleans, True = alive and in use}``.

    A path runs along alive weights from an input of the network, or from a bias, to an output. So a weight is not in use if
    its unit feeds nothing, or if nothing feeds it; a weight of a unit with a bias alone passes on a constant and is in use.
    Where an activation is 0 at 0 (ReLU, swish, tanh), the network gives the same outputs without the weights not in use.

    ``mask``: {site: booleans, True = alive}, of the prunable sites; all others are whole. ``shapes``: {site: shape} of every
    weight tensor from the input to the output, such as ``{s.path: s.shape for s in bnn.layout}``. It holds for chains alone,
    where each layer reads the one before and nothing else: sites ``<layer>.kernel``, (inputs, outputs) of a dense layer or
    (height, width, channels, features) of a convolution, and ``<layer>.bias``. A dense layer after a convolution reads its
    flattened pixels, features last. A chain with shortcuts around its layers looks the same and is not refused: do not ask.

    Count them by `sparsity_report` of the result. Raises ``ValueError`` for another network, or a mask that does not fit.

    >>> mask = {"Dense_0.kernel": np.array([[True, True]]), "Dense_1.kernel": np.array([[True], [False]])}
    >>> weights_in_use(mask, {"Dense_0.kernel": (1, 2), "Dense_1.kernel": (2, 1)})["Dense_0.kernel"].tolist()
    [[True, False]]
    """
    layers = _chain(check_mask(mask, shapes), shapes)
    fed, leading = _fed(layers), _leading(layers)
    used = {}
    for layer, ins, outs in zip(layers, fed, leading, strict=True):
        used[f"{layer.name}.kernel"] = layer.kernel & ins[:, None] & outs
        used[f"{layer.name}.bias"] = layer.bias & outs
    return {site: used[site] for site in mask}


def _fed(layers: Iterable[_Layer]) -> list[Units]:
    """For each layer, which of its inputs carry anything."""
    fed, units = [], np.ones(1, bool)
    for layer in layers:
        ins = layer.kernel.shape[-2]
        # The first layer's inputs all do; flattened pixels repeat their features.
        fed.append(np.resize(units, ins))
        units = (layer.kernel & fed[-1][:, None]).any(axis=tuple(range(layer.kernel.ndim - 1))) | layer.bias
    return fed


def _leading(layers: list[_Layer]) -> list[Units]:
    """For each layer, which of its outputs lead on to an output of the network."""
    leading: list[Units] = [np.ones(layers[-1].kernel.shape[-1], bool)]
    for layer, before in zip(layers[:0:-1], layers[-2::-1], strict=True):
        ins = np.asarray((layer.kernel & leading[-1]).any(axis=-1))
        leading.append(np.asarray(ins.reshape(-1, before.kernel.shape[-1]).any(axis=0)))
    return leading[::-1]


def _chain(mask: Mapping[str, ArrayLike], shapes: Mapping[str, tuple[int, ...]]) -> list[_Layer]:
    """The layers in order, or an error that says why they are no chain."""
    parts = {str(site): str(site).rpartition(".")[::2] for site in shapes}
    strange = [site for site, (_, kind) in parts.items() if kind not in ("kernel", "bias")]
    names = [name for name, kind in parts.values() if kind == "kernel"]
    strange += [site for site, (name, _) in parts.items() if name not in names]
    if strange or not names:
        raise ValueError(f"shapes are of no chain of layers: got {', '.join(strange) or 'no kernel'}. {REMEDY}")
    alive = {str(site): np.asarray(mask[site]) if site in mask else np.ones(shape, bool) for site, shape in shapes.items()}
    layers = []
    for name in names:
        kernel = alive[f"{name}.kernel"]
        features = kernel.shape[-1:]
        bias = alive.get(f"{name}.bias", np.zeros(features, bool))
        if kernel.ndim < 2 or bias.shape != features:
            raise ValueError(f"{name} has a kernel of shape {kernel.shape} and a bias of shape {bias.shape}. {REMEDY}")
        layers.append(_Layer(name, kernel, bias))
    for before, layer in itertools.pairwise(layers):
        ins, outs = layer.kernel.shape[-2], before.kernel.shape[-1]
        flattens = before.kernel.ndim > 2 and layer.kernel.ndim == 2
        if ins != outs and not (flattens and ins % outs == 0):
            raise ValueError(f"{layer.name} reads {ins} inputs, and {before.name} before it has {outs} outputs. {REMEDY}")
    return layers
