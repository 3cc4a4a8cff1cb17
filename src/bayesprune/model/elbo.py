"""The evidence lower bound, with the Kullback-Leibler divergence in closed form where guide and prior have one.

  ELBO = E_q[ log p(y | w) ] - KL( q(w) || p(w) ),  KL summed over the alive weights.

Closed forms: Gaussian against Gaussian, the two spike and slabs, (5.1) and (6.2), and log-normal scales against Gamma,
inverse Gamma and half-Cauchy, (3.2) and (3.3); Gaussian scales against 1/|z|,
(13.5); truncated normals against the uniform, (18.1).

A NumPyro `ELBO` object like any other: `numpyro.infer.SVI(model, guide, optim, MeanFieldELBO())` takes it.
"""

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.handlers import substitute, trace
from numpyro.infer import ELBO
from numpyro.primitives import Messenger

from bayesprune.core.checks import check_integer
from bayesprune.core.keys import chain
from bayesprune.core.tracing import as_written, by_one_thread
from bayesprune.core.types import PyTree
from bayesprune.model.handlers import seeded
from bayesprune.model.transforms import noise as noises
from bayesprune.model.transforms.entries import Entries, NoiseOfEntries
from bayesprune.model.transforms.noise import NoiseOfSlices
from bayesprune.model.transforms.parts import Kept
from bayesprune.posteriors.divergence import closed_form, divergence, read_elementwise
from bayesprune.posteriors.spike_slab import GatedNormal

Slices = tuple[tuple[str, tuple[int, ...], Kept], ...]  # site, its whole shape, the slices of it that are there
Single = tuple[tuple[str, Entries], ...]  # sites of which only these entries are there, all in slices that are there


class MeanFieldELBO(ELBO):
    """Sample the weights, take their divergence from the prior in closed form where it has one.

    Args:
        num_particles: draws of all latent variables averaged in one loss.
        noise: how standard normal numbers are drawn for Gaussian sites, a function (rng_key, shape) -> array.

    Sites without a closed form enter by their log densities at the draw.

    Raises:
        ValueError: ``num_particles`` is no whole number of at least 1: of no draws there is no mean.
    """

    def __init__(self, num_particles: int = 1, noise: noises.Noise = noises.quantile) -> None:
        check_integer(num_particles, "num_particles")
        super().__init__(num_particles=num_particles)
        self.noise = noise
        self.slices: Slices = ()
        self.single: Single = ()

    def noise_of(self, name: str) -> noises.Noise:
        """The noise of a site, of which only slices may be there, or entries."""
        if entries := dict(self.single).get(name):
            return NoiseOfEntries(self.noise, entries)
        return next((NoiseOfSlices(self.noise, sizes, kept) for site, sizes, kept in self.slices if site == name), self.noise)

    def of_slices(self, slices: Slices, single: Single = ()) -> "MeanFieldELBO":
        """The same bound of arrays of which only these slices are there, or entries, with their noise in whole arrays."""
        other = copy.copy(self)
        other.slices, other.single = slices, single
        return other

    def lift(self, rng_key: jax.Array, name: str, loc: jax.Array, scale: jax.Array) -> Any:
        """The value of the weight N(loc, scale²) in the model: here, one draw of it."""
        return loc + scale * self.noise_of(name)(rng_key, loc.shape).astype(loc.dtype)

    def run(self, fn: Callable[..., Any], values: dict[str, Any], *args: PyTree, **kwargs: PyTree) -> Any:
        """Call ``fn`` on the lifted values and the arguments of the program, its data: here, just so."""
        return fn(values, *args, **kwargs)

    @by_one_thread
    def loss_with_mutable_state(
        self,
        rng_key: jax.Array,
        param_map: dict[str, Any],
        model: Callable[..., Any],
        guide: Callable[..., Any],
        *args: PyTree,
        **kwargs: PyTree,
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
        model: Callable[..., Any],
        guide: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[jax.Array, dict[str, Any]]:
        guide_key, model_key, lift_key = jax.random.split(rng_key, 3)
        lifting = _Lift(self, lift_key, substitute(seeded(guide, guide_key), data=param_map))
        guide_trace = trace(lifting).get_trace(*args, **kwargs)
        values = {
            name: lifting.lifted.get(name, site["value"])
            for name, site in guide_trace.items()
            if site["type"] == "sample" and not site["is_observed"]
        }

        def model_terms(
            values: dict[str, Any], *args: PyTree, **kwargs: PyTree
        ) -> tuple[jax.Array, dict[str, Any], dict[str, Any]]:
            # Mutable values are dicts that a program updates in place: give it a copy.
            params = {k: dict(v) if isinstance(v, dict) else v for k, v in param_map.items()}
            model_trace = trace(substitute(seeded(model, model_key), data=params | values)).get_trace(*args, **kwargs)
            _check_sites(model_trace, guide_trace)
            closed: dict[str, Any] = {}
            log_density = jnp.zeros(())
            for name, site in model_trace.items():
                if site["type"] != "sample":
                    continue
                alike = name in lifting.kinds and _same(site["scale"], guide_trace[name]["scale"])
                prior = read_elementwise(site["fn"]) if alike else None
                if prior is not None and closed_form(lifting.kinds[name], prior.fn) is not None:
                    closed[name] = prior
                elif name in lifting.lifted and not isinstance(lifting.lifted[name], jax.Array):
                    # An independent draw: the prior's term adds to the others, and the net keeps what stands for the weight.
                    log_density += _log_density(site | {"value": guide_trace[name]["value"]})
                else:
                    log_density += _log_density(site)
            mutable = {name: site["value"] for name, site in model_trace.items() if site["type"] == "mutable"}
            return log_density, closed, mutable

        log_joint, closed, mutable = self.run(model_terms, values, *args, **kwargs)
        loss = -log_joint
        for name, site in guide_trace.items():
            if site["type"] != "sample":
                continue
            # An observed site of a guide is a `numpyro.factor`: of its own density, as of a guide with auxiliary variables.
            loss += _summed(divergence(site["fn"], closed[name]), site) if name in closed else _log_density(site)
        return loss, mutable


class _Lift(Messenger):
    """In the guide: each Gaussian site's value, or gated Gaussian's, becomes the estimator's; what the model is to see is kept.

    ``kinds``: the distributions of the sites, below expansions and masks; ``lifted``: what stands for a Gaussian in the model.
    """

    def __init__(self, elbo: MeanFieldELBO, rng_key: jax.Array, fn: Callable[..., Any]) -> None:
        self.elbo, self.keys = elbo, chain(rng_key, 3)
        self.kinds: dict[str, Any] = {}
        self.lifted: dict[str, Any] = {}
        super().__init__(fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["is_observed"] or msg["value"] is not None:
            return
        found = read_elementwise(msg["fn"])
        if found is None:
            return
        name, shape = msg["name"], tuple(msg["fn"].batch_shape) + tuple(msg["fn"].event_shape)
        self.kinds[name] = found.fn
        if type(found.fn) not in (dist.Normal, GatedNormal):
            return
        key, gate_key = next(self.keys)
        if getattr(found.fn, "gate", None) == "inverse_cdf":  # one number makes the whole draw: there is no gate to take off
            self.lifted[name] = msg["value"] = msg["fn"].sample(key)
            return
        loc, scale = (jnp.broadcast_to(value, shape) for value in (found.fn.loc, found.fn.scale))
        # What multiplies a weight: the gate of a spike and slab, and the mask.
        gates = [found.fn.draw_gate(gate_key, shape)] if isinstance(found.fn, GatedNormal) else []
        for factor in gates if found.mask is None else [*gates, found.mask]:
            loc, scale = loc * factor.astype(loc.dtype), scale * factor.astype(scale.dtype)
        value = self.elbo.lift(key, name, loc, scale)
        self.lifted[name] = value
        # A guide that goes on to use the value gets a draw; one that does not pays nothing for it.
        msg["value"] = value if isinstance(value, jax.Array) else MeanFieldELBO.lift(self.elbo, key, name, loc, scale)


def _same(one: object, other: object) -> bool:
    """Whether two scales of log densities are known to be the same number: one divergence knows no other."""
    return one is other or bool(np.isscalar(one) and np.isscalar(other) and one == other)


def _log_density(site: dict[str, Any]) -> jax.Array:
    """Sum of a site's log density, under its scale."""
    known = [site["intermediates"]] if site["intermediates"] else []  # of how the value was drawn, where the law asks for it
    with as_written():  # NumPyro's densities mix bits and floats
        log_prob = site["fn"].log_prob(site["value"], *known)
    return _summed(log_prob, site)


def _summed(nats: jax.Array, site: dict[str, Any]) -> jax.Array:
    """Under the site's scale."""
    return jnp.sum(nats if site.get("scale") is None else nats * site["scale"])


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
