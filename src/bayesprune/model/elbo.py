"""The evidence lower bound, with the Kullback-Leibler divergence in closed form wherever guide and prior are Gaussian.

  ELBO = E_q[ log p(y | w) ] - KL( q(w) || p(w) ),  KL( N(loc, scale²) || N(m0, s0²) ) summed over the alive weights.

A NumPyro `ELBO` object like any other: `numpyro.infer.SVI(model, guide, optim, MeanFieldELBO())` takes it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import ELBO
from numpyro.primitives import Messenger

from bayesprune.formulas.gaussian import kl_divergence
from bayesprune.model import noise as noises


class Gaussian(NamedTuple):
    """A Gaussian site read from its distribution: parameters, and the mask it is under (None = all alive)."""

    loc: jax.Array
    scale: jax.Array
    mask: jax.Array | None


def read_gaussian(fn: Any) -> Gaussian | None:
    """Look through expansions and masks for an elementwise Normal; None if there is none below."""
    shape, mask = tuple(fn.batch_shape) + tuple(fn.event_shape), None
    while isinstance(fn, dist.ExpandedDistribution | dist.MaskedDistribution | dist.Independent):
        if isinstance(fn, dist.MaskedDistribution):
            if fn.event_shape:
                return None
            mask = _both(mask, jnp.asarray(fn._mask))
        fn = fn.base_dist
    if type(fn) is not dist.Normal:
        return None
    return Gaussian(jnp.broadcast_to(fn.loc, shape), jnp.broadcast_to(fn.scale, shape), mask)


def _both(mask: jax.Array | None, other: jax.Array | None) -> jax.Array | None:
    """Alive in both; None = all alive."""
    return mask if other is None else other if mask is None else mask & other


class MeanFieldELBO(ELBO):
    """Sample the weights, take their divergence from the prior in closed form where it has one.

    Args:
        num_particles: draws of all latent variables averaged in one loss.
        noise: how standard normal numbers are drawn for Gaussian sites, a function (rng_key, shape) -> array.

    Non-Gaussian sites (the LogNormal layer scales of `priors.Flat`, say) enter by their log densities at the draw.
    """

    def __init__(self, num_particles: int = 1, noise: noises.Noise = noises.quantile) -> None:
        super().__init__(num_particles=num_particles)
        self.noise = noise

    def lift(self, rng_key: jax.Array, name: str, loc: jax.Array, scale: jax.Array) -> Any:
        """What stands for the weight N(loc, scale²) in the model: here, one draw of it."""
        return loc + scale * self.noise(rng_key, loc.shape).astype(loc.dtype)

    def run(self, fn: Callable[[dict[str, Any]], Any], values: dict[str, Any]) -> Any:
        """Call ``fn`` on the lifted values: here, just so."""
        return fn(values)

    def loss_with_mutable_state(
        self, rng_key: jax.Array, param_map: dict[str, Any], model: Any, guide: Any, *args: Any, **kwargs: Any
    ) -> Any:
        def particle(key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
            return self._particle(key, param_map, model, guide, args, kwargs)

        if self.num_particles == 1:
            loss, mutable = particle(rng_key)
            return {"loss": loss, "mutable_state": mutable or None}
        losses, mutable = jax.vmap(particle)(jax.random.split(rng_key, self.num_particles))
        # Batch statistics are averaged over the draws: each draw saw the same rows through another network.
        mutable = jax.tree.map(lambda leaf: leaf.mean(0).astype(leaf.dtype), mutable)
        return {"loss": losses.mean(), "mutable_state": mutable or None}

    def _particle(
        self,
        rng_key: jax.Array,
        param_map: dict[str, Any],
        model: Any,
        guide: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[jax.Array, dict[str, Any]]:
        guide_key, model_key, lift_key = jax.random.split(rng_key, 3)
        lifting = _Lift(self, lift_key, substitute(seed(guide, guide_key), data=param_map))
        guide_trace = trace(lifting).get_trace(*args, **kwargs)
        values = {
            name: lifting.lifted.get(name, site["value"])
            for name, site in guide_trace.items()
            if site["type"] == "sample" and not site["is_observed"]
        }

        def model_terms(values: dict[str, Any]) -> tuple[jax.Array, dict[str, Any], dict[str, Any]]:
            # Mutable values are dicts that a program updates in place: give it a copy.
            params = {k: dict(v) if isinstance(v, dict) else v for k, v in param_map.items()}
            model_trace = trace(substitute(seed(model, model_key), data=params | values)).get_trace(*args, **kwargs)
            _check_sites(model_trace, guide_trace)
            closed: dict[str, Any] = {}
            log_density = jnp.zeros(())
            for name, site in model_trace.items():
                if site["type"] != "sample":
                    continue
                prior = read_gaussian(site["fn"]) if name in lifting.lifted else None
                if prior is not None:
                    closed[name] = prior
                else:
                    log_density += _log_density(site)
            mutable = {name: site["value"] for name, site in model_trace.items() if site["type"] == "mutable"}
            return log_density, closed, mutable

        log_joint, closed, mutable = self.run(model_terms, values)
        loss = -log_joint
        for name, site in guide_trace.items():
            if site["type"] != "sample" or site["is_observed"]:
                continue
            loss += _divergence(site, closed[name]) if name in closed else _log_density(site)
        return loss, mutable


class _Lift(Messenger):
    """In the guide: each Gaussian site's value becomes the estimator's, and what the model is to see is kept."""

    def __init__(self, elbo: MeanFieldELBO, rng_key: jax.Array, fn: Any) -> None:
        self.elbo, self.rng_key = elbo, rng_key
        self.lifted: dict[str, Any] = {}
        super().__init__(fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["is_observed"] or msg["value"] is not None:
            return
        found = read_gaussian(msg["fn"])
        if found is None:
            return
        loc, scale, mask = found
        if mask is not None:
            loc, scale = loc * mask.astype(loc.dtype), scale * mask.astype(scale.dtype)
        self.rng_key, key = jax.random.split(self.rng_key)
        value = self.elbo.lift(key, msg["name"], loc, scale)
        self.lifted[msg["name"]] = value
        # A guide that goes on to use the value gets a draw; one that does not pays nothing for it.
        msg["value"] = value if isinstance(value, jax.Array) else MeanFieldELBO.lift(self.elbo, key, msg["name"], loc, scale)


def _log_density(site: dict[str, Any]) -> jax.Array:
    """Sum of a site's log density, under its scale."""
    log_prob = site["fn"].log_prob(site["value"])
    scale = site.get("scale")
    return jnp.sum(log_prob if scale is None else log_prob * scale)


def _divergence(site: dict[str, Any], prior: Gaussian) -> jax.Array:
    """Closed-form divergence of a guide's Gaussian site from its prior, over what is alive in both, under the site's scale."""
    loc, scale, mask = read_gaussian(site["fn"])  # type: ignore[misc]
    mask = _both(mask, prior.mask)
    if mask is not None:
        # Dead elements may have scale zero: stand in a harmless value before the logarithm, so that gradients stay finite.
        scale = jnp.where(mask, scale, 1.0)
    kl = kl_divergence(loc, scale, prior.loc, prior.scale)
    if mask is not None:
        kl = jnp.where(mask, kl, 0.0)
    return jnp.sum(kl if site.get("scale") is None else kl * site["scale"])


def _check_sites(model_trace: dict[str, Any], guide_trace: dict[str, Any]) -> None:
    """Model and guide must sample the same latent sites."""
    latent = lambda tr: {n for n, s in tr.items() if s["type"] == "sample" and not s["is_observed"]}  # noqa: E731
    in_model, in_guide = latent(model_trace), latent(guide_trace)
    auxiliary = {n for n in in_guide - in_model if guide_trace[n]["infer"].get("is_auxiliary")}
    if in_model != in_guide - auxiliary:
        raise ValueError(
            f"model and guide differ in their latent sites: only in the model {sorted(in_model - in_guide)}, only in the guide "
            f"{sorted(in_guide - in_model)}. Give each latent site of the model one numpyro.sample of the same name in "
            "the guide."
        )
