"""Divergences in closed form, for sites whose elements are independent: looked up by the kinds of posterior and prior."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from bayesprune.formulas import gaussian, log_normal, log_uniform, truncated_log_normal
from bayesprune.model.correlated import CorrelatedNormal
from bayesprune.model.improper import DrawnNormal, LogUniform
from bayesprune.model.spike_slab import GatedNormal, TwoNormals, dirac_divergence, mixture_divergence
from bayesprune.model.truncated_normal import TruncatedNormal


class Elementwise(NamedTuple):
    """What lies below expansions, masks and ``to_event``: a distribution of each element, and the mask (None = all alive)."""

    fn: Any
    mask: jax.Array | None


def read_elementwise(fn: Any) -> Elementwise | None:
    """Look through expansions and masks; None where a mask counts a joint density, which is no mask of elements."""
    mask = None
    while isinstance(fn, dist.ExpandedDistribution | dist.MaskedDistribution | dist.Independent):
        if isinstance(fn, dist.MaskedDistribution):
            if fn.event_shape:
                return None
            mask = both(mask, jnp.asarray(fn._mask))
        fn = fn.base_dist
    return Elementwise(fn, mask)


class Gaussian(NamedTuple):
    """A Gaussian site read from its distribution: parameters, and the mask it is under (None = all alive)."""

    loc: jax.Array
    scale: jax.Array
    mask: jax.Array | None


def read_gaussian(fn: Any) -> Gaussian | None:
    """The elementwise Normal below expansions and masks; None if there is none."""
    found = read_elementwise(fn)
    if found is None or type(found.fn) is not dist.Normal:
        return None
    shape = tuple(fn.batch_shape) + tuple(fn.event_shape)
    return Gaussian(jnp.broadcast_to(found.fn.loc, shape), jnp.broadcast_to(found.fn.scale, shape), found.mask)


def both(mask: jax.Array | None, other: jax.Array | None) -> jax.Array | None:
    """Alive in both; None = all alive."""
    return mask if other is None else other if mask is None else mask & other


def closed_form(guide: Any, model: Any) -> Callable[[Any, Any], jax.Array] | None:
    """The function (posterior, prior) -> nats for two distributions' kinds; None if the divergence has to be sampled."""
    return _CLOSED.get((type(guide), type(model)))


def divergence(posterior: Any, prior: Elementwise) -> jax.Array:
    """The divergence of a guide site's distribution from its prior, nats by element, 0 for what is dead in either."""
    fn, mask = read_elementwise(posterior)  # type: ignore[misc]
    mask = both(mask, prior.mask)
    if mask is not None:
        # Dead elements may have scale zero: stand in a harmless value before the logarithm, so that gradients stay finite.
        fn = copy.copy(fn)
        fn.scale = jnp.where(mask, fn.scale, 1.0)
    nats = closed_form(fn, prior.fn)(fn, prior.fn)  # type: ignore[misc]
    nats = jnp.broadcast_to(nats, tuple(posterior.batch_shape) + tuple(posterior.event_shape))
    return nats if mask is None else jnp.where(mask, nats, 0.0)


def _normals(posterior: dist.Normal, prior: dist.Normal) -> jax.Array:
    return gaussian.kl_divergence(posterior.loc, posterior.scale, prior.loc, prior.scale)


def _correlated(posterior: CorrelatedNormal, prior: dist.Normal) -> jax.Array:
    # By weights: the entropy is that of each given those before it, and the rest of the divergence knows marginals alone.
    nats = gaussian.kl_divergence(posterior.loc, posterior.scale, prior.loc, prior.scale)
    return nats + jnp.log(posterior.scale) - jnp.log(posterior.conditional)


def _gamma(posterior: dist.LogNormal, prior: dist.Gamma) -> jax.Array:
    return log_normal.kl_gamma(posterior.loc, posterior.scale, prior.concentration, prior.rate)


def _inverse_gamma(posterior: dist.LogNormal, prior: dist.InverseGamma) -> jax.Array:
    return log_normal.kl_inverse_gamma(posterior.loc, posterior.scale, prior.concentration, prior.rate)


def _half_cauchy(posterior: dist.LogNormal, prior: dist.HalfCauchy) -> jax.Array:
    return log_normal.kl_half_cauchy(posterior.loc, posterior.scale, prior.scale)


def _log_uniform(posterior: DrawnNormal, prior: LogUniform) -> jax.Array:
    return log_uniform.kl_divergence(posterior.loc, posterior.scale)


def _uniform(posterior: TruncatedNormal, prior: dist.Uniform) -> jax.Array:
    nats = truncated_log_normal.kl_uniform(posterior.loc, posterior.scale, posterior.low, posterior.high)
    # Where the prior is wider than the posterior's support; a narrower one is refused by nobody, and its divergence infinite.
    wider = jnp.log((prior.high - prior.low) / (posterior.high - posterior.low))
    return jnp.where((posterior.low >= prior.low) & (posterior.high <= prior.high), nats + wider, jnp.inf)


_CLOSED: dict[tuple[type, type], Callable[[Any, Any], jax.Array]] = {
    (dist.Normal, dist.Normal): _normals,
    (CorrelatedNormal, dist.Normal): _correlated,
    (dist.LogNormal, dist.LogNormal): _normals,  # a divergence does not change with the coordinates
    (dist.LogNormal, dist.Gamma): _gamma,
    (dist.LogNormal, dist.InverseGamma): _inverse_gamma,
    (dist.LogNormal, dist.HalfCauchy): _half_cauchy,
    (DrawnNormal, LogUniform): _log_uniform,
    (TruncatedNormal, dist.Uniform): _uniform,
    (GatedNormal, GatedNormal): dirac_divergence,
    (dist.Normal, TwoNormals): mixture_divergence,
}
