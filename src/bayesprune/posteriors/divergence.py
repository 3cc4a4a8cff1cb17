"""Divergences in closed form, for sites whose elements are independent: those of NumPyro's registry, by exact kinds.

A law of a file of its own registers what it has, ``@kl_divergence.register(Posterior, Prior)`` of `numpyro.distributions.kl`.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.distributions.kl import kl_divergence

from bayesprune.formulas import gaussian, log_normal


class Elementwise(NamedTuple):
    """What lies below expansions, masks and ``to_event``: a distribution of each element, and the mask (None = all alive)."""

    fn: Any
    mask: jax.Array | None


def read_elementwise(fn: Distribution) -> Elementwise | None:
    """Look through expansions and masks; None where a mask counts a joint density, which is no mask of elements."""
    mask = None
    while isinstance(fn, dist.ExpandedDistribution | dist.MaskedDistribution | dist.Independent):
        if isinstance(fn, dist.MaskedDistribution):
            if fn.event_shape:
                return None
            mask = both(mask, jnp.asarray(fn._mask))
        fn = fn.base_dist
    return Elementwise(fn, mask)


def both(mask: jax.Array | None, other: jax.Array | None) -> jax.Array | None:
    """Alive in both; None = all alive."""
    return mask if other is None else other if mask is None else mask & other


def closed_form(guide: Distribution, model: Distribution) -> Callable[[Any, Any], jax.Array] | None:
    """The function (posterior, prior) -> nats for two distributions' kinds; None if the divergence has to be sampled.

    By exact kinds: what NumPyro has for a class and all that derive from it is none of, say, a law of draws that are shared.
    """
    kinds = (type(guide), type(model))
    if kinds == (dist.Normal, dist.Normal):  # NumPyro's own rounds otherwise
        return _normals
    return None if guide.event_shape or model.event_shape else kl_divergence.funcs.get(kinds)  # type: ignore[no-any-return]


def divergence(posterior: Distribution, prior: Any) -> jax.Array:
    """The divergence of a guide site's distribution from its prior, nats by element, 0 for what is dead in either.

    ``prior``: a distribution, or what `read_elementwise` gives of it. `ValueError` where there is no closed form.

    >>> print(divergence(dist.Normal(jnp.ones(2), 1.0), dist.Normal(0.0, 1.0)))
    [0.5 0.5]
    """
    prior = prior if isinstance(prior, Elementwise) else read_elementwise(prior)
    fn, mask = read_elementwise(posterior)  # type: ignore[misc]
    mask = both(mask, prior.mask)
    if mask is not None and hasattr(fn, "scale"):
        # Dead elements may have scale zero: put in a harmless value before the logarithm, so that gradients stay finite.
        fn = copy.copy(fn)
        fn.scale = jnp.where(mask, fn.scale, 1.0)
    law = closed_form(fn, prior.fn)
    if law is None:
        raise ValueError(
            f"the divergence of {type(fn).__name__} from {type(prior.fn).__name__} has no closed form: register one with "
            "numpyro.distributions.kl.kl_divergence, or sample it."
        )
    nats = law(fn, prior.fn)
    nats = jnp.broadcast_to(nats, tuple(posterior.batch_shape) + tuple(posterior.event_shape))
    return nats if mask is None else jnp.where(mask, nats, 0.0)


@kl_divergence.register(dist.LogNormal, dist.Gamma)
def _gamma(posterior: dist.LogNormal, prior: dist.Gamma) -> jax.Array:
    return log_normal.kl_gamma(posterior.loc, posterior.scale, prior.concentration, prior.rate)


@kl_divergence.register(dist.LogNormal, dist.InverseGamma)
def _inverse_gamma(posterior: dist.LogNormal, prior: dist.InverseGamma) -> jax.Array:
    return log_normal.kl_inverse_gamma(posterior.loc, posterior.scale, prior.concentration, prior.rate)


@kl_divergence.register(dist.LogNormal, dist.HalfCauchy)
def _half_cauchy(posterior: dist.LogNormal, prior: dist.HalfCauchy) -> jax.Array:
    return log_normal.kl_half_cauchy(posterior.loc, posterior.scale, prior.scale)


@kl_divergence.register(dist.LogNormal, dist.LogNormal)
def _normals(posterior: Distribution, prior: Distribution) -> jax.Array:
    """Of Normals, and of their exponentials: a divergence does not change with the coordinates."""
    return gaussian.kl_divergence(posterior.loc, posterior.scale, prior.loc, prior.scale)
