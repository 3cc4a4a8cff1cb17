"""A point mass at zero and a Gaussian slab: the divergence, and how sparse the prior should be.

All inclusion probabilities are log-odds (``logit``), so that a prior inclusion of 1e-200 and a posterior one of 1 - 1e-30
are ordinary numbers.
"""

import math

import jax
import jax.numpy as jnp
from jax.nn import log_sigmoid
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from bayesprune.core.checks import check_integer, check_name
from bayesprune.formulas import gaussian
from bayesprune.formulas.gates import probability

FORMS = ("paper", "code")


def bernoulli_divergence(logit: Real[ArrayLike, "..."], prior_logit: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
    """KL( Bern(phi) || Bern(lam) ) from log-odds, the first two terms of (5.1).

    Arguments broadcast: log-odds of phi and of lam, infinite where a probability is 0 or 1. Returns nats, finite for finite
    log-odds; its slope phi (1 - phi) (logit - prior_logit) vanishes where phi saturates.

    >>> print(bernoulli_divergence(3.0, 3.0), bernoulli_divergence(0.0, -460.0))  # the second prior: lam = 1e-200
    0.0 229.30685
    """
    dtype = jnp.result_type(logit, prior_logit, float)
    # Of infinite log-odds 0 log 0 would be NaN; half the largest number leaves a difference of two finite.
    most = 0.5 * float(jnp.finfo(dtype).max)
    odds = (jnp.clip(jnp.asarray(value, dtype), -most, most) for value in (logit, prior_logit))
    return _bernoulli(*jnp.broadcast_arrays(*odds))


@jax.custom_jvp
def _bernoulli(logit: Array, prior_logit: Array) -> Array:
    alive = probability(logit) * (log_sigmoid(logit) - log_sigmoid(prior_logit))
    return alive + probability(-logit) * (log_sigmoid(-logit) - log_sigmoid(-prior_logit))


@_bernoulli.defjvp
def _bernoulli_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # Written out, because the four terms' slopes cancel but for this.
    logit, prior_logit = primals
    by_logit = probability(logit) * probability(-logit) * (logit - prior_logit)
    # lam - phi, from the side where both are small.
    by_prior = jnp.where(
        logit > 0, probability(-logit) - probability(-prior_logit), probability(prior_logit) - probability(logit)
    )
    return _bernoulli(*primals), by_logit * tangents[0] + by_prior * tangents[1]


def kl_divergence(
    loc: Real[ArrayLike, "..."],
    scale: Real[ArrayLike, "..."],
    logit: Real[ArrayLike, "..."],
    prior_loc: Real[ArrayLike, "..."] = 0.0,
    prior_scale: Real[ArrayLike, "..."] = 1.0,
    prior_logit: Real[ArrayLike, "..."] = 0.0,
) -> Float[Array, "..."]:
    """Divergence of one spike and slab from another, both with the spike at zero, element by element (5.1).

    KL = phi log(phi/lam) + (1 - phi) log((1 - phi)/(1 - lam)) + phi KL( N(loc, scale²) || N(prior_loc, prior_scale²) )

    Arguments broadcast; ``logit`` and ``prior_logit`` are the log-odds of phi and lam; scales are standard deviations, both
    positive. Returns nats.

    >>> print(kl_divergence(0.0, 1.0, 0.0))
    0.0

    Source: Bai, Song & Cheng 2020, equation 6.
    """
    slab = gaussian.kl_divergence(loc, scale, prior_loc, prior_scale)
    return bernoulli_divergence(logit, prior_logit) + probability(logit) * slab


def optimal_log_inclusion(
    num_weights: int, num_hidden: int, width: int, num_rows: int, num_inputs: int, form: str = "paper"
) -> float:
    """log lam_opt, the prior inclusion under which the posterior concentrates at the best rate (5.3).

    log(1/lam_opt) = log T + 0.1 [ (L + 1) log N + log sqrt(n p) ]

    Args:
        num_weights: T, all weights and biases.
        num_hidden: L, hidden layers.
        width: N, units of a hidden layer.
        num_rows: n, rows of the data set.
        num_inputs: p, inputs.
        form: "paper" as above; "code", the authors' program, has log(sqrt(n) p) for the last term.

    Raises:
        ValueError: a count below 1 (``num_hidden``: below 0), or an unknown form.

    >>> round(optimal_log_inclusion(1527, 3, 7, 3000, 200), 4)
    -8.7747

    Source: Bai, Song & Cheng 2020, section 4.
    """
    for name, value in (("num_weights", num_weights), ("width", width), ("num_rows", num_rows), ("num_inputs", num_inputs)):
        check_integer(value, name)
    check_integer(num_hidden, "num_hidden", minimum=0)
    check_name("form", form, FORMS)
    last = 0.5 * math.log(num_rows) + (0.5 if form == "paper" else 1.0) * math.log(num_inputs)
    return -(math.log(num_weights) + 0.1 * ((num_hidden + 1) * math.log(width) + last))
