"""Gaussians z ~ N(loc, scale²) under the improper prior p(z) ~ 1/|z|: divergence, exact and fitted; noise in logarithms."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real
from numpy.polynomial import chebyshev
from scipy.special import erf

# Fitted by Molchanov et al.
K1, K2, K3 = 0.63576, 1.87320, 1.48695
# log C of p(z) = C/|z| for which the divergence goes to 0 as alpha grows: -(1 + log 2 pi)/2 - (Euler's gamma + log 2)/2.
LOG_CONSTANT = -2.0541199559354117
CENTRE, DEGREE = 2.0, 28
END = 4.0 * np.exp(np.euler_gamma)  # twice the integral of Dawson's function to s is log(END s²)/2 for large s
# Below these all is zero; a scale and a loc of zero count as noise alone.
LEAST_SCALE, LEAST_LOC = 1e-25, 1e-30


def kl_divergence(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """KL( N(loc, scale²) || 1/|z| ), nats by element, as a fit of three numbers (13.5); alpha = scale²/loc², scale > 0.

    KL ~ k1 (1 - sigmoid(k2 + k3 log alpha)) + log(1 + 1/alpha)/2

    The prior has no norm: the constant is such that KL -> 0 for alpha -> infinity. It errs by at most .0094 nats, and its slope
    in log alpha by .014.

    >>> print(kl_divergence(0.0, 1.0), round(float(kl_divergence(1.0, 1.0)), 3))
    0.0 0.431

    Source: Molchanov, Ashukha & Vetrov 2017, equation 14.
    """
    square = jnp.square(jnp.asarray(loc, float) / scale)
    some = square > 0
    # No logarithm of zero, and none in the backward pass: the fit ends at 0 with a slope of 0.
    fitted = K1 * jax.nn.sigmoid(K3 * jnp.log(jnp.where(some, square, 1.0)) - K2)
    return jnp.where(some, fitted, 0.0) + 0.5 * jnp.log1p(square)


def exact_kl_divergence(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """KL( N(loc, scale²) || 1/|z| ), nats by element, with D Dawson's function (13.2); scale > 0; its slope is (13.4).

      KL = 2 int_0^s D(t) dt,  s = |loc|/(scale sqrt 2);   dKL/dlog alpha = -s D(s)

    with the constant of (13.5), KL -> 0 for alpha -> infinity. What is between it and log(1 + 4 e^gamma s²)/2, the same at both
    ends, is a polynomial in s²/(s² + 2): it errs by less than 1e-7 nats, its slope in log alpha by less than 2e-7.

    >>> print(exact_kl_divergence(0.0, 1.0), round(float(exact_kl_divergence(1.0, 1.0)), 3))
    0.0 0.427

    Source: Molchanov, Ashukha & Vetrov 2017, equation 13; Hron, Matthews & Ghahramani 2018 for Dawson's function.
    """
    square = 0.5 * jnp.square(jnp.asarray(loc, float) / scale)
    # s² / (s² + 2), and 0 and 1 at the ends without 0/0 or infinity over itself.
    place = 2.0 * jnp.where(square < 1.0, square / (square + CENTRE), 1.0 / (1.0 + CENTRE / jnp.maximum(square, 1.0))) - 1.0
    first, second = jnp.zeros_like(place), jnp.zeros_like(place)
    for coefficient in _coefficients()[:0:-1]:
        first, second = coefficient + 2.0 * place * first - second, first
    rest = _coefficients()[0] + place * first - second
    # Nothing at s = 0, to the last digit, and with the polynomial's slope: of it the second derivative in loc is made.
    rest = jnp.where(square > 0, rest, rest - jax.lax.stop_gradient(rest))
    return 0.5 * jnp.log1p(END * square) + rest


@functools.cache
def _coefficients() -> tuple[float, ...]:
    """Of Chebyshev's polynomials in 2 s²/(s² + 2) - 1, for what is between the divergence and log(1 + END s²)/2."""

    def between(place: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
        share = (place + 1.0) / 2.0
        s = np.sqrt(CENTRE * share / (1.0 - share))
        return _integral(s) - 0.5 * np.log1p(END * s * s)

    found = chebyshev.chebinterpolate(between, DEGREE)
    found[0] -= chebyshev.chebval(-1.0, found)  # nothing at all at s = 0
    return tuple(map(float, found))


def _integral(s: np.ndarray) -> np.ndarray:
    """2 int_0^s D, by Rybicki's sum of D, term by term; beyond 6 by the first terms of its series at infinity.

    D(t) ~ pi^(-1/2) sum_{n odd} exp(-(t - n h)²)/n,   2 int_0^s D ~ sum_{n odd > 0} (erf(s - nh) - erf(s + nh) + 2 erf(nh))/n
    """
    n, h = np.arange(1, 61, 2), 0.2
    at = np.minimum(s, 6.0)[:, None]
    near = np.sum((erf(at - n * h) - erf(at + n * h) + 2 * erf(n * h)) / n, axis=1)
    large = np.maximum(s, 6.0)
    far = 0.5 * np.log(END * large**2) - 0.25 / large**2 - 3 / 16 / large**4 - 5 / 16 / large**6 - 105 / 128 / large**8
    return np.where(s < 6.0, near, far)


def log_alpha(loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """log alpha = log scale² - log loc², the noise of a scale in units of its mean; finite, and high at loc = scale = 0.

    >>> print(log_alpha(1.0, 1.0), log_alpha(0.0, 0.0) > 20)
    0.0 True
    """
    noise, signal = jnp.maximum(scale, LEAST_SCALE), jnp.maximum(jnp.abs(jnp.asarray(loc, float)), LEAST_LOC)
    return 2.0 * (jnp.log(noise) - jnp.log(signal))
