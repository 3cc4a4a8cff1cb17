"""How a reactivated weight begins: at loc 0, with a scale that the weights beside it have, or a given one."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bayesprune.core import trees
from bayesprune.core.checks import check_positive, unknown_name
from bayesprune.core.types import PyTree

SCALES = ("mean", "mean_raw")


def check_new_scale(new_scale: str | float) -> None:
    """A `ValueError` unless it is one of `SCALES` or a positive number."""
    if isinstance(new_scale, str):
        if new_scale not in SCALES:
            raise unknown_name("new_scale", new_scale, SCALES, "Or give a positive number.")
    else:
        check_positive(new_scale, "new_scale")


def renew(posterior: PyTree, old: PyTree, new: PyTree, new_scale: str | float = "mean") -> PyTree:
    """The posterior in which the weights of ``new`` that were not in ``old`` start afresh; all others as they were.

    loc = 0; scale = the mean over the weights of the same array that ``old`` and ``new`` have alive, with "mean"; with
    "mean_raw" the mean of softplus^-1(scale), put back through softplus; or the number given, in the posterior's coordinates.
    A posterior of points (all scales 0) stays one. The log-odds of a `SpikeSlab`: their mean over the same weights. ``old``,
    ``new``: trees of masks.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> node = MeanField(jnp.array([1.0, 2.0, 9.0]), jnp.array([0.1, 0.3, 9.0]))
    >>> fresh = renew(node, jnp.array([True, True, False]), jnp.array([True, True, True]))
    >>> print(fresh.loc, fresh.scale)
    [1. 2. 0.] [0.1 0.3 0.2]

    Source: Li et al. 2024, section 3.2.
    """

    def node(q: PyTree, before: Array, after: Array) -> PyTree:
        grown = after & ~before
        both = before & after
        beside = jnp.where(jnp.any(both), both, before)  # where everything was exchanged, those that were there before
        return q.renewed(grown, _fresh(q.scale, beside, new_scale), lambda values: _mean(values, beside))

    return trees.map_nodes(node, posterior, old, new)


def _fresh(scale: Float[Array, "*shape"], beside: Bool[Array, "*shape"], new_scale: str | float) -> Float[Array, ""]:
    known = jnp.where(beside, scale, 1.0)  # dead entries hold whatever training left there
    if isinstance(new_scale, str):
        if new_scale == "mean":
            return _mean(known, beside)
        # softplus^-1(s) = s + log(1 - exp(-s)); a scale of exactly 0 has none, and its mean is 0 again.
        return jnp.logaddexp(0.0, _mean(known + jnp.log(-jnp.expm1(-known)), beside))
    return jnp.where(jnp.any(jnp.where(beside, scale, 0.0) > 0), jnp.asarray(new_scale, scale.dtype), 0.0)


def _mean(values: Float[Array, "*shape"], where: Bool[Array, "*shape"]) -> Float[Array, ""]:
    return jnp.sum(values, where=where) / jnp.maximum(jnp.sum(where, dtype=values.dtype), 1)
