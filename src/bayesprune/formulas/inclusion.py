"""How many weights of a group belong: the Beta-Bernoulli fixed point over log evidence gains."""

import jax
import jax.numpy as jnp
from jax.nn import sigmoid
from jax.scipy.special import digamma
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Real

from bayesprune.core.checks import check_integer


def inclusion(
    removal_gain: Float[ArrayLike, "..."],
    alpha0: Real[ArrayLike, ""] = 1.0,
    beta0: Real[ArrayLike, ""] = 1.0,
    num_iters: int = 4,
    where: Bool[ArrayLike, "..."] = True,
) -> tuple[Float[Array, "..."], Float[Array, ""]]:
    """Inclusion probabilities of one group's weights, whose rate pi ~ Beta(alpha0, beta0) is learnt from all of them, (2.6).

    q = sigmoid(zeta - dF0),  zeta = psi(alpha) - psi(beta),  alpha = alpha0 + sum q,  beta = beta0 + sum (1 - q)

    ``removal_gain``: dF0 of (2.5) in nats, any shape, the whole group. ``where``: entries that count; the others (weights that
    are already gone, if the group is to forget them) join no sum, and their q is 0. Returns q, of the same shape, after
    ``num_iters`` rounds from zeta = psi(alpha0) - psi(beta0), and the scalar zeta that made this q: q < 1/2 is dF0 > zeta.

    >>> q, zeta = inclusion(jnp.array([5.0, 6.0, 7.0, -9.0]))
    >>> print(q < 0.5, bool(zeta < 0))
    [ True  True  True False] True

    Source: Marković et al. 2024, section II-G.
    """
    check_integer(num_iters, "num_iters")
    removal_gain = jnp.asarray(removal_gain)
    where = jnp.broadcast_to(jnp.asarray(where), removal_gain.shape)
    dtype = removal_gain.dtype
    alpha0, beta0 = jnp.asarray(alpha0, dtype), jnp.asarray(beta0, dtype)

    def refine(_: Array | int, zeta: Array) -> Array:
        q = sigmoid(zeta - removal_gain)
        # 1 - q as its own sigmoid: near q = 1 the difference would round away.
        alpha = alpha0 + jnp.sum(q, where=where)
        beta = beta0 + jnp.sum(sigmoid(removal_gain - zeta), where=where)
        return digamma(alpha) - digamma(beta)

    zeta = jax.lax.fori_loop(0, num_iters - 1, refine, digamma(alpha0) - digamma(beta0))
    return jnp.where(where, sigmoid(zeta - removal_gain), 0.0), zeta
