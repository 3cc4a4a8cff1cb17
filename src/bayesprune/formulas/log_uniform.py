"""Gaussian scales z ~ N(loc, scale²) under the improper prior p(z) ~ 1/|z|: divergence, and noise in logarithms."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

# Fitted by Molchanov et al.
K1, K2, K3 = 0.63576, 1.87320, 1.48695
# log C of p(z) = C/|z| for which the divergence goes to 0 as alpha grows: -(1 + log 2 pi)/2 - (Euler's gamma + log 2)/2.
LOG_CONSTANT = -2.0541199559354117
# Below these nothing is told from zero; a scale and a loc of zero count as noise alone.
LEAST_SCALE, LEAST_LOC = 1e-25, 1e-30


def kl_divergence(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """KL( N(loc, scale²) || 1/|z| ), nats by element, as a fit of three numbers (13.5); alpha = scale²/loc².

    KL ~ k1 (1 - sigmoid(k2 + k3 log alpha)) + log(1 + 1/alpha)/2

    The prior has no norm: the constant is such that KL -> 0 for alpha -> infinity. It errs by at most .0094 nats, and its slope
    in log alpha by .014.

    >>> print(kl_divergence(0.0, 1.0), round(float(kl_divergence(1.0, 1.0)), 3))
    0.0 0.431

    Source: Molchanov, Ashukha & Vetrov 2017, equation 14.
    """
    square = jnp.square(jnp.asarray(loc, float) / scale)
    some = square > 0
    # No logarithm of zero, and none in the backward pass: the fit ends at 0 with a slope of 0.
    fitted = K1 * jax.nn.sigmoid(K3 * jnp.log(jnp.where(some, square, 1.0)) - K2)
    return jnp.where(some, fitted, 0.0) + 0.5 * jnp.log1p(square)


def log_alpha(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """log alpha = log scale² - log loc², the noise of a scale in units of its mean; finite, and high at loc = scale = 0.

    >>> print(log_alpha(1.0, 1.0), log_alpha(0.0, 0.0) > 20)
    0.0 True
    """
    noise, signal = jnp.maximum(scale, LEAST_SCALE), jnp.maximum(jnp.abs(jnp.asarray(loc, float)), LEAST_LOC)
    return 2.0 * (jnp.log(noise) - jnp.log(signal))
