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


def share(outputs: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The mean of a share, sigmoid t(f) with t of (21.1)."""
    return jax.nn.sigmoid(bounded(outputs))
