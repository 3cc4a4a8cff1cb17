"""Noise theta = e^y, y ~ N(loc, scale²) within [low, high]: divergence, moments, evidence of a unit's removal.

Nothing here is 0/0 where the bounds are far from loc: the mass Z between them is kept as exp(-e²/2 + rest), with e the bound
nearer to loc in standard units, 0 where loc lies between the bounds.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import erf, ndtr, ndtri
from jax.scipy.special import erfcx as with_a_gap
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

ROOT_PI = jnp.pi**0.5
# From here on the series, in single and in double precision. JAX 0.10 has 0 from 9.195 to 9.419, and from 26.54 to 26.64.
SERIES = {True: 9.0, False: 25.0}


def erfcx(x: Real[Array, "..."]) -> Float[Array, "..."]:
    """exp(x²) erfc(x), for large x by its asymptotic series

      erfcx(x) = (1 - t + 3 t² - 15 t³ + 105 t⁴ - 945 t⁵ + 10395 t⁶) / (x sqrt(pi)),  t = 1/(2 x²)

    >>> print(round(float(erfcx(jnp.array(9.3))), 6), round(float(erfcx(jnp.array(0.0))), 6))
    0.060321 1.0

    Source: Abramowitz & Stegun (1964), 7.1.23.
    """
    x = jnp.asarray(x, float)
    begin = SERIES[jnp.finfo(x.dtype).bits <= 32]
    beyond = x > begin
    far = jnp.where(beyond, x, begin)
    t = 0.5 / jnp.square(far)
    # Horner's scheme: each factor is the ratio of one coefficient to the one before.
    series = 1.0 - t * (1.0 - 3.0 * t * (1.0 - 5.0 * t * (1.0 - 7.0 * t * (1.0 - 9.0 * t * (1.0 - 11.0 * t)))))
    return jnp.where(beyond, series / (far * ROOT_PI), with_a_gap(jnp.where(beyond, begin, x)))


ROOT_TWO = math.sqrt(2.0)
LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
NONE, LOW, HIGH = 0, 1, 2
Number = Real[ArrayLike, "..."]


def log_mass(lower: Number, upper: Number) -> Float[Array, "..."]:
    """log( Phi(upper) - Phi(lower) ), for lower < upper anywhere.

    >>> print(round(float(log_mass(-40.0, -30.0)), 2), round(float(log_mass(30.0, 40.0)), 2))
    -454.32 -454.32
    """
    end, rest, _ = _parts(jnp.asarray(lower, float), jnp.asarray(upper, float))
    return rest - 0.5 * jnp.square(end)


def kl_uniform(loc: Number, scale: Number, low: Number, high: Number) -> Float[Array, "..."]:
    """Divergence of y from the uniform distribution on [low, high], nats by element (18.1).

    KL = log(high - low) - log scale - log Z - log(2 pi e)/2 - (a phi(a) - b phi(b))/(2 Z),  a, b the bounds in standard units

    >>> print(round(float(kl_uniform(-10.0, 1.0, -20.0, 0.0)), 4))
    1.5768

    Source: Neklyudov et al. 2017, equation 18.
    """
    a, b = standard(loc, scale, low, high)
    end, rest, where = _parts(a, b)
    near, far = jnp.where(where == LOW, -a, b), jnp.where(where == LOW, -b, a)
    outside = where != NONE
    # Phi decays from the near bound: e²/2 and the near bound's term cancel, exactly so where they are large.
    tail = 1.0 / jnp.square(jnp.where(outside, jnp.minimum(near, -1.0), -1.0))
    plain = 0.5 * jnp.square(end) + 0.5 * near * jnp.exp(_log_density(near, end) - rest)
    far_away = outside & (near < -30.0) & (0.5 * (far - near) * (far + near) > 30.0)
    ends = jnp.where(far_away, -0.5 + tail - 5.0 * jnp.square(tail), plain)
    ends -= 0.5 * far * jnp.exp(_log_density(far, end) - rest)
    return jnp.log(jnp.asarray(high, float) - low) - jnp.log(scale) - LOG_ROOT_TWO_PI - 0.5 - rest + ends


def log_moment(power: float, loc: Number, scale: Number, low: Number, high: Number) -> Float[Array, "..."]:
    """log E theta^k = k loc + k² scale²/2 + log( Phi(b - k scale) - Phi(a - k scale) ) - log Z, (18.2).

    >>> print(round(float(log_moment(1.0, -3.0, 0.1, -20.0, 0.0)), 3))
    -2.995

    Source: Neklyudov et al. 2017, equation 20.
    """
    a, b = standard(loc, scale, low, high)
    shift = power * jnp.asarray(scale, float)
    end, rest, _ = _parts(a, b)
    _, moved, where = _parts(a - shift, b - shift)
    inside = power * jnp.asarray(loc, float) + 0.5 * jnp.square(shift)
    at_end = jnp.where(where == LOW, power * low - 0.5 * jnp.square(a), power * high - 0.5 * jnp.square(b))
    return jnp.where(where == NONE, inside, at_end) + 0.5 * jnp.square(end) + moved - rest


def snr(loc: Number, scale: Number, low: Number, high: Number) -> Float[Array, "..."]:
    """E theta / sd theta, by (18.2); float32 has it to 1e-3 up to 50, and at most some thousands.

    >>> print(round(float(snr(-10.0, 1.0, -20.0, 0.0)), 3))
    0.763

    Source: Neklyudov et al. 2017, section 3.4.
    """
    first, second = (log_moment(power, loc, scale, low, high) for power in (1.0, 2.0))
    square = jnp.expm1(second - 2.0 * first)
    return 1.0 / jnp.sqrt(jnp.maximum(square, jnp.finfo(square.dtype).eps))


def removal_gain(loc: Number, scale: Number, low: Number, high: Number) -> Float[Array, "..."]:
    """Log evidence gained by a prior narrowed to the lower bound, theta ~ 0: the Savage-Dickey ratio there, nats (18.4).

    dF = log(high - low) + log N(low; loc, scale²) - log Z

    >>> print(round(float(removal_gain(-19.0, 1.0, -20.0, 0.0)), 3))
    1.75

    Source: Wright, Igel & Selvan 2024, BMRS_N, in the limit of its narrow prior.
    """
    a, b = standard(loc, scale, low, high)
    end, rest, _ = _parts(a, b)
    return jnp.log(jnp.asarray(high, float) - low) - jnp.log(scale) + _log_density(a, end) - rest


def uniform_gain(
    loc: Number, scale: Number, low: Number, high: Number, reduced_low: Number, reduced_high: Number
) -> Float[Array, "..."]:
    """Log evidence gained by a uniform prior narrowed to [reduced_low, reduced_high], within the bounds, nats (18.5).

    dF = log Q(reduced_low < y < reduced_high) - log( (reduced_high - reduced_low)/(high - low) )

    >>> print(round(float(uniform_gain(-10.0, 0.1, -20.0, 0.0, -16.0, -6.0)), 3))
    0.693

    Source: Wright, Igel & Selvan 2024, BMRS_U.
    """
    inner = log_mass(*standard(loc, scale, reduced_low, reduced_high)) - log_mass(*standard(loc, scale, low, high))
    return inner - jnp.log((jnp.asarray(reduced_high, float) - reduced_low) / (jnp.asarray(high, float) - low))


def standard(loc: Number, scale: Number, low: Number, high: Number) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """The bounds in standard units, (low - loc)/scale and (high - loc)/scale."""
    loc, scale = jnp.asarray(loc, float), jnp.asarray(scale, float)
    return (jnp.asarray(low) - loc) / scale, (jnp.asarray(high) - loc) / scale


def _parts(lower: Array, upper: Array) -> tuple[Array, Array, Any]:
    """e and rest of Phi(upper) - Phi(lower) = exp(-e²/2 + rest), and which bound e is."""
    mirrored = lower + upper > 0
    far, near = jnp.where(mirrored, -upper, lower), jnp.where(mirrored, -lower, upper)
    outside = near < 0
    x, y = jnp.where(outside, near, -1.0), jnp.where(outside, far, -2.0)
    tails = erfcx(-x / ROOT_TWO) - jnp.exp(0.5 * (x - y) * (x + y)) * erfcx(-y / ROOT_TWO)
    inner = jnp.where(outside, 1.0, erf(near / ROOT_TWO) - erf(far / ROOT_TWO))
    rest = jnp.log(0.5 * jnp.where(outside, tails, inner))
    return jnp.where(outside, near, 0.0), rest, jnp.where(outside, jnp.where(mirrored, LOW, HIGH), NONE)


def _log_density(x: Array, end: Array) -> Array:
    """log phi(x) + e²/2."""
    return 0.5 * (jnp.abs(end) - jnp.abs(x)) * (jnp.abs(end) + jnp.abs(x)) - LOG_ROOT_TWO_PI


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
