"""Removal of single weights from a correlated Gaussian posterior: each by its marginal, and what it leaves the others.

Derivation. With prior N(0, diag(prior_scale²)), removing weight i asks for the ratio of posterior and prior density at
w_i = 0 (Savage and Dickey), and those are the marginals: of N(loc_i, S_ii) and N(0, prior_scale_i²). The others' posterior is
that given w_i = 0.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Integer, Real

from bayesprune.formulas import gaussian


def removal_gains(
    loc: Real[ArrayLike, "dim"], covariance: Real[ArrayLike, "dim dim"], prior_scale: Real[ArrayLike, "..."]
) -> Float[Array, "dim"]:
    """Log evidence gained by removing each weight alone, exact where the posterior is (20.1).

      dF0_i = log(prior_scale_i / sqrt(S_ii)) - loc_i² / (2 S_ii)

    ``loc`` (dim,), ``covariance`` S (dim, dim) of the posterior; ``prior_scale``: standard deviations of the independent prior
    N(0, prior_scale²). Nats. A mean-field posterior has the conditional variances 1/(S^-1)_ii in the place of S_ii: it is surer
    of every weight than it should be, and so is its evidence, for and against.

    >>> print(removal_gains(jnp.array([0.0, 2.0]), jnp.array([[0.25, 0.0], [0.0, 1.0]]), 1.0))
    [ 0.6931472 -2.       ]

    Source: Dickey 1971; optimal brain surgeon (Hassibi & Stork 1993) has the same quadratic term.
    """
    marginal = jnp.sqrt(jnp.diagonal(jnp.asarray(covariance)))
    return gaussian.log_evidence_gain_of_removal(loc, marginal, prior_scale)


def remove(
    loc: Real[ArrayLike, "dim"], covariance: Real[ArrayLike, "dim dim"], index: Integer[ArrayLike, ""] | int
) -> tuple[Float[Array, "dim"], Float[Array, "dim dim"]]:
    """The posterior of all weights given that weight ``index`` is zero: mean and covariance (20.2).

      loc - S_:i loc_i / S_ii,   S - S_:i S_i: / S_ii

    What it removes has mean and variance exactly zero.

    >>> print(remove(jnp.array([1.0, 1.0]), jnp.array([[1.0, 0.5], [0.5, 1.0]]), 1)[0])
    [0.5 0. ]

    Source: Hassibi & Stork 1993, equation 5.
    """
    loc, covariance = jnp.asarray(loc), jnp.asarray(covariance)
    column = covariance[:, index]
    at = jnp.arange(loc.shape[0]) != index
    mean = loc - column * (loc[index] / column[index])
    rest = covariance - jnp.outer(column, column / column[index])
    return jnp.where(at, mean, 0.0), jnp.where(at[:, None] & at[None, :], rest, 0.0)
