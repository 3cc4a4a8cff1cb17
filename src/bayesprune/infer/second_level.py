"""Model reduction at a second level: scales of units for a fit that had none, learned from its evidence alone."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from numpyro.handlers import block, seed, substitute, trace
from numpyro.infer import SVI

from bayesprune.core.checks import check_integer, check_key
from bayesprune.core.finite import broken
from bayesprune.core.given import RandomKey
from bayesprune.core.masks import gone
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import PyTree
from bayesprune.formulas import gaussian
from bayesprune.infer.predict import check_bnn, check_sites
from bayesprune.model.bnn import BNN
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.families import Family, MeanFieldFamily
from bayesprune.model.layout import Layout, ParamSpec
from bayesprune.model.prior import Moments, Prior
from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.prune.needs import nothing_to_prune
from bayesprune.prune.scores import check_evidence
from bayesprune.train.result import DivergedError

REFERENCE = "markovic2024bayesian"


class Reduction(NamedTuple):
    """``posterior``: site -> `Scaled`, the reduced posterior under the new prior, with the law of the units' scales.

    ``evidence_gained``: the mean of the last tenth of ``bounds``, a lower bound on what the new prior gains, in nats;
    ``bounds``: that bound at every step, from one draw each.
    """

    posterior: dict[str, Scaled]
    evidence_gained: float
    bounds: np.ndarray


@dataclass(frozen=True)
class _ScalesAlone(MeanFieldFamily):
    """The mean field without its weights: theirs is known."""

    def weight(self, spec: ParamSpec) -> None:
        return None


def reduce_scales(
    rng_key: RandomKey,
    bnn: BNN,
    params: PyTree,
    prior: Prior | Any,
    *,
    num_steps: int = 2000,
    optimizer: optax.GradientTransformation | None = None,
) -> Reduction:
    """Give the weights of a fit a hierarchical prior after the fact, by stochastic VI on its scales alone (2.7).

      maximise  E_q(gamma)[ sum_i dF(gamma_i) ] - KL( q(gamma) || p(gamma) )

    with dF of (2.4), the log evidence of N(0, gamma_i²) in the place of the fit's prior. Neither data nor network are asked
    again: a step costs a pass over the weights. Dead weights, at loc = scale = 0, say nothing of their scales and stay dead.

    Args:
        rng_key: a JAX random key.
        bnn: the network that was fitted, under a Gaussian prior (`priors.Flat`, `priors.Gaussian`).
        params: its NumPyro parameters.
        prior: a prior of scales, such as `priors.Horseshoe`; its scales multiply those of the fit's own prior.
        num_steps: steps of the optimiser.
        optimizer: an optax transformation; Adam at 0.02, decayed to 0, if not given.

    Returns:
        The reduced posterior of the weights that may be pruned: `methods.Shrinkage` and `methods.Cut` take it. Its prior's
        scale is the expected one, E gamma.

    Raises:
        TypeError: ``bnn`` is no `BNN`, ``prior`` gives its nodes no scales.
        ValueError: the fit's prior is no Gaussian; ``params`` are another network's.
        DivergedError: the rate is too large; its ``params`` are the fit's.

    Example:
        >>> import bayesprune as bp, jax
        >>> bnn = bp.BNN(bp.nets.MLP((4,), 2), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=(3,))
        >>> data = bp.Dataset(jax.numpy.ones((8, 3)), jax.numpy.ones((8, 2)))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=2)
        >>> reduction = bp.reduce_scales(jax.random.key(1), bnn, fit.params, bp.priors.Horseshoe(), num_steps=5)
        >>> sorted(reduction.posterior)
        ['Dense_0.bias', 'Dense_0.kernel']

    Source: Marković, Friston & Kiebel (2024), the authors' code, its fifth scheme.
    """
    check_bnn(bnn)
    check_integer(num_steps, "num_steps")
    check_sites(bnn, params, {})
    nodes = bnn.read(params)
    check_evidence(nodes)
    for site, node in nodes.items():
        if getattr(node, "law", None) is not None:
            raise ValueError(
                f"site {site!r} has scales already, those of {node.law.priors}, and a second level gives some to the "
                "weights of a Gaussian prior: fit with priors.Flat or priors.Gaussian."
            )
        if node.together:
            raise ValueError(
                f"site {site!r} has weights that vary together, and a second level asks for independent ones: fit with "
                "posterior='mean_field', or remove its weights by bp.bmr_prune."
            )
    layout = tuple(spec for spec in bnn.layout if spec.prunable)
    if not layout:
        raise nothing_to_prune("params have", bnn)
    family = _ScalesAlone(init_range=0.5)
    optimizer = optax.adam(optax.cosine_decay_schedule(0.02, num_steps)) if optimizer is None else optimizer

    @jax.jit
    def reduce(nodes: dict[str, MeanField], params: dict[str, jax.Array]) -> dict[str, Scaled]:
        moments = Moments(family, params)
        return {str(spec.path): _reduced(nodes[str(spec.path)], prior, spec, moments) for spec in layout}

    with jax.transfer_guard_host_to_device("allow"):  # NumPyro's loop begins with numbers of the host
        program = _program(prior, layout, cast(dict[str, MeanField], nodes), family)
        svi = SVI(*program, optimizer, MeanFieldELBO())
        # By itself NumPyro starts operation by operation, each of which is compiled alone.
        start = jax.jit(by_one_thread(svi.init))(check_key(rng_key))
        result = svi.run(rng_key, num_steps, progress_bar=False, init_state=start)
        reduced = reduce(nodes, result.params)
    bounds = -np.asarray(result.losses)
    gained = float(bounds[-max(1, num_steps // 10) :].mean())
    if not np.isfinite(gained) or broken(result.params):
        first = int(np.argmin(np.isfinite(bounds))) + 1 if not np.isfinite(bounds).all() else num_steps
        raise DivergedError(
            f"the scales' bound stopped being finite at step {first}: give reduce_scales an optimizer= of a smaller "
            "learning rate.",
            step=first,
            site="evidence",
            params=params,
        )
    return Reduction(reduced, gained, bounds)


@by_one_thread
def _program(prior: Prior, layout: Layout, nodes: dict[str, MeanField], family: Family) -> tuple[Any, Any]:
    """Model and guide of the scales; the model's density is the evidence that they gain."""
    ones = {str(spec.path): jnp.ones(spec.shape) for spec in layout}

    def model() -> None:
        # The prior's own model, its weights at 1: what it returns are the scales.
        scales = block(substitute(prior.model, data=ones), hide=list(ones))(layout)
        gains = [gaussian.log_evidence_gain_of_shrinkage(*_standard(nodes[site]), scales[site]) for site in ones]
        numpyro.factor("evidence", sum(jnp.sum(gain) for gain in gains))

    def guide() -> None:
        prior.guide(layout, family)

    def scales() -> dict[str, jax.Array]:
        sites = trace(seed(guide, 0)).get_trace()
        return {name: site["value"] for name, site in sites.items() if site["type"] == "sample"}

    if not jax.eval_shape(scales):
        raise _no_scales(prior)
    return model, guide


def _no_scales(prior: object, path: object = "") -> TypeError:
    if getattr(prior, "last", None) == "layer":
        name = type(prior).__name__
        return TypeError(
            f"prior gives the units of {path}, the last layer, no scales of their own, got {prior!r}: take "
            f"priors.{name}(last='unit'), or keep that layer out by prunable= of the BNN."
        )
    return TypeError(f"prior must give its weights scales, as priors.Horseshoe() does, got {prior!r}.")


def _standard(node: MeanField) -> tuple[Any, Any]:
    """loc and scale where the fit's prior is N(0, 1); one wider than that, of a fit that has not converged, is the prior.

    A dead weight's are those of the prior itself, whose gain is 0 at every scale: as a posterior that is sure of 0 it would
    gain -log gamma, without bound, and take the living weights of its unit along.
    """
    return node.loc / node.prior_scale, jnp.where(gone(node), 1.0, jnp.minimum(node.scale / node.prior_scale, 1.0))


def _reduced(node: MeanField, prior: Prior, spec: ParamSpec, moments: Moments) -> Scaled:
    """The node under the new prior at its expected scale; coordinates and unit are the fit's."""
    scaled = prior.node(replace(node, prior_scale=1.0), spec, moments)
    if scaled.law is None:
        raise _no_scales(prior, spec.path)
    wide = jnp.broadcast_to(node.prior_scale, jnp.shape(node.loc))
    narrow = wide * scaled.unit
    loc, scale = gaussian.reduced_posterior(node.loc, jnp.minimum(node.scale, wide), 0.0, wide, 0.0, narrow)
    return Scaled(loc, scale, jnp.broadcast_to(narrow, jnp.shape(loc)), node.unit, scaled.law)
