"""The folded normal |w|, w ~ N(loc, scale²): its mean, and its mean over its standard deviation.

Both depend on the signal-to-noise ratio r = |loc|/scale alone, up to the factor scale:

    m(r) = E|w|/scale = r + d(r),  d(r) = 2 [ phi(r) - r Phi(-r) ],  Var|w|/scale² = 1 + r² - m(r)² = 1 - d (2 r + d)

The last form subtracts nothing large, so it holds from r = 0 to overflow. The score m/sqrt(Var) starts as
1.3236 (1 + 0.229 r⁴): below r = 0.25 rounding would decide its order, so a series does.
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import erf, erfc
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Float, Real

# m(0)/sqrt(Var(0)) = sqrt(2/pi)/sqrt(1 - 2/pi), and the Taylor coefficients of score/score(0) - 1 at r⁴, r⁶, ..., r²⁰.
_FLOOR = math.sqrt(2.0 / (math.pi - 2.0))
_SERIES = (
    0.229328199490342388,
    -0.275193839388410866,
    0.32295786122265924,
    -0.380799969017018882,
    0.4522032676976668,
    -0.540703842091001772,
    0.650410368983022337,
    -0.786362432308929188,
    0.954831299444182954,
)
# Beyond this ratio exp(-r²/2) is zero even in float64.
_SURE = 40.0


def signal_to_noise(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """The ratio r = |loc|/scale, score 2 of section 4, defined for scale = 0 too.

    Arguments broadcast; ``scale`` >= 0. A scale below the square root of the dtype's smallest number counts as that: weights
    without any spread (MAP) rank by |loc|, above all others, and 0/0 is 0. Returns finite ratios, >= 0.

    >>> print(signal_to_noise(jnp.array([-1.0, 0.0]), jnp.array([0.5, 0.0])))
    [2. 0.]

    Source: Blundell et al. 2015, section 5.1; Li et al. 2024, section 3.3.1.
    """
    loc, scale = jnp.asarray(loc), jnp.asarray(scale)
    return jnp.abs(loc) / jnp.maximum(scale, scale_floor(jnp.result_type(loc, scale, float)))


def scale_floor(dtype: DTypeLike) -> float:
    """The scale that stands in for 0 in a ratio: small enough to outrank every other, large enough not to overflow.

    >>> scale_floor(jnp.dtype("float32")) < 1e-18
    True
    """
    return float(jnp.finfo(dtype).tiny) ** 0.5


def expected_abs(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """E|w| for w ~ N(loc, scale²), (4.3), score 3.

    E|w| = |loc| erf(r/sqrt 2) + scale sqrt(2/pi) exp(-r²/2),  r = |loc|/scale

    Arguments broadcast; ``scale`` >= 0 in the units of ``loc``, as is the result; at scale 0 it is |loc|.

    >>> print(expected_abs(-2.0, 0.0))
    2.0

    Source: Li et al. 2024, eq. (6).
    """
    dtype = jnp.result_type(jnp.asarray(loc), jnp.asarray(scale), float)
    return _expected_abs(*jnp.broadcast_arrays(jnp.asarray(loc, dtype), jnp.asarray(scale, dtype)))


@jax.custom_jvp
def _expected_abs(loc: Array, scale: Array) -> Array:
    by_loc, by_scale = _slopes(loc, scale)
    return loc * by_loc + scale * by_scale


@_expected_abs.defjvp
def _expected_abs_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # E|w| is homogeneous in (loc, scale): the two factors of its formula are its slopes, which need no slope of loc/scale.
    by_loc, by_scale = _slopes(*primals)
    return _expected_abs(*primals), by_loc * tangents[0] + by_scale * tangents[1]


def _slopes(loc: Array, scale: Array) -> tuple[Array, Array]:
    spread = scale * _SURE > jnp.abs(loc)
    z = jnp.where(spread, loc / jnp.where(spread, scale, 1.0), jnp.sign(loc) * _SURE)
    density = jnp.where(spread, math.sqrt(2.0 / math.pi) * jnp.exp(-0.5 * z * z), 0.0)
    return erf(z * math.sqrt(0.5)), density


def expected_abs_over_std(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """E|w| / sd|w| for w ~ N(loc, scale²), (4.4), score 4.

    E|w| / sqrt(scale² + loc² - E|w|²) = m(r) / sqrt(1 - d(r) (2 r + d(r))),  r = |loc|/scale

    Arguments broadcast; ``scale`` >= 0, 0 as in `signal_to_noise`. Returns numbers from 1.3236 at r = 0, increasing in r up
    to rounding, close to r when r is large. As a ranking this is r itself, which resolves ratios below 0.02 that round to one
    score here.

    >>> print(round(float(expected_abs_over_std(0.0, 1.0)), 4))
    1.3236

    Source: Li et al. 2024, eq. (7).
    """
    return _score(signal_to_noise(loc, scale))


def _score(r: Float[Array, "..."]) -> Float[Array, "..."]:
    small = r < 0.25
    square = jnp.where(small, r * r, 0.0)
    series = jnp.zeros_like(square)
    for coefficient in reversed(_SERIES):
        series = series * square + coefficient
    near = _FLOOR * (1.0 + square * square * series)
    tail = jnp.minimum(r, _SURE)
    density = math.sqrt(0.5 / math.pi) * jnp.exp(-0.5 * tail * tail)
    excess = 2.0 * density - tail * erfc(tail * math.sqrt(0.5))
    return jnp.where(small, near, (r + excess) / jnp.sqrt(1.0 - excess * (2.0 * tail + excess)))
