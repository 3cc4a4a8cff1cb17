"""Is an input used at all? What the gates of the kernels that read it say."""

import functools
import math
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bayesprune.core import checks
from bayesprune.core.types import PyTree
from bayesprune.features import gates, readers
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
    return _log_unused(readers.of_inputs(gates.read(posterior, mask, layout), layout))


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
    first = readers.of_inputs(gates.read(posterior, mask, layout), layout)
    if rule == "union":
        return _log_unused(first) < -math.log(2.0)
    return functools.reduce(jnp.logical_or, [jnp.any(layer.log_alive > layer.log_dead, axis=1) for layer in first])
