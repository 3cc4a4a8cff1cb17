"""Masks of units under a prior that counts them, and moves that bring some of them to life or let some die.

p(m) = prod over layers of exp(-c k²)/C(N, k),  k >= 1 units alive of N
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float, Int


def log_prior_ratio(
    alive: Int[Array, " layers"], change: Int[Array, " layers"], total: Int[Array, " layers"], penalty: float, most: int
) -> Float[Array, ""]:
    """log p(m')/p(m) where ``change`` units of each layer are born, or die if it is negative; (19.1), for any layers at once.

      birth of j:  e^{-c (2 k j + j²)} prod_{i=1..j} (k + i)/(N - k - j + i);   death: the inverse of the birth that undoes it

    Args:
        alive: k, the units alive of each layer before.
        change: at most ``most`` in absolute value; k and k + change in 0..N, or the result means nothing.
        total: N.
        penalty: c.

    >>> ratio = log_prior_ratio(jnp.array([1]), jnp.array([1]), jnp.array([3]), 0.1, most=3)
    >>> print(round(float(ratio), 4))                        # e^{-.3} 2/2
    -0.3

    Source: Kong et al. (2023).
    """
    j, low = jnp.abs(change), jnp.minimum(alive, alive + change)
    i = jnp.arange(1, most + 1)[:, None]
    counts = i <= j
    # The numbers that do not count are put at 1, whose logarithm is 0 and finite.
    factors = jnp.where(counts, low + i, 1), jnp.where(counts, total - low - j + i, 1)
    products = jnp.sum(jnp.log(factors[0].astype(float)) - jnp.log(jnp.maximum(factors[1], 1).astype(float)), 0)
    birth = products - penalty * (2 * low * j + j * j).astype(float)
    return jnp.sum(jnp.where(change < 0, -birth, birth))


def log_choices(number: Int[Array, ""], chosen: Int[Array, ""]) -> Float[Array, ""]:
    """log C(number, chosen), of how many sets a uniform draw may have.

    >>> print(round(float(jnp.exp(log_choices(jnp.array(5), jnp.array(2))))))
    10
    """
    n, k = number.astype(float), chosen.astype(float)
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def log_set_probability(
    log_weights: Float[Array, " units"], within: Bool[Array, " units"], chosen: Bool[Array, " units"], most: int
) -> Float[Array, ""]:
    """Log probability that drawing one after the other, in proportion to the weights of what is left, gives a set; (19.3).

      Q(S) = sum over orders s_1, s_2, ... of S of prod_t w_{s_t}/(sum of w over ``within`` without s_1..s_{t-1})

    Args:
        log_weights: log w; what lies outside of ``within`` is not looked at.
        chosen: S, at most ``most`` units of ``within``. Those of largest log w plus Gumbel noise are such a draw.

    >>> weights, all_of_them = jnp.log(jnp.array([1.0, 2.0, 3.0])), jnp.ones(3, bool)
    >>> pair = jnp.array([True, True, False])                # 1/6 2/5 + 2/6 1/4
    >>> print(round(float(jnp.exp(log_set_probability(weights, all_of_them, pair, most=3))), 4))
    0.15

    Source: Plackett (1975).
    """
    units = jnp.arange(log_weights.size)
    members = jnp.nonzero(chosen, size=most, fill_value=-1)[0]  # -1 is no unit: such a place is never in a set that counts
    weight = jnp.where(members >= 0, log_weights[members], -jnp.inf)
    places = range(most)
    drawn: dict[tuple[int, ...], jax.Array] = {(): jnp.zeros(())}  # subset of places -> that it is what was drawn first
    for size in range(1, most + 1):
        for subset in itertools.combinations(places, size):
            ways = []
            for last in subset:
                before = tuple(place for place in subset if place != last)
                left = within & ~jnp.any(units == members[np.array(before)][:, None], 0) if before else within
                rest = jnp.where(jnp.any(left), jax.nn.logsumexp(log_weights, where=left), 0.0)  # empty: after no unit's place
                ways.append(drawn[before] + weight[last] - rest)
            drawn[subset] = jax.nn.logsumexp(jnp.stack(ways))
    by_number = jnp.stack([drawn[tuple(range(size))] for size in range(most + 1)])
    return by_number[jnp.sum(members >= 0)]
