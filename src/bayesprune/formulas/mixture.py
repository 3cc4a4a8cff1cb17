"""Two Gaussians, a narrow spike and a wide slab: inclusion in closed form, and the density of their mixture.

Prior w | z ~ N(0, slab²) if z = 1, N(0, spike²) if z = 0, z ~ Bernoulli(pi); q(w) q(z) = N(loc, scale²) Bernoulli(p). Then
KL(q || prior) = R(loc, scale, p) - 1/2 with R of (6.2): the penalty below differs from a divergence by that constant.
"""

import math

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real


def inclusion_log_odds(
    loc: Real[ArrayLike, "..."],
    scale: Real[ArrayLike, "..."],
    spike_scale: Real[ArrayLike, "..."],
    slab_scale: Real[ArrayLike, "..."],
    slab_probability: Real[ArrayLike, "..."] = 0.5,
) -> Float[Array, "..."]:
    """Log-odds B - A that a weight belongs to the slab, at the best p for its N(loc, scale²), (6.1).

    A = m2/(2 slab²) + log(slab/pi),  B = m2/(2 spike²) + log(spike/(1 - pi)),  m2 = loc² + scale²;  p* = sigmoid(B - A)

    Arguments broadcast; scales are standard deviations, 0 < spike < slab, 0 < ``slab_probability`` < 1. Returns nats, finite at
    loc = scale = 0; increasing in m2, hence as a ranking the second moment itself.

    >>> bool(inclusion_log_odds(0.0, 0.0, 0.01, 1.0) < 0 < inclusion_log_odds(1.0, 0.1, 0.01, 1.0))
    True

    Source: Saha et al. 2024, equation 3.8 and Algorithm 1, with the square that its A lacks.
    """
    slab, spike = _energies(loc, scale, spike_scale, slab_scale, slab_probability)
    return spike - slab


def collapsed_penalty(
    loc: Real[ArrayLike, "..."],
    scale: Real[ArrayLike, "..."],
    spike_scale: Real[ArrayLike, "..."],
    slab_scale: Real[ArrayLike, "..."],
    slab_probability: Real[ArrayLike, "..."] = 0.5,
) -> Float[Array, "..."]:
    """The penalty (6.2) at its minimum over p, which is p*: one state less, the same stationary points.

    R(p) = p [A + log p] + (1 - p) [B + log(1 - p)] - log scale,   R(p*) = -logaddexp(-A, -B) - log scale

    Arguments as for `inclusion_log_odds`, with ``scale`` > 0. Returns nats.

    >>> print(collapsed_penalty(0.0, 1.0, 0.1, 1.0, 1.0))  # all slab: KL = 0
    0.5

    Source: Saha et al. 2024, equation 3.7, minimised over its inclusion probabilities.
    """
    slab, spike = _energies(loc, scale, spike_scale, slab_scale, slab_probability)
    return -jnp.logaddexp(-slab, -spike) - jnp.log(jnp.asarray(scale))


def log_density(
    weight: Real[ArrayLike, "..."],
    spike_scale: Real[ArrayLike, "..."],
    slab_scale: Real[ArrayLike, "..."],
    slab_probability: Real[ArrayLike, "..."] = 0.5,
) -> Float[Array, "..."]:
    """Log density of the scale mixture pi N(0, slab²) + (1 - pi) N(0, spike²) at a weight: Bayes by Backprop's prior.

    Arguments broadcast; scales are standard deviations, 0 < ``slab_probability`` < 1. Returns nats.

    >>> print(log_density(0.0, 1.0, 1.0))
    -0.9189385

    Source: Blundell et al. 2015, eq. (7).
    """
    # At scale = 0 the energies hold the weight's square, and all but the 2 pi of the Gaussians' constants.
    slab, spike = _energies(weight, 0.0, spike_scale, slab_scale, slab_probability)
    return jnp.logaddexp(-slab, -spike) - 0.5 * math.log(2.0 * math.pi)


def _energies(
    loc: ArrayLike, scale: ArrayLike, spike_scale: ArrayLike, slab_scale: ArrayLike, slab_probability: ArrayLike
) -> tuple[Array, Array]:
    """A and B of (6.1); ratios are squared, not scales, so that scales near 1e-20 survive."""
    loc, scale, pi = jnp.asarray(loc), jnp.asarray(scale), jnp.asarray(slab_probability)
    slab = 0.5 * ((loc / slab_scale) ** 2 + (scale / slab_scale) ** 2) + jnp.log(jnp.asarray(slab_scale)) - jnp.log(pi)
    spike = 0.5 * ((loc / spike_scale) ** 2 + (scale / spike_scale) ** 2) + jnp.log(jnp.asarray(spike_scale)) - jnp.log1p(-pi)
    return slab, spike
