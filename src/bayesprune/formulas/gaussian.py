"""Gaussian evidence, element by element: what a changed prior does to the evidence and to the posterior.

Derivation, for one weight with prior N(m0, v0), posterior N(loc, s) and reduced prior N(m1, v1). Dividing all variances by
v0 (a = v1/v0, b = s/v0) and completing the square, (2.2) and (2.3) become

    rho² = a + b - a b                          (the prior variance, the full one being 1, that explains the evidence)
    dF   = -0.5 log rho² - 0.5 [ (m1 - loc)² - a (m0 - loc)² - b (m1 - m0)² ] / (v0 rho²)
    mean = loc + b [ (m1 - loc) - a (m0 - loc) ] / rho²,    variance = v0 a b / rho²

which divides by no variance that may vanish: a = 0 removes the weight, and no two large precisions are subtracted.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real


def kl_divergence(
    loc: Real[ArrayLike, "..."],
    scale: Real[ArrayLike, "..."],
    prior_loc: Real[ArrayLike, "..."] = 0.0,
    prior_scale: Real[ArrayLike, "..."] = 1.0,
) -> Float[Array, "..."]:
    """KL( N(loc, scale²) || N(prior_loc, prior_scale²) ), one number per element; the KL inside (4.1).

    KL = 0.5 [ (scale/prior_scale)² + ((loc - prior_loc)/prior_scale)² - 1 ] - log(scale/prior_scale)

    Arguments broadcast; scales are standard deviations, both positive. Returns nats. A scale of exactly 0 gives infinity.

    >>> print(kl_divergence(0.0, 1.0))
    0.0

    Source: Kullback & Leibler 1951.
    """
    ratio = jnp.asarray(scale) / prior_scale
    distance = (jnp.asarray(loc) - prior_loc) / prior_scale
    return 0.5 * ((ratio - 1.0) * (ratio + 1.0) + distance**2) - jnp.log(ratio)


def _in_prior_units(
    loc: Real[ArrayLike, "..."],
    scale: Real[ArrayLike, "..."],
    prior: tuple[Real[ArrayLike, "..."], Real[ArrayLike, "..."]],
    reduced: tuple[Real[ArrayLike, "..."], Real[ArrayLike, "..."]],
) -> tuple[Array, ...]:
    """m1 - loc, m1 - m0, and the scales of the reduced prior and of the posterior, all over the prior's scale."""
    loc, scale, (prior_loc, prior_scale) = jnp.asarray(loc), jnp.asarray(scale), map(jnp.asarray, prior)
    reduced_loc, reduced_scale = map(jnp.asarray, reduced)
    values = (reduced_loc - loc, reduced_loc - prior_loc, reduced_scale, scale)
    return tuple(value / prior_scale for value in values)


def _shares(reduced: Array, posterior: Array) -> tuple[Array, Array, Array, Array]:
    """sqrt(a)/rho and sqrt(b)/rho, where rho² > 0 (else 0), and rho and rho² in units of the larger of the two scales.

    In that unit nothing underflows, neither here nor in a slope: squares of scales below 1e-19 are zero in float32.
    """
    largest = jnp.maximum(reduced, posterior)
    unit = jax.lax.stop_gradient(jnp.where(largest > 0, largest, 1.0))
    r, s = reduced / unit, posterior / unit
    rho2 = r * r * (1.0 - posterior) * (1.0 + posterior) + s * s  # neither a near 1 nor b near 1 cancels
    rho = jnp.sqrt(jnp.where(rho2 > 0, rho2, 1.0))
    return jnp.where(rho2 > 0, r / rho, 0.0), jnp.where(rho2 > 0, s / rho, 0.0), rho * unit, rho2


def log_evidence_gain(
    loc: Real[ArrayLike, "..."],
    scale: Real[ArrayLike, "..."],
    prior_loc: Real[ArrayLike, "..."],
    prior_scale: Real[ArrayLike, "..."],
    reduced_loc: Real[ArrayLike, "..."],
    reduced_scale: Real[ArrayLike, "..."],
) -> Float[Array, "..."]:
    """Log evidence under the reduced prior minus that under the full one: dF of (2.1), in the closed form (2.2).

    dF = 0.5 log( Pq P1 / (P0 P) ) - 0.5 ( Pq loc² + P1 m1² - P0 m0² - P m² )  with P = Pq + P1 - P0

    Arguments broadcast; scales are standard deviations, ``prior_scale`` positive, ``reduced_scale`` 0 allowed.
    Returns nats, positive where the reduced model explains the data better. A reduced prior so much wider than the full one
    that P <= 0 has no reduced posterior, and E_q[p_reduced/p_full] diverges: infinity.

    >>> print(log_evidence_gain(0.0, 0.5, 0.0, 1.0, 0.0, 0.0))  # log 2: removed
    0.6931472

    Source: Marković et al. 2024, eq. (5); Friston & Penny 2011.
    """
    pieces = _in_prior_units(loc, scale, (prior_loc, prior_scale), (reduced_loc, reduced_scale))
    return _gain(*jnp.broadcast_arrays(*pieces))


def reduced_posterior(
    loc: Real[ArrayLike, "..."],
    scale: Real[ArrayLike, "..."],
    prior_loc: Real[ArrayLike, "..."],
    prior_scale: Real[ArrayLike, "..."],
    reduced_loc: Real[ArrayLike, "..."],
    reduced_scale: Real[ArrayLike, "..."],
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Location and scale of the posterior under the reduced prior, without seeing the data again, (2.3).

    m = (Pq loc + P1 m1 - P0 m0) / P,  scale = P^(-1/2),  P = Pq + P1 - P0

    Arguments as for `log_evidence_gain`. Returns (loc, scale); NaN where P <= 0, because no such posterior exists.

    >>> loc, scale = reduced_posterior(0.3, 0.2, 0.0, 1.0, 0.0, 0.0)
    >>> print(loc, scale)  # removed
    0.0 0.0

    Source: Marković et al. 2024, section II-D.
    """
    distance, moved, reduced, posterior = _in_prior_units(loc, scale, (prior_loc, prior_scale), (reduced_loc, reduced_scale))
    by_reduced, by_posterior, _, rho2 = _shares(reduced, posterior)
    exists = jnp.where((rho2 > 0) | (reduced == 0), 1.0, jnp.nan)
    # loc + b/rho² (m1 - loc) - a b/rho² (m0 - loc), started from m1 so that a = 0 lands on m1 exactly.
    mean = jnp.asarray(reduced_loc) - prior_scale * by_reduced**2 * (distance - posterior**2 * moved)
    return mean * exists, jnp.asarray(prior_scale) * reduced * by_posterior * exists


@jax.custom_jvp
def _gain(distance: Array, moved: Array, reduced: Array, posterior: Array) -> Array:
    """dF of the derivation above from m1 - loc, m1 - m0 and the two scales, all in units of the prior's scale."""
    return _gain_and_slopes(distance, moved, reduced, posterior)[0]


@_gain.defjvp
def _gain_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    # Written out, because rho² and rho⁴ in the denominators underflow long before rho does.
    value, *slopes = _gain_and_slopes(*primals)
    most = jnp.finfo(value.dtype).max
    terms = (jnp.clip(slope, -most, most) * tangent for slope, tangent in zip(slopes, tangents, strict=True))
    return value, sum(terms, start=jnp.zeros_like(value))


def _gain_and_slopes(e: Array, moved: Array, reduced: Array, posterior: Array) -> tuple[Array, ...]:
    """dF = -log rho - Q/2, Q being the square bracket over rho², and its slopes in the four arguments."""
    r, s, rho, rho2 = _shares(reduced, posterior)
    largest = 0.9 * float(jnp.finfo(rho.dtype).max) ** 0.5
    z = jnp.clip(e / rho, -largest, largest)
    less_a, less_b = (1.0 - reduced) * (1.0 + reduced), (1.0 - posterior) * (1.0 + posterior)
    # Where the mean stays (m1 = m0) the first two terms are one square times 1 - a: factored, so they do not cancel.
    square = less_a * z**2 + r**2 * moved * (2.0 * e - moved) - (s * moved) ** 2
    slopes = (
        -less_a * z / rho - r**2 * moved,
        s**2 * moved - r**2 * (e - moved),
        r / rho * ((e - moved) ** 2 - less_b * (1.0 - square)),
        s / rho * (moved**2 - less_a * (1.0 - square)),
    )
    # rho² = 0 is a point mass meeting a point mass: certain to agree or certain to differ.
    limit = jnp.where((rho2 == 0) & (jnp.maximum(reduced, posterior) == 0) & (e != 0), -jnp.inf, jnp.inf)
    value = jnp.where(rho2 > 0, -jnp.log(rho) - 0.5 * square, limit)
    return value, *(jnp.where(rho2 > 0, slope, 0.0) for slope in slopes)


def log_evidence_gain_of_shrinkage(
    loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."], shrinkage: Real[ArrayLike, "..."]
) -> Float[Array, "..."]:
    """Log evidence gained by narrowing the prior N(0, 1) to N(0, theta²), (2.4), theta being ``shrinkage``.

    dF = -0.5 log rho² - 0.5 (loc/scale)² (1 - theta²/rho²),  rho² = theta² + scale² - theta² scale²

    Arguments broadcast, ``loc`` and ``scale`` in units of the prior's scale. Returns nats.

    >>> bool(log_evidence_gain_of_shrinkage(0.0, 0.1, 0.2) > 0 > log_evidence_gain_of_shrinkage(2.0, 0.1, 0.2))
    True

    Source: Marković et al. 2024, section II-G.
    """
    return log_evidence_gain(loc, scale, 0.0, 1.0, 0.0, shrinkage)


def log_evidence_gain_of_removal(
    loc: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."], prior_scale: Real[ArrayLike, "..."] = 1.0
) -> Float[Array, "..."]:
    """Log evidence gained by removing a weight whose prior is N(0, prior_scale²): the Savage-Dickey density ratio, (2.5).

    dF0 = log N(0; loc, scale²) - log N(0; 0, prior_scale²) = log(prior_scale/scale) - 0.5 (loc/scale)²

    Arguments broadcast; scales are standard deviations, ``prior_scale`` positive. Returns nats; positive = better without it.
    As scale -> 0 the limit is minus infinity for loc != 0 and plus infinity for loc = 0 (a weight that is already gone: keep
    it out). Both saturate at the dtype's range, so that sums and products with a mask stay free of NaN.

    >>> print(log_evidence_gain_of_removal(0.0, 1.0))
    0.0
    >>> bool(log_evidence_gain_of_removal(2.0, 0.1) < 0 < log_evidence_gain_of_removal(0.0, 0.0))
    True

    Source: Marković et al. 2024, section II-G; Dickey 1971.
    """
    dtype = jnp.result_type(jnp.asarray(loc), jnp.asarray(scale), float)
    loc, scale = jnp.broadcast_arrays(jnp.asarray(loc, dtype), jnp.asarray(scale, dtype))
    return jnp.log(jnp.asarray(prior_scale)) - _negative_log_density_at_zero(loc, scale)


def _ratio(loc: Array, scale: Array) -> tuple[Array, Array]:
    """loc/scale, saturating where its square would overflow, and the scale, no smaller than the smallest normal number."""
    safe = jnp.maximum(scale, jnp.finfo(scale.dtype).tiny)
    largest = 0.9 * float(jnp.finfo(scale.dtype).max) ** 0.5
    return jnp.clip(loc / safe, -largest, largest), safe


@jax.custom_jvp
def _negative_log_density_at_zero(loc: Array, scale: Array) -> Array:
    """-log N(0; loc, scale²) without its constant."""
    ratio, safe = _ratio(loc, scale)
    return jnp.log(safe) + 0.5 * ratio**2


@_negative_log_density_at_zero.defjvp
def _jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # Written out, because scale² in the slope of loc/scale underflows long before scale does.
    ratio, safe = _ratio(*primals)
    most = jnp.finfo(safe.dtype).max
    by_loc, by_scale = (jnp.clip(slope, -most, most) for slope in (ratio / safe, (1.0 - ratio**2) / safe))
    return _negative_log_density_at_zero(*primals), by_loc * tangents[0] + by_scale * tangents[1]
