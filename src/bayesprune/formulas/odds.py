"""Probabilities from log-odds, with slopes that keep their digits where a probability is all but 0 or 1."""

import jax
import jax.numpy as jnp
from jax.nn import sigmoid
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
