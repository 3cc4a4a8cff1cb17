"""Groups of weights under a spike and slab of two Gaussians: which one a group is of, and what precision it then has."""

import jax
import jax.numpy as jnp

Number = jax.Array | float | int


def inclusion(square: Number, size: Number, share: Number, slab: Number, spike: Number) -> jax.Array:
    """The probability that a group is of the slab, given its weights; (7.4).

    p = 1 / (1 + (1 - theta)/theta (d0/d1)^(k/2) exp(-(d0 - d1) ||w||²/2))

    Args:
        square: ||w||², the sum over the group's weights.
        size: k, how many they are.
        share: theta, the prior probability of the slab.
        slab, spike: the precisions d1 and d0 of the two Gaussians.

    >>> print(round(float(inclusion(0.0, 1, 0.5, 1.0, 100.0)), 4), round(float(inclusion(1.0, 1, 0.5, 1.0, 100.0)), 4))
    0.0909 1.0

    Source: Ke & Fan 2022; Ročková & George 2014 for single weights.
    """
    log_odds = jnp.log(share) - jnp.log1p(-share) - 0.5 * size * jnp.log(spike / slab) + 0.5 * (spike - slab) * square
    return jax.nn.sigmoid(log_odds)


def precision(probability: Number, slab: Number, spike: Number) -> Number:
    """The expected precision p d1 + (1 - p) d0, the decay of the M-step; (7.5).

    >>> print(precision(0.25, 1.0, 5.0))
    4.0
    """
    return probability * slab + (1.0 - probability) * spike


def threshold(size: Number, share: Number, slab: Number, spike: Number) -> Number:
    """The mean square ||w||²/k at which p = 1/2: what (7.4) says in place of a threshold set by hand; (7.7).

    >>> root = threshold(1, 0.5, 1.0, 100.0)
    >>> print(round(float(inclusion(root, 1, 0.5, 1.0, 100.0)), 4))
    0.5
    """
    odds = jnp.log1p(-jnp.asarray(share)) - jnp.log(share)
    return jnp.maximum((2.0 * odds / size + jnp.log(spike / slab)) / (spike - slab), 0.0)
