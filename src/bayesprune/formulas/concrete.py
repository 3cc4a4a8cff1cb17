"""Relaxed Bernoulli gates that drop the inputs of a layer: concrete dropout."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

POINTS = 400  # of the midpoint rule for moments, in u
_MIDDLES = (np.arange(POINTS) + 0.5) / POINTS


def gate(log_odds: Real[ArrayLike, "..."], u: Real[ArrayLike, "..."], temperature: float) -> Float[Array, "..."]:
    """z = 1 - sigma((log_odds + log u - log(1 - u)) / temperature) of a uniform u: near 0 with probability p, else near 1.

      log_odds = log p/(1 - p);   P(z < 1/2) = p, whatever the temperature                                         (14.2)

    >>> print(gate(0.0, jnp.array([0.1, 0.9]), 0.1).round(3))
    [1. 0.]

    Source: Gal, Hron & Kendall 2017, section 3; Maddison, Mnih & Teh 2017.
    """
    return jax.nn.sigmoid(-(log_odds + jnp.log(u) - jnp.log1p(-u)) / temperature)  # type: ignore[operator]


def keep_share(log_odds: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """1 - p."""
    return jax.nn.sigmoid(-jnp.asarray(log_odds))


def entropy(log_odds: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """-p log p - (1 - p) log(1 - p), nats; 0 at both ends.

    >>> print(entropy(jnp.array([0.0, 100.0])).round(4))
    [0.6931 0.    ]
    """
    odds = jnp.asarray(log_odds, float)
    return jax.nn.sigmoid(odds) * jax.nn.softplus(-odds) + jax.nn.sigmoid(-odds) * jax.nn.softplus(odds)


def penalty(squares: Real[ArrayLike, "..."], log_odds: Real[ArrayLike, "..."], length_scale: float) -> Float[Array, "..."]:
    """l²/2 sum_j w_ij²/(1 - p) - H(p) of the gate of one input i, nats; ``squares``: sum_j w_ij².

    Summed over the K inputs of all layers it is what (14.2) adds to the negative log likelihood of all data.

    >>> print(penalty(2.0, 0.0, 1.0).round(4))
    1.3069

    Source: Gal, Hron & Kendall 2017, equations 3 and 4.
    """
    return 0.5 * length_scale**2 * jnp.asarray(squares) / keep_share(log_odds) - entropy(log_odds)


def moment(power: int, log_odds: Real[ArrayLike, "..."], temperature: float) -> Float[Array, "..."]:
    """E (z/(1 - p))^power over u, by the midpoint rule; with temperature to 0 it is (1 - p)^(1 - power)."""
    odds = jnp.asarray(log_odds, float)[..., None]
    return jnp.mean((gate(odds, jnp.asarray(_MIDDLES, odds.dtype), temperature) / keep_share(odds)) ** power, axis=-1)
