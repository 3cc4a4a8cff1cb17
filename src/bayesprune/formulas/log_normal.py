"""Positive scales with log-normal posteriors, q(log s) = N(loc, scale²): divergences, and what they say of a unit."""

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jax.scipy.stats import norm
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from bayesprune.formulas import quadrature


def kl_gamma(
    loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."], shape: Real[ArrayLike, "..."], rate: Real[ArrayLike, "..."]
) -> Float[Array, "..."]:
    """KL( LogNormal(loc, scale²) || Gamma(shape, rate) ), nats by element (3.2).

    KL = lnGamma(a) - a log b - a loc + b exp(loc + scale²/2) - log(2 pi e scale²)/2

    >>> print(round(float(kl_gamma(0.0, 1.0, 2.0, 2.0)), 4))
    0.4922

    Source: Louizos et al. 2017, appendix.
    """
    loc, shape, rate = jnp.asarray(loc), jnp.asarray(shape), jnp.asarray(rate)
    mean = jnp.exp(loc + 0.5 * jnp.square(scale))
    return gammaln(shape) - shape * (jnp.log(rate) + loc) + rate * mean - _entropy(scale)


def kl_inverse_gamma(
    loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."], shape: Real[ArrayLike, "..."], rate: Real[ArrayLike, "..."]
) -> Float[Array, "..."]:
    """KL( LogNormal(loc, scale²) || InverseGamma(shape, rate) ): that of 1/s to the Gamma, (3.2) with -loc.

    >>> print(round(float(kl_inverse_gamma(0.0, 1.0, 2.0, 2.0)), 4))
    0.4922

    Source: Louizos et al. 2017, appendix.
    """
    return kl_gamma(-jnp.asarray(loc), scale, shape, rate)


def kl_half_cauchy(
    loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."], width: Real[ArrayLike, "..."] = 1.0
) -> Float[Array, "..."]:
    """KL( LogNormal(loc, scale²) || half-Cauchy(0, width) ), nats by element (3.3).

    KL = E log(1 + s²/b²) + log(pi b/2) - loc - log(2 pi e scale²)/2,  the expectation by Gauss-Hermite quadrature in log s

    The quadrature errs by less than 1e-6 nats for scales up to 1, 1e-4 at 2, .02 at 5. The usual auxiliary variable
    gives (3.4), which exceeds it.

    >>> print(round(float(kl_half_cauchy(0.0, 1.0)), 3))
    0.1

    Source: the prior of Carvalho, Polson & Scott 2010.
    """
    centred = jnp.asarray(loc, float) - jnp.log(width)
    # log(1 + e^2x) = x + log(2 cosh x): the part that is no polynomial is small and even.
    expected = centred + quadrature.expect(_log_two_cosh, centred, scale)
    return expected + jnp.log(jnp.pi / 2) - centred - _entropy(scale)


def probability_below(
    bound: Real[ArrayLike, "..."], loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]
) -> Float[Array, "..."]:
    """P(s < bound) = Phi( (log bound - loc)/scale ), (3.5); of a product of scales, ``loc`` adds up and ``scale²`` does.

    A scale of 0 is a point: 0 or 1.

    >>> print(probability_below(1.0, 0.0, 0.3))
    0.5

    Source: Ghosh, Yao & Doshi-Velez 2019, section 5.
    """
    distance = jnp.log(bound) - jnp.asarray(loc, float)
    spread = jnp.asarray(scale, float)
    safe = jnp.where(spread > 0, spread, 1.0)
    return jnp.where(spread > 0, norm.cdf(distance / safe), (distance > 0).astype(distance.dtype))


def log_mode(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """log of the mode of s, loc - scale² (16.4): low where a scale is small or uncertain.

    >>> print(log_mode(0.0, 2.0))
    -4.0

    Source: Louizos, Ullrich & Welling 2017, section 4.2.
    """
    return jnp.asarray(loc, float) - jnp.square(scale)


def variance(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """Var s, (exp(scale²) - 1) exp(2 loc + scale²).

    >>> print(variance(0.0, 0.0))
    0.0
    """
    square = jnp.square(jnp.asarray(scale, float))
    return jnp.expm1(square) * jnp.exp(2.0 * jnp.asarray(loc) + square)


def expected_shrinkage(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """E kappa, kappa = 1/(1 + s²), (3.6): 1 where the scale has shrunk to nothing, 0 where it lets everything through.

    >>> print(expected_shrinkage(0.0, 0.5))
    0.5

    Source: Carvalho, Polson & Scott 2010, section 2.
    """
    return quadrature.expect(lambda log_s: jax.nn.sigmoid(-2.0 * log_s), loc, scale)


def _entropy(scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """Of N(0, scale²): log(2 pi e scale²)/2."""
    return 0.5 * jnp.log(2 * jnp.pi * jnp.e) + jnp.log(jnp.asarray(scale, float))


def _log_two_cosh(x: Array) -> Array:
    return jnp.abs(x) + jnp.log1p(jnp.exp(-2.0 * jnp.abs(x)))
