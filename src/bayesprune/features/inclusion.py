"""How much an input matters by the gates: is it used at all, and how probable is a path from it to the outputs, on average?"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from bayesprune.core import checks
from bayesprune.core.types import PyTree
from bayesprune.features import gates
from bayesprune.model.layout import Layout

RULES = ("median", "union")


def inclusion_probabilities(posterior: PyTree, mask: PyTree = True, layout: Layout | None = None) -> Float[Array, " inputs"]:
    """Probability under the posterior that at least one edge leaves an input, 1 - ∏_j (1 - p_ij).

    The gates of a mean-field posterior are independent, hence the product; it is summed as log(1 - p), so that many small
    probabilities add up and sure ones give exactly 1. With hundreds of units an input whose gates sit at the prior's floor of
    a per cent is still "used" by this count: for a selection see `selected`.

    Args:
        posterior, mask: as in `importance`.
        layout: ``bnn.layout``, which tells the kernels that read the inputs, such as queries', keys' and values' of attention
            or those of parallel branches: all of them count, and the network need be no chain. Without it the first kernel
            counts alone, which must then be the one that reads the inputs.

    Returns:
        (inputs,) in [0, 1].

    Raises:
        TypeError: as `importance`.
        ValueError: as `importance`, but for chains; a kernel that reads the inputs is missing, or reads other things with
            them; it is not known what some kernel reads, as of one in a loop of thousands of steps.

    Example:
        >>> import jax.numpy as jnp
        >>> print(inclusion_probabilities([jnp.array([[0.5, 0.5], [0.0, 0.5]])]).round(4))
        [0.75 0.5 ]

    Source: the gates of Bai, Song & Cheng (2020), section 4.
    """
    return -jnp.expm1(log_unused(posterior, mask, layout))


def log_unused(posterior: PyTree, mask: PyTree = True, layout: Layout | None = None) -> Float[Array, " inputs"]:
    """log ∏_j (1 - p_ij), that no edge leaves an input, in nats; arguments and errors as of `inclusion_probabilities`.

    Logarithms of several paths, or of what was made of one column, add up.

    >>> import jax.numpy as jnp
    >>> print(jnp.exp(log_unused([jnp.array([[0.5, 0.5], [0.0, 0.5]])])).round(4))
    [0.25 0.5 ]
    """
    return _log_unused(gates.of_inputs(gates.read(posterior, mask, layout), layout))


def _log_unused(first: Sequence[gates.Gates]) -> Float[Array, " inputs"]:
    return functools.reduce(jnp.add, [jnp.sum(layer.log_dead, axis=1) for layer in first])


def selected(
    posterior: PyTree, rule: str = "median", mask: PyTree = True, layout: Layout | None = None
) -> Bool[Array, " inputs"]:
    """The inputs that a sparse posterior selects.

    "median": those with a gate of p > 1/2 in a kernel that reads them, the inputs of the median probability network. "union":
    those with inclusion probability 1 - ∏_j (1 - p_ij) > 1/2, which is never fewer.

    Args:
        posterior, mask, layout: as in `inclusion_probabilities`.
        rule: "median" or "union".

    Returns:
        (inputs,) booleans.

    Raises:
        ValueError: an unknown rule, or as `inclusion_probabilities`.
        TypeError: as `importance`.

    Example:
        >>> import jax.numpy as jnp
        >>> first = jnp.array([[0.6, 0.0], [0.4, 0.4], [0.1, 0.1]])
        >>> print(selected([first]), selected([first], "union"))
        [ True False False] [ True  True False]

    Source: Bai, Song & Cheng (2020), section 6; Barbieri & Berger (2004) for the median probability model.
    """
    checks.check_name("rule", rule, RULES)
    first = gates.of_inputs(gates.read(posterior, mask, layout), layout)
    if rule == "union":
        return _log_unused(first) < -math.log(2.0)
    return functools.reduce(jnp.logical_or, [jnp.any(layer.log_alive > layer.log_dead, axis=1) for layer in first])


class Importance(NamedTuple):
    """``scaled``: (inputs,) in [0, 1], 1 for the most important input. ``log_raw``: (inputs,) log psi of (6.3), in nats."""

    scaled: Float[Array, " inputs"]
    log_raw: Float[Array, " inputs"]


def importance(posterior: PyTree, mask: PyTree = True, layout: Layout | None = None) -> Importance:
    """Connection weights from inclusion probabilities of a chain of dense layers, (6.3).

        psi = (P_{L+1} ... P_1)^T / (n_1 ... n_L),    scaled = (psi - min psi) / (max psi - min psi)

    P_l (outputs, inputs) holds layer l's inclusion probabilities and n_l is the width of hidden layer l; with several outputs
    psi is the mean over them. So psi is the average over all paths from an input to an output of the product of the gates on
    the path. A last layer that is never pruned may be missing: ones in its place give the same psi. Everything is summed in
    logarithms, so deep products neither underflow nor lose small paths. Where psi is the same for all inputs nothing stands
    out, and ``scaled`` is 0 for all. Scaled values compare inputs of one network; across networks use ``log_raw``.

    Args:
        posterior: flat dict site -> `SpikeSlab`, `MeanField` (with ``mask``) or array of probabilities, each of shape
            (inputs, outputs), in the order of the network; or a sequence of such nodes (under `jax.jit`, which sorts dicts by
            name, the safer one). Biases are passed over.
        mask: True, or a dict (or sequence) of booleans; dead weights have probability 0.
        layout: ``bnn.layout`` of the `BNN` whose posterior it is, a dict then. It knows how each kernel lies, such as Equinox's
            (outputs, inputs) or (inputs, heads, features), and what each reads: a network that is no chain, with branches,
            attention or shortcuts, is refused. Without it the kernels are taken for one chain, and only widths are checked.

    Returns:
        `Importance`, of one entry per input.

    Raises:
        TypeError: a `MeanField` without a mask, or another kind of posterior.
        ValueError: kernels that are no chain, sites out of order, kernels of more than two dimensions, no kernel; shapes other
            than the layout's; sites named as Equinox names its kernels, without a layout.

    Example:
        >>> import jax.numpy as jnp
        >>> first, last = jnp.array([[1.0, 0.5], [0.5, 0.5], [0.0, 0.25]]), jnp.array([[0.5], [0.5]])
        >>> [round(float(value), 3) for value in importance([first, last]).scaled]
        [1.0, 0.6, 0.0]

    Source: Saha, Liu & Liang (2024), eq. (3.18) and (3.19), after Olden, Joy & Death (2004).
    """
    layers = gates.read(posterior, mask, layout)
    gates.check_chain(layers, layout)
    for below, above in itertools.pairwise(layers):
        if below.log_alive.shape[1] != above.log_alive.shape[0]:
            raise ValueError(
                f"{below.site} has {below.log_alive.shape[1]} outputs and {above.site} has {above.log_alive.shape[0]} inputs: "
                "pass every kernel of one chain of dense layers, in the order of the network."
            )
    return _along([layer.log_alive for layer in layers])


@jax.jit
def _along(log_alive: list[Array]) -> Importance:
    """(6.3) from log p of every layer, input side first."""
    log_reach = jnp.zeros(log_alive[-1].shape[1])
    for layer in reversed(log_alive):
        # Mean over the units above: the divisions by each width, taken where the width is summed over.
        log_reach = logsumexp(layer + log_reach[None], axis=1) - math.log(layer.shape[1])
    return Importance(scaled(log_reach), log_reach)


def scaled(log_raw: Float[Array, " inputs"]) -> Float[Array, " inputs"]:
    """(psi - min psi) / (max psi - min psi) of (6.3), from log psi.

    >>> print(scaled(jnp.log(jnp.array([1.0, 2.0, 3.0]))).round(4))
    [0.  0.5 1. ]
    """
    low, high = jnp.min(log_raw), jnp.max(log_raw)
    # Where nothing stands out (0 / 0, or -inf - -inf without a living path) other numbers stand in: those are never seen.
    above = log_raw > low
    own, best = jnp.where(above, log_raw, 1.0), jnp.where(high > low, high, 1.0)
    base = jnp.where(high > low, low, 0.0)
    # e^a - e^b as e^a (1 - e^(b - a)), in units of the largest: exact for close and for tiny values alike.
    ratio = jnp.exp(own - best) * jnp.expm1(base - own) / jnp.expm1(base - best)
    return jnp.where(above, ratio, 0.0)
