"""The gates of a network, layer by layer: how probable it is that a kernel's entry is in the model, as logarithms.

Logarithms of p and of 1 - p, because spike-and-slab logits of several hundreds are common, and p itself would be 0 or 1.
"""

import itertools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesprune.core.types import MeanField, PyTree, SpikeSlab


class Gates(NamedTuple):
    """One dense layer: ``log_alive`` = log p and ``log_dead`` = log(1 - p), both (inputs, outputs), in nats."""

    site: str
    log_alive: Float[Array, "inputs outputs"]
    log_dead: Float[Array, "inputs outputs"]


def read(posterior: PyTree, mask: PyTree = True) -> list[Gates]:
    """The kernels of a posterior, input side first; one-dimensional sites (biases) are passed over.

    ``posterior``: a flat dict site -> node in the order of the network, or a sequence of nodes. A node is a `SpikeSlab`,
    p = sigmoid(logit); a `MeanField`, p = 1 where the mask is True, else 0; or an array of probabilities (or booleans). Kernels
    have the shape (inputs, outputs). ``mask``: True, or site -> booleans for every kernel (a sequence for a sequence); what is
    dead there has p = 0. Further sites of a mask are passed over.

    Raises `TypeError` for a `MeanField` without a mask or another kind of posterior; `ValueError` for kernels of more than two
    dimensions, probabilities outside [0, 1], masks that do not fit, no kernel, or sites out of order: `jax.tree.map` and
    `jax.jit` hand dicts back sorted by name, "Dense_10" before "Dense_2".

    >>> [gates.site for gates in read({"first.kernel": jnp.full((3, 2), 0.5), "first.bias": jnp.ones(2)})]
    ['first.kernel']
    """
    nodes = {site: node for site, node in _named(posterior, "posterior").items() if _is_kernel(site, node)}
    if not nodes:
        raise ValueError("posterior must hold at least one kernel of shape (inputs, outputs), got none.")
    if isinstance(posterior, Mapping):
        _check_order(list(nodes))
    masks = dict.fromkeys(nodes, True) if mask is True else _named(mask, "mask")
    if bare := [site for site in nodes if site not in masks]:
        raise ValueError(f"mask must cover every kernel of posterior, and lacks {bare}: its sites are {list(masks)}.")
    return [_gates(site, node, masks[site]) for site, node in nodes.items()]


def _named(tree: PyTree, name: str) -> dict[str, Any]:
    if isinstance(tree, Mapping):
        return dict(tree)
    if isinstance(tree, list | tuple):
        return {f"layer {index}": node for index, node in enumerate(tree)}
    raise TypeError(f"{name} must be a flat dict by site or a sequence, layer by layer, got {type(tree).__name__}.")


def _is_kernel(site: str, node: Any) -> bool:
    shape = jnp.shape(node.loc if isinstance(node, MeanField | SpikeSlab) else node)
    if len(shape) > 2:
        raise ValueError(f"{site} has the shape {shape}, and only dense layers (inputs, outputs) are read: leave it out.")
    return len(shape) == 2


def _gates(site: str, node: Any, mask: Any) -> Gates:
    if isinstance(node, SpikeSlab):
        alive, dead = jax.nn.log_sigmoid(node.logit), jax.nn.log_sigmoid(-node.logit)
    elif isinstance(node, MeanField):
        if mask is True:
            raise TypeError(f"{site} is a MeanField, which has no inclusion probabilities: pass mask, such as a fit's mask.")
        alive, dead = jnp.zeros(node.loc.shape), jnp.full(node.loc.shape, -jnp.inf)
    else:
        probability = _probabilities(site, node)
        alive, dead = jnp.log(probability), jnp.log1p(-probability)
    if mask is not True and jnp.shape(mask) != alive.shape:
        raise ValueError(f"mask of {site} must have the shape {alive.shape}, got {jnp.shape(mask)}.")
    return Gates(site, jnp.where(mask, alive, -jnp.inf), jnp.where(mask, dead, 0.0))


def _probabilities(site: str, values: Any) -> Float[Array, "inputs outputs"]:
    array = jnp.asarray(values)
    array = array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)
    if not isinstance(array, jax.core.Tracer) and not np.all((np.asarray(array) >= 0) & (np.asarray(array) <= 1)):
        raise ValueError(f"{site} must hold probabilities in [0, 1]: pass SpikeSlab nodes, or weights' masks, not weights.")
    return array


def _check_order(sites: list[str]) -> None:
    """Sites that differ in their numbers alone have to count upwards."""
    for one, other in itertools.pairwise(sites):
        first, second = re.split(r"(\d+)", one), re.split(r"(\d+)", other)
        if first[::2] == second[::2] and [int(n) for n in first[1::2]] > [int(n) for n in second[1::2]]:
            raise ValueError(f"posterior has {one!r} before {other!r}: pass the nodes as a list, in the order of the network.")
