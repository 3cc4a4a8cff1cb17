"""The gates of a network, layer by layer: how probable it is that a kernel has an entry, as logarithms; what of them reads the
inputs, and whether they are one chain: read off the network's layout, else taken for granted.

Logarithms of p and of 1 - p, because spike-and-slab logits of several hundreds are common, and p itself would be 0 or 1.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bayesprune.core import trees
from bayesprune.core.checks import as_booleans
from bayesprune.core.layout import MOVED, ROWS
from bayesprune.core.numbers import without_mask
from bayesprune.core.send import send
from bayesprune.core.types import PyTree
from bayesprune.model.layout import Layout, ParamSpec

REMEDY = "pass the kernels of one chain as a list of arrays (inputs, outputs), input side first, without layout"


class Gates(NamedTuple):
    """One dense layer: ``log_alive`` = log p and ``log_dead`` = log(1 - p), both (inputs, outputs), in nats."""

    site: str
    log_alive: Float[Array, "inputs outputs"]
    log_dead: Float[Array, "inputs outputs"]


def read(posterior: PyTree, mask: PyTree = True, layout: Layout | None = None) -> list[Gates]:
    """The kernels of a posterior, input side first; one-dimensional sites (biases) are passed over.

    ``posterior``: a flat dict site -> node in the order of the network, or a sequence of nodes. A node is a `SpikeSlab`, p =
    sigmoid(logit), or 0 where a cut has left loc = scale = 0; a `MeanField`, p = 1 where the mask is True, else 0; or an array
    of probabilities (or booleans). Kernels have the shape (inputs, outputs). ``mask``: True, or site -> booleans for every
    kernel (a sequence for a sequence); what is dead there has p = 0. Further sites of a mask are passed over. ``layout``: of
    the `BNN` whose posterior it is, a dict then: it says which sites are kernels, which of their axes are inputs, and lists
    them in the order of first use, which is a chain only where `check_chain` says so.

    Raises `TypeError` for a `MeanField` without a mask or another kind of posterior; `ValueError` for kernels of more than two
    dimensions (with a layout: for convolutions), probabilities outside [0, 1], masks that do not fit or are not boolean, no
    kernel, sites that the layout does not have or has of other shapes, Equinox's names without a layout, or sites out of order:
    `jax.tree.map` and `jax.jit` hand dicts back sorted by name, "Dense_10" before "Dense_2".

    >>> [gates.site for gates in read({"first.kernel": jnp.full((3, 2), 0.5), "first.bias": jnp.ones(2)})]
    ['first.kernel']
    """
    named = _named(posterior, "posterior")
    turns = _turns(named) if layout is None else _turns_by(layout, named)
    if not turns:
        raise ValueError("posterior must hold at least one kernel of shape (inputs, outputs), got none.")
    if isinstance(posterior, Mapping) and layout is None:
        _check_order(list(turns))
    masks = dict.fromkeys(turns, True) if mask is True else _named(mask, "mask")
    if bare := [site for site in turns if site not in masks]:
        raise ValueError(f"mask must cover every kernel of posterior, and lacks {bare}: its sites are {list(masks)}.")
    return [_gates(site, named[site], masks[site], turn) for site, turn in turns.items()]


Logs = Float[Array, "..."]
Turn = Callable[[Any], Any]  # of an array of a kernel's shape to (inputs, outputs)


def _turns(nodes: Mapping[str, Any]) -> dict[str, Turn]:
    """The kernels among the nodes, taken for (inputs, outputs)."""
    if strange := [site for site in nodes if site.rpartition(".")[2] == "weight"]:
        raise ValueError(
            f"posterior has {strange}, Equinox's name for a kernel (outputs, inputs): pass layout=bnn.layout, which says how "
            "each kernel lies, or transposed arrays as a list."
        )
    return {site: lambda array: array for site, node in nodes.items() if _is_kernel(site, node)}


def _turns_by(layout: Layout, nodes: Mapping[str, Any]) -> dict[str, Turn]:
    """The kernels among the nodes by what the network does with them, in its order."""
    known = {str(spec.path): spec for spec in layout}
    if strange := [site for site in nodes if site not in known]:
        raise ValueError(
            f"posterior has sites {strange} that layout lacks: pass bnn.posterior(params) and bnn.layout of one BNN."
        )
    kernels = {site: spec for site, spec in known.items() if site in nodes and spec.inputs}
    for site, spec in kernels.items():
        if (shape := trees.shape(nodes[site])) != spec.shape:
            raise ValueError(
                f"{site} has the shape {shape}, and layout has {spec.shape}: pass both of one BNN, arrays as they lie."
            )
        if len(spec.inputs + spec.outputs) < len(spec.shape):
            raise ValueError(f"{site} has the shape {spec.shape}, with positions: only dense layers are read, leave it out.")
    return {site: _turn(spec) for site, spec in kernels.items()}


def _turn(spec: ParamSpec) -> Turn:
    inputs = math.prod(spec.shape[axis] for axis in spec.inputs)
    return lambda array: jnp.transpose(array, spec.inputs + spec.outputs).reshape(inputs, -1)


def _named(tree: PyTree, name: str) -> dict[str, Any]:
    if isinstance(tree, Mapping):
        return dict(tree)
    if isinstance(tree, list | tuple):
        return {f"layer {index}": node for index, node in enumerate(tree)}
    raise TypeError(f"{name} must be a flat dict by site or a sequence, layer by layer, got {type(tree).__name__}.")


def _is_kernel(site: str, node: PyTree) -> bool:
    shape = trees.shape(node)
    if len(shape) > 2:
        raise ValueError(f"{site} has the shape {shape}, and only dense layers (inputs, outputs) are read: leave it out.")
    return len(shape) == 2


def _gates(site: str, node: PyTree, mask: bool | np.ndarray | jax.Array, turn: Turn) -> Gates:
    if trees.is_node(node) and node.gated:
        alive, dead = jax.nn.log_sigmoid(node.log_odds()), jax.nn.log_sigmoid(-node.log_odds())
        alive, dead = _masked(jnp.hypot(node.loc, node.scale) > 0, alive, dead)  # a cut leaves the logit
    elif trees.is_node(node):
        if mask is True:
            raise TypeError(
                f"{site} is a {type(node).__name__}, which has no inclusion probabilities: pass mask, such as a fit's mask."
            )
        alive, dead = send(np.zeros(node.loc.shape)), send(np.full(node.loc.shape, -np.inf))
    else:
        alive, dead = _logarithms(_probabilities(site, node))
    if mask is not True:
        if jnp.shape(mask) != alive.shape:
            raise ValueError(f"mask of {site} must have the shape {alive.shape}, got {jnp.shape(mask)}.")
        alive, dead = _masked(send(as_booleans(mask, f"mask of {site}")), alive, dead)
    return Gates(site, turn(alive), turn(dead))


@jax.jit
def _masked(mask: Bool[Array, "..."], alive: Logs, dead: Logs) -> tuple[Logs, Logs]:
    """Both logarithms, of what is dead those of p = 0."""
    return jnp.where(mask, alive, -jnp.inf), jnp.where(mask, dead, 0.0)


@jax.jit
def _logarithms(probability: Float[Array, "..."]) -> tuple[Logs, Logs]:
    """log p and log(1 - p)."""
    return jnp.log(probability), jnp.log1p(-probability)


def _probabilities(site: str, values: PyTree) -> Float[Array, "..."]:
    array = send(without_mask(values, site))
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


def of_inputs(layers: Sequence[Gates], layout: Layout | None) -> Sequence[Gates]:
    """The kernels that read the inputs: without a layout the first one, else those that the network's trace has found.

    Raises `ValueError` where one of them is missing, reads more than the inputs as they are, or is not followed.
    """
    if layout is None:
        return layers[:1]
    kernels = _followed(layout)
    reading = {site: spec for site, spec in kernels.items() if any(map(_is_rows, spec.reads or ()))}
    given = [layer for layer in layers if layer.site in reading]
    if missing := [site for site in reading if site not in {layer.site for layer in layers}]:
        raise ValueError(
            f"posterior lacks {missing}, which read the inputs too: pass every kernel that does, of one without gates ones."
        )
    if not given:
        raise ValueError(f"no kernel of posterior reads the inputs, got {[layer.site for layer in layers]}.")
    for spec in (reading[layer.site] for layer in given):
        if not all(map(_is_rows, spec.reads or ())) or len(spec.reads or ()) > 1:
            raise ValueError(
                f"{spec.path} reads {_words(spec.reads or ())}, so that its rows are not one input each: ask of kernels that "
                f"read the inputs as they are, or {REMEDY}."
            )
    if len({reading[layer.site].reads for layer in given}) > 1:
        raise ValueError(
            f"{[layer.site for layer in given]} read different arrays of inputs: ask of each array by itself, of its kernel "
            "as a list of one array (inputs, outputs), without layout."
        )
    sizes = {layer.site: layer.log_alive.shape[0] for layer in given}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"the kernels that read the inputs have different numbers of them, {sizes}: {REMEDY}.")
    return given


def check_chain(layers: Sequence[Gates], layout: Layout | None) -> None:
    """Refuse kernels of which each does not read the one before it, and that alone; further ones may follow the last.

    Without a layout nothing is known but their widths, which `importance` looks at.
    """
    if layout is None:
        return
    kernels, sites = _followed(layout), [layer.site for layer in layers]
    for before, site in zip([ROWS, *sites], sites, strict=False):
        reads = kernels[site].reads or ()
        if not (reads == (before,) or (before == ROWS and len(reads) == 1 and _is_rows(reads[0]))):
            raise _no_chain(f"{site} reads {_words(reads)}, not {_words([before])} alone, as they are")
    inside = lambda names: [name for name in names if _is_rows(name) or name in sites[:-1]]  # noqa: E731
    for site, spec in kernels.items():
        if site not in sites and (taken := inside(spec.reads or ())):
            raise _no_chain(f"{site}, which posterior lacks, reads {_words(taken)} too")
        if around := inside(spec.beside):
            raise _no_chain(f"the outputs get {_words(around)} also past the kernels that follow")


def _followed(layout: Layout) -> dict[str, ParamSpec]:
    """The kernels of a network, in its order; an error where it is not known what one of them reads."""
    kernels = {str(spec.path): spec for spec in layout if spec.inputs}
    if lost := [site for site, spec in kernels.items() if spec.reads is None]:
        raise ValueError(
            f"what {lost} read is not followed (see bnn.graph.unfollowed), so it is not known which kernels read the inputs: "
            f"{REMEDY}."
        )
    return kernels


def _no_chain(why: str) -> ValueError:
    return ValueError(
        f"importance needs kernels that are one chain, and {why}. Ask inclusion_probabilities or selected, which need only the "
        f"kernels that read the inputs; or {REMEDY}."
    )


def _is_rows(name: str) -> bool:
    return name.startswith(ROWS)


def _words(names: Sequence[str]) -> str:
    """What is read, in words.

    >>> _words(("<x>", "a.kernel", "<moved>"))
    'the inputs and a.kernel (left out, joined or reordered in part)'
    """
    said = ["the inputs" if _is_rows(name) else name for name in names if name != MOVED]
    moved = " (left out, joined or reordered in part)" if MOVED in names else ""
    return (" and ".join(dict.fromkeys(said)) or "no kernel and no inputs") + moved
