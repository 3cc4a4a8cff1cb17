"""Improper priors: densities without a norm. They have a divergence up to a constant, no evidence, and no draws."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.kl import kl_divergence

from bayesprune.core.layout import Layout, ParamSpec
from bayesprune.core.types import Array
from bayesprune.formulas import log_uniform


class Improper(dist.Distribution):
    """A density that no number makes integrate to one: it cannot be drawn from."""

    support = constraints.real
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        raise ValueError(
            f"{type(self).__name__} is an improper prior and has no draws, so its network has no prior predictive: draw from "
            "the guide after a fit (bp.predict), or take a proper prior, such as priors.Horseshoe."
        )


class LogUniformDensity(Improper):
    """p(z) = C/|z|, z of either sign: uniform in log |z|. C is that of `formulas.log_uniform`."""

    def log_prob(self, value: Array, intermediates: object = None) -> jax.Array:
        return log_uniform.LOG_CONSTANT - jnp.log(jnp.abs(value))


class FittedLogUniform(LogUniformDensity):
    """The same density, whose divergence from a weight is the fit (13.5) and not exact."""


class FlatLine(Improper):
    """p(w) = 1: what is maximised under it is the likelihood alone."""

    def log_prob(self, value: Array, intermediates: object = None) -> jax.Array:
        return jnp.zeros(jnp.shape(value))


def noisy_weights(layout: Layout, noise: Callable[[ParamSpec], Any]) -> dict[str, Any]:
    """Every Bayesian array under `FlatLine`, times what ``noise`` samples for it; path -> w."""
    bayesian = (spec for spec in layout if spec.bayesian)
    return {str(s.path): numpyro.sample(str(s.path), FlatLine().expand(s.shape)) * noise(s) for s in bayesian}


class DrawnNormal(dist.Normal):
    """N(loc, scale²) of a scale that weights share: a kind of its own, so that no estimator takes it for a weight."""


@kl_divergence.register(dist.Normal, LogUniformDensity)
def _exact(posterior: dist.Normal, prior: LogUniformDensity) -> jax.Array:
    return log_uniform.exact_kl_divergence(posterior.loc, posterior.scale)


@kl_divergence.register(dist.Normal, FittedLogUniform)
@kl_divergence.register(DrawnNormal, LogUniformDensity)
def _fitted(posterior: dist.Normal, prior: LogUniformDensity) -> jax.Array:
    return log_uniform.kl_divergence(posterior.loc, posterior.scale)
