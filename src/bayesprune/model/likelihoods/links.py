"""From outputs on the whole line to means of counts and of shares, with gradients that stay finite."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

EDGE = 20.0


def bounded(outputs: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The output itself up to 20 on either side; beyond, it goes on as a logarithm (21.1).

      t(f) = f for |f| <= 20,  sign(f) (20 + log(|f| - 19)) otherwise

    exp t is then exp up to 4.9e8 and goes on along its tangent; 1 / exp t does below. Nothing overflows in single precision,
    and the slope is never zero.

    >>> print(bounded(jnp.array([-1.0, 20.0, 39.0])))
    [-1.       20.       22.995731...]
    """
    beyond = jnp.maximum(jnp.abs(outputs) - EDGE, 0.0)
    return jnp.clip(outputs, -EDGE, EDGE) + jnp.sign(outputs) * jnp.log1p(beyond)


def rate(outputs: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The mean of a count, exp t(f) with t of (21.1)."""
    return jnp.exp(bounded(outputs))


def softplus_rate(outputs: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The mean of a count that grows no faster than its output: log(1 + exp f) / log 2, which is 1 at f = 0 (21.34).

    Below f = -20 it is exp t(f) / log 2, with t of (21.1), which never comes to zero.

    >>> print(softplus_rate(jnp.array([-1.0, 0.0, 100.0])))
    [  0.45194...   1.   144.2695...]
    """
    positive = jnp.where(outputs < -EDGE, jnp.exp(bounded(outputs)), jax.nn.softplus(jnp.maximum(outputs, -EDGE)))
    return positive / jnp.log(2.0).astype(positive.dtype)


def share(outputs: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The mean of a share, sigmoid t(f) with t of (21.1)."""
    return jax.nn.sigmoid(bounded(outputs))
