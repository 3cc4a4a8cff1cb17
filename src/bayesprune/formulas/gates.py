"""Sampling a spike-and-slab weight so that a gradient reaches its inclusion probability: three ways.

Each turns noise that knows nothing of the parameters into a draw of w ~ phi N(loc, scale²) + (1 - phi) delta_0.
"""

import jax
import jax.numpy as jnp
from jax.nn import sigmoid
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real


def probability(logit: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """phi = 1/(1 + exp(-logit)), and as its slope sigmoid(logit) sigmoid(-logit).

    JAX's own slope is phi (1 - phi), which in float32 is zero from log-odds of 16.6 on; this one is right as long as it can be
    represented. ``logit``: log-odds, nats. Returns numbers in [0, 1], of the arguments' floating dtype.

    >>> print(probability(0.0), jax.grad(probability)(20.0))
    0.5 2.0611537e-09
    """
    return _sigmoid(jnp.asarray(logit, jnp.result_type(logit, float)))


@jax.custom_jvp
def _sigmoid(logit: Array) -> Array:
    return sigmoid(logit)


@_sigmoid.defjvp
def _sigmoid_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (logit,), (tangent,) = primals, tangents
    return _sigmoid(logit), _sigmoid(logit) * _sigmoid(-logit) * tangent


TEMPERATURE = 0.5


def relaxed_gate(
    logit: Real[ArrayLike, "..."], logistic_noise: Real[ArrayLike, "..."], temperature: float = TEMPERATURE
) -> Float[Array, "..."]:
    """A gate between 0 and 1, the soft half of (5.2): biased, and smooth in both passes.

    g = sigmoid( (logit phi + logit u)/tau ),  u ~ U(0, 1),  P(g > 1/2) = phi at any temperature

    ``logit``: log-odds of phi. ``logistic_noise``: logit u, a standard logistic number. Returns numbers in [0, 1].

    >>> print(relaxed_gate(0.0, 0.0))
    0.5

    Source: Bai, Song & Cheng 2020, equation 8; Maddison et al. 2017.
    """
    return probability((jnp.asarray(logit) + logistic_noise) / temperature)


def hard_gate(
    logit: Real[ArrayLike, "..."], logistic_noise: Real[ArrayLike, "..."], temperature: float = TEMPERATURE
) -> Float[Array, "..."]:
    """A gate that is 0 or 1 going forward, and has the slope of `relaxed_gate` going backward (5.2).

    Arguments as for `relaxed_gate`. Forward it is an exact draw of Bernoulli(phi); its gradient is that of another function
    (straight through), which is the method's bias.

    >>> print(hard_gate(2.0, -1.0), jax.grad(hard_gate)(2.0, -2.0))
    1.0 0.5

    Source: Bai, Song & Cheng 2020, section 5.1.
    """
    soft = relaxed_gate(logit, logistic_noise, temperature)
    hard = (jnp.asarray(logit) + logistic_noise > 0).astype(soft.dtype)
    # The brackets make the sum exact: a gate of 0.99999994 would be neither open nor shut.
    return hard + (soft - jax.lax.stop_gradient(soft))


def inverse_cdf(
    loc: Real[ArrayLike, "..."],
    scale: Real[ArrayLike, "..."],
    logit: Real[ArrayLike, "..."],
    uniform: Real[ArrayLike, "..."],
) -> Float[Array, "..."]:
    """The draw w = F^-1(u) of the spike and slab's own distribution function: exact, and exactly differentiable.

    F^-1(u) = loc + scale Phi^-1(u/phi)               for u < a = phi Phi(-loc/scale)
              0                                       for a <= u <= a + 1 - phi
              loc + scale Phi^-1((u - 1 + phi)/phi)   for u > a + 1 - phi

    F^-1 is continuous in u and in the parameters, so that its derivative is an unbiased gradient. Unbiased is not useful: where
    the slab keeps clear of zero (|loc| above three scales), the slope in the logit sits in draws that hardly ever come, large
    when they do, and training sees almost none of it. ``uniform``: u ~ U(0, 1); ``scale`` > 0. Returns weights.

    >>> print(inverse_cdf(0.0, 1.0, 0.0, jnp.array([0.25, 0.5, 0.75])))  # phi = 1/2: zero between the quartiles
    [0. 0. 0.]

    Source: Bai, Song & Cheng 2020, section 5.
    """
    loc, scale, u = jnp.asarray(loc), jnp.asarray(scale), jnp.asarray(uniform)
    phi, dead = probability(logit), probability(-jnp.asarray(logit))
    below = phi * ndtr(-loc / scale)
    left, right = u < below, u > below + dead
    drawn = left | right
    # A quantile's slope is infinite at 0 and 1, and phi may underflow to 0: what is not drawn stands at the median of phi = 1.
    mass = jnp.where(drawn, jnp.where(left, u, u - dead), 0.5)
    share = mass / jnp.where(drawn, phi, 1.0)
    share = jnp.clip(share, jnp.finfo(share.dtype).eps, 1.0 - jnp.finfo(share.dtype).epsneg)
    return jnp.where(drawn, loc + scale * ndtri(share), 0.0)
