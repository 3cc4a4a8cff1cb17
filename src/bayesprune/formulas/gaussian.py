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


def _reduction(
    loc: Real[ArrayLike, "..."],
    scale: Real[ArrayLike, "..."],
    prior: tuple[Real[ArrayLike, "..."], Real[ArrayLike, "..."]],
    reduced: tuple[Real[ArrayLike, "..."], Real[ArrayLike, "..."]],
) -> tuple[Array, ...]:
    """The pieces of the derivation above in units of the prior's scale: a, b, rho², m0 - loc, m1 - loc, m1 - m0."""
    loc, scale = jnp.asarray(loc), jnp.asarray(scale)
    prior_loc, prior_scale = map(jnp.asarray, prior)
    reduced_loc, reduced_scale = map(jnp.asarray, reduced)
    a = (reduced_scale / prior_scale) ** 2
    b = (scale / prior_scale) ** 2
    to_prior = (prior_loc - loc) / prior_scale
    to_reduced = (reduced_loc - loc) / prior_scale
    moved = (reduced_loc - prior_loc) / prior_scale
    # a + b - a b, written so that neither a near 1 nor b near 1 cancels.
    return a, b, a * (1.0 - b) + b, to_prior, to_reduced, moved


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
    a, b, rho2, to_prior, to_reduced, moved = _reduction(loc, scale, (prior_loc, prior_scale), (reduced_loc, reduced_scale))
    safe = jnp.where(rho2 > 0, rho2, 1.0)
    # Where the mean stays (m1 = m0) the first two terms are one square times 1 - a: factored, so they do not cancel.
    square = (1.0 - a) * to_reduced**2 + a * moved * (to_reduced + to_prior) - b * moved**2
    # rho² = 0 is a point mass meeting a point mass: certain to agree or certain to differ.
    limit = jnp.where((rho2 == 0) & (square > 0), -jnp.inf, jnp.inf)
    return jnp.where(rho2 > 0, -0.5 * jnp.log(safe) - 0.5 * square / safe, limit)


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
    a, b, rho2, to_prior, to_reduced, _ = _reduction(loc, scale, (prior_loc, prior_scale), (reduced_loc, reduced_scale))
    rho2 = jnp.where(rho2 > 0, rho2, jnp.where(rho2 == 0, 1.0, jnp.nan))
    # loc + b/rho² (m1 - loc) - a b/rho² (m0 - loc), started from m1 so that a = 0 lands on m1 exactly.
    mean = jnp.asarray(reduced_loc) - (prior_scale * (a / rho2)) * ((1.0 - b) * to_reduced + b * to_prior)
    return mean, jnp.asarray(prior_scale) * jnp.sqrt(a * (b / rho2))


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
