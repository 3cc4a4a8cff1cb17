"""Exponential moments of |w|, w ~ N(loc, scale²), in log space: scores 5 and 6.

With r = |loc|/scale, t = lam scale and K(t) = log E exp(lam|w|), (4.5) is

    K(t) = t²/2 + lam |loc| + g(t),  g(t) = log[ Phi(r + t) + exp(-2 t r) Phi(t - r) ]

For score 6, E_lam / sqrt(E_2lam - E_lam²) = 1/sqrt(expm1(D)) with D = K(2t) - 2 K(t) = t² + g(2t) - 2 g(t). Small t would leave
nothing but rounding in K and D, so there they are integrals of positive functions,

    K(t) = int_0^t K'(u) du,    D = int_0^t u K''(u) du + int_t^2t (2t - u) K''(u) du,

K' and K'' being mean and variance of y = |w|/scale under its density tilted by exp(u y): a mixture of N(r + u, 1) and
N(u - r, 1), both cut off at 0. Eight Gauss-Legendre points per piece are exact to rounding for t <= 1.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jax.scipy.special import log_ndtr
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from bayesprune.formulas.folded import scale_floor, signal_to_noise

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
# Where the second component of the mixture has no weight left, so that r may stop here in everything but the mean.
_SURE = 20.0


@jax.jit
def log_expected_exp(
    loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."], lam: Real[ArrayLike, "..."] = 1.0
) -> Float[Array, "..."]:
    """log E exp(lam |w|) for w ~ N(loc, scale²), the logarithm of (4.5), score 5.

    E = Phi(z + lam scale) exp(lam² scale²/2 + lam loc) + Phi(-z + lam scale) exp(lam² scale²/2 - lam loc),  z = loc/scale

    Arguments broadcast; ``scale`` >= 0, ``lam`` > 0 in units of 1/scale. Returns nats, >= 0, of float32 where the
    arguments have 16 bits; at scale 0 it is lam |loc|.

    >>> print(log_expected_exp(3.0, 0.0, 2.0))
    6.0

    Source: Li et al. 2024, section 3.3.1 and eq. (16).
    """
    loc, scale, lam = map(_wide, (loc, scale, lam))
    r, t, sure = _coordinates(loc, scale, lam)
    small = t <= 1.0
    near, far = jnp.where(small, t, 1.0), jnp.where(small, 1.0, t)
    integral = _integrate(lambda x: _tilted(r, near * x)[0], r * near)
    lam_loc = lam * jnp.abs(jnp.asarray(loc))
    # Beyond r = 20 only the mean still grows: lam |loc| - t r is that growth.
    return jnp.where(small, near * integral, 0.5 * far**2 + far * r + _overlap(r, far)) + jnp.where(sure, lam_loc - t * r, 0.0)


@jax.jit
def log_expected_exp_over_std(
    loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."], lam: Real[ArrayLike, "..."] = 1.0
) -> Float[Array, "..."]:
    """log of E exp(lam |w|) / sd exp(lam |w|) for w ~ N(loc, scale²), the logarithm of (4.6), score 6.

    E_lam / sqrt(E_2lam - E_lam²),  E_lam = (4.5)

    Arguments broadcast; ``scale`` >= 0, ``lam`` > 0 in units of 1/scale. Returns nats of a ratio. At scale 0 the
    deviation counts as the smallest one representable, so weights without spread rank by |loc|, above all others. For small
    ``lam scale`` the score decreases with |loc|/scale: it drops the surest weights first.

    >>> print(round(float(log_expected_exp_over_std(0.0, 1e-4)), 2))  # -log(1e-4 sqrt(1 - 2/pi))
    9.72

    Source: Li et al. 2024, eq. (8), whose Phi is misprinted.
    """
    loc, scale, lam = map(_wide, (loc, scale, lam))
    r, t, _ = _coordinates(loc, scale, lam)
    small = t <= 1.0
    near, far = jnp.where(small, t, 1.0), jnp.where(small, 1.0, t)
    # u = t x below, u = t (2 - x) above: the kernel is x in both.
    unit = _integrate(lambda x: x * (_tilted(r, near * x)[1] + _tilted(r, near * (2.0 - x))[1]), r * near)
    gap = far**2 + _overlap(r, 2.0 * far) - 2.0 * _overlap(r, far)
    # log expm1(D): of D = near² unit the factor near² goes through the logarithm alone, where it cannot underflow.
    d = jnp.where(small, near * near * unit, 1.0)
    log_near = 2.0 * jnp.log(jnp.maximum(near, scale_floor(t.dtype))) + jnp.log(unit) + jnp.log(_expm1_ratio(d))
    log_far = gap + jnp.log1p(-jnp.exp(-gap))
    ceiling = log_expected_exp(loc, scale, lam) - math.log(scale_floor(t.dtype))
    return jnp.where(t > 0, -0.5 * jnp.where(small, log_near, log_far), ceiling)


def _wide(value: ArrayLike) -> Array:
    """``value``; in float32 if it is of 16 bits, which `log_ndtr` refuses."""
    value = jnp.asarray(value)
    return value.astype(jnp.float32) if jnp.issubdtype(value.dtype, jnp.floating) and value.dtype.itemsize < 4 else value


def _coordinates(loc: ArrayLike, scale: ArrayLike, lam: ArrayLike) -> tuple[Array, Array, Array]:
    """r (no larger than 20), t = lam scale, and whether r was cut."""
    ratio = signal_to_noise(loc, scale)
    dtype = jnp.result_type(ratio, jnp.asarray(lam), float)
    return jnp.minimum(ratio, _SURE).astype(dtype), jnp.asarray(lam * jnp.asarray(scale), dtype), ratio > _SURE


def _integrate(function: Callable[[Array], Array], like: Array) -> Array:
    """Integral over [0, 1] of a function of a scalar whose values are shaped like ``like``; a scan, so it is compiled once."""
    nodes = jnp.asarray(np.stack([0.5 * (1.0 + _NODES), 0.5 * _WEIGHTS], axis=1), like.dtype)
    return jax.lax.scan(lambda total, node: (total + node[1] * function(node[0]), None), jnp.zeros_like(like), nodes)[0]


def _expm1_ratio(x: Array) -> Array:
    """expm1(x)/x as the integral of exp(x u) over [0, 1], which has a slope wherever it has a value."""
    return _integrate(lambda u: jnp.exp(x * u), x)


def _overlap(r: Array, t: Array) -> Array:
    """g(t) of the derivation above."""
    return jnp.logaddexp(log_ndtr(r + t), log_ndtr(t - r) - 2.0 * t * r)


def _tilted(r: Array, u: Array) -> tuple[Array, Array]:
    """Mean and variance of y > 0 whose density is proportional to exp(u y) [ phi(y - r) + phi(y + r) ], for r <= 20."""
    log_right, log_left = log_ndtr(u + r), log_ndtr(u - r)
    share = sigmoid(log_left - log_right - 2.0 * u * r)
    mean_right, variance_right = _cut_at_zero(u + r, log_right)
    mean_left, variance_left = _cut_at_zero(u - r, log_left)
    apart = mean_right - mean_left
    mean = mean_right - share * apart
    return mean, (1.0 - share) * variance_right + share * variance_left + share * (1.0 - share) * apart**2


def _cut_at_zero(centre: Array, log_mass: Array) -> tuple[Array, Array]:
    """Mean and variance of N(centre, 1) given that it is positive; the variance may round a little off below centre = -4."""
    hazard = jnp.exp(-0.5 * centre**2 - log_mass - 0.5 * math.log(2.0 * math.pi))
    return centre + hazard, 1.0 - hazard * (hazard + centre)
