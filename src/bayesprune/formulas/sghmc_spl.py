"""SGHMC-SPL: its update, which keeps one sample in place of loc and scale; and groups under its spike and slab."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


class Knobs(NamedTuple):
    """``temperature``: of (7.1) and (7.2). ``num_rows``: n. ``momentum``: beta_1. ``push``: beta_2. ``rate``: eta, of rho."""

    temperature: float
    num_rows: int
    momentum: float = 0.1
    push: float = 1.0
    rate: float = 0.1


class Moved(NamedTuple):
    """What one array has beside the sample itself: rho, the momentum m, the last noise e."""

    rho: Any
    momentum: Any
    noise: Any


def spread(rho: ArrayLike) -> jax.Array:
    """tau = sigmoid(rho), the standard deviation of q in units of Temp C^(3/2)."""
    return jax.nn.sigmoid(rho)


def step(
    weight: ArrayLike,
    gradient: ArrayLike,
    decay: ArrayLike,
    state: Moved,
    noise: ArrayLike,
    squared_step: ArrayLike,
    knobs: Knobs,
) -> tuple[Any, Moved]:
    """The change of one array of weights, tau m, and its new state; (7.1) and (7.2).

    rho <- rho - eta [Temp² C³ d tau + Temp C^(3/2) e g - 1/(tau n)]
    e   <- ``noise``
    m   <- beta_1 m - beta_2 C² (g + d w) + sqrt(2 + 2 beta_1²) C^(3/2) Temp e

    Args:
        weight: w, of any shape; so are the others.
        gradient: g, of the loss per row, in nats.
        decay: d, per row.
        noise: standard normal numbers.
        squared_step: C².

    >>> knobs = Knobs(temperature=0.0, num_rows=10)
    >>> change, _ = step(1.0, 0.5, 0.0, Moved(0.0, 0.0, 0.0), 0.0, 0.01, knobs)
    >>> print(round(float(change), 6))  # rho has gone from 0 to 0.02: tau = 0.505
    -0.002525

    Source: Ke & Fan 2022, and the authors' code.
    """
    root = jnp.power(squared_step, 0.75)  # C^(3/2)
    tau = spread(state.rho)
    slope = (knobs.temperature * root) ** 2 * decay * tau + knobs.temperature * root * state.noise * gradient
    rho = state.rho - knobs.rate * (slope - 1.0 / (tau * knobs.num_rows))
    kick = jnp.sqrt(2.0 + 2.0 * knobs.momentum**2) * root * knobs.temperature * noise
    momentum = knobs.momentum * state.momentum - knobs.push * squared_step * (gradient + decay * weight) + kick
    return spread(rho) * momentum, Moved(rho, momentum, noise)


def variance(curvature: ArrayLike, squared_step: ArrayLike, tau: ArrayLike, knobs: Knobs) -> Any:
    """Stationary variance of w where g = ``curvature`` w and tau stands still; (7.6).

    With b = beta_1, k = beta_2 C² tau h, s² = (2 + 2 b²) C³ Temp² tau²:  Var w = s² (1 + b) / ((1 - b) k (2 (1 + b) - k)).

    >>> print(round(float(variance(1.0, 0.01, 0.5, Knobs(0.1, 100))), 6))
    0.000562
    """
    b, k = knobs.momentum, knobs.push * squared_step * tau * curvature
    kicks = (2.0 + 2.0 * b**2) * jnp.power(squared_step, 1.5) * jnp.square(knobs.temperature * tau)
    return kicks * (1.0 + b) / ((1.0 - b) * k * (2.0 * (1.0 + b) - k))


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
