"""Quantiles of a truncated standard normal, with slopes in its bounds: a draw that gradients go through."""

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float

from bayesprune.formulas.erfcx import erfcx
from bayesprune.formulas.truncated_log_normal import ROOT_TWO

# Newton steps of the tail; they approach from one side and stop moving after four or five.
STEPS = 8


@jax.custom_jvp
def quantile(share: Float[Array, "..."], lower: Float[Array, "..."], upper: Float[Array, "..."]) -> Float[Array, "..."]:
    """x with Phi(x) = Phi(lower) + share (Phi(upper) - Phi(lower)), shares in (0, 1); exact far from 0 too.

    >>> print(round(float(quantile(jnp.array(0.5), jnp.array(-90.0), jnp.array(-80.0))), 3))
    -80.009
    """
    mirrored = lower + upper > 0
    far, near = jnp.where(mirrored, -upper, lower), jnp.where(mirrored, -lower, upper)
    share = jnp.where(mirrored, 1.0 - share, share)
    x = jnp.where(near < -1.0, _tail(share, far, jnp.minimum(near, -1.0)), _middle(share, far, near))
    x = jnp.clip(x, far, near)
    return jnp.where(mirrored, -x, x)


def _middle(share: Array, far: Array, near: Array) -> Array:
    below = ndtr(far)
    return ndtri(jnp.clip(below + share * (ndtr(near) - below), jnp.finfo(share.dtype).tiny, 1.0))


def _tail(share: Array, far: Array, near: Array) -> Array:
    """x = near - t with log Phi(near - t) - log Phi(near) = log v, by Newton from the side where Phi is below its bound."""
    ratio = jnp.exp(0.5 * (near - far) * (near + far)) * erfcx(-far / ROOT_TWO) / erfcx(-near / ROOT_TWO)
    wanted = jnp.log(ratio + share * (1.0 - ratio))
    first = -2.0 * wanted / (jnp.sqrt(jnp.square(near) - 2.0 * wanted) - near)
    log_near = jnp.log(erfcx(-near / ROOT_TWO))

    def step(_: object, t: Array) -> Array:
        scaled = erfcx((t - near) / ROOT_TWO)
        reached = near * t - 0.5 * jnp.square(t) + jnp.log(scaled) - log_near
        return t + (reached - wanted) * scaled * jnp.sqrt(jnp.pi / 2)

    return near - jax.lax.fori_loop(0, STEPS, step, first)


@quantile.defjvp
def _slope(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[Array, Array]:
    """phi(x) dx = (1 - share) phi(lower) dlower + share phi(upper) dupper: the share is noise and does not move."""
    share, lower, upper = primals
    x = quantile(share, lower, upper)
    relative = lambda bound: jnp.exp(0.5 * (x - bound) * (x + bound))  # noqa: E731
    return x, (1.0 - share) * relative(lower) * tangents[1] + share * relative(upper) * tangents[2]
