"""What a trained network is here: its weights in the network's units, and the parameters of all that is no weight."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.checks import check_mask
from bayesprune.core.finite import check_finite
from bayesprune.core.numbers import rows_in
from bayesprune.core.send import send
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import ArrayTree, Dataset, Node, Pruned, PyTree
from bayesprune.infer.curvature.over_rows import Trained, living
from bayesprune.infer.from_trained import neutral
from bayesprune.infer.origins import check_one_network, params_and_mask
from bayesprune.infer.refit_noise import LOC, counts, learns_noise, noise_of, present_in, squared_errors
from bayesprune.model.bnn import BNN, STATE
from bayesprune.model.families import MeanFieldFamily, found_family
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.model.likelihoods.protocol import latent_sites
from bayesprune.model.prior import check_fixed_units
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.params import is_meaning, named
from bayesprune.posteriors.samples import draws_of
from bayesprune.priors import Posterior
from bayesprune.train.result import FitResult

ROWS = 256  # whose outputs are taken at once
SETTLED = 1e-3  # deviation of the logarithms of a prior's scales: the evidence chooses the prior here, and they stay


class KnownWeights(NamedTuple):
    """``trained``: the network; ``params``: of what is no weight; ``nodes``: what the prior makes of one unit of each array;
    ``alive``: site -> booleans, of all Bayesian weights; ``mask``: that was given."""

    trained: Trained
    params: dict[str, Any]
    nodes: dict[str, Node]
    alive: dict[str, np.ndarray]
    mask: dict[str, Any]


def known(bnn: BNN, given: FitResult | Pruned | PyTree, data: Dataset, who: str = "laplace") -> KnownWeights:
    """Read a fit, its parameters, or trained weights. ``who``: the caller's name, for the `ValueError` if they are of another
    network."""
    given, mask = params_and_mask(given)
    sites = sorted(str(spec.path) for spec in bnn.layout if spec.bayesian)  # in the order that JAX gives a dict's leaves
    shapes = {str(spec.path): spec.shape for spec in bnn.layout if spec.bayesian}
    plain = bnn.under(MeanFieldFamily())
    start = {name: value for name, value in neutral(plain).items() if not _is_weight(name, sites)}
    if _are_params(given, sites):
        check_one_network(given)
        check_finite(given)
        nodes = _read(bnn, given, sites)
        check_fixed_units(bnn.prior, bnn.layout, nodes, given)
        weights = {site: send(nodes[site].loc) * send(nodes[site].unit, jnp.result_type(float)) for site in sites}
        mask = mask or _without_spread(nodes)
        others = {name: v for name, v in given.items() if not _is_weight(name, sites) and not is_meaning(name)}
    else:
        values, others = bnn.take(given)
        weights = {site: values[site] for site in sites}
        others |= {name: value for name, value in values.items() if name not in shapes}
    latents = latent_sites(bnn.likelihood, bnn.output_shape)
    _check_latents(bnn, latents, others)
    params = {name: others.get(name, value) for name, value in start.items()}
    params |= {str(s.path): others[str(s.path)] for s in bnn.layout if not s.bayesian}
    params |= {STATE: others[STATE]} if STATE in others else {}
    spreads = [f"{name}_log_scale" for name in latents]
    settled = [name for name in spreads_in(bnn, params) if name not in spreads]
    params |= {name: send(np.full_like(params[name], SETTLED)) for name in settled}
    points = {str(s.path): send(params[str(s.path)]) for s in bnn.layout if not s.bayesian}
    alive = {site: np.broadcast_to(a, shapes[site]) for site, a in check_mask(mask, shapes).items()}
    whole = {site: alive.get(site, np.ones(shapes[site], bool)) for site in sites}
    sent = {site: send(a) for site, a in whole.items()}
    trained = Trained(weights, points, params.get(STATE, {}), sent)
    # Compiled, and NumPy where it can be: under a guard on transfers no number of Python's may go to the device by itself.
    trained = trained._replace(weights=jax.jit(living)(trained, weights))
    params |= _noise(bnn, trained, params, data)
    return KnownWeights(trained, params, _meanings(plain, params, trained.weights, who), whole, dict(mask))


def _without_spread(nodes: Mapping[str, Node]) -> dict[str, np.ndarray]:
    """A mask of the weights at loc = scale = 0, which were pruned; none of points: arrays without spread, where one of such is
    not 0, or nothing has any."""
    parts = {site: (np.asarray(node.scale) != 0, np.asarray(node.loc) != 0) for site, node in nodes.items()}
    points = any((loc & ~scale).any() for scale, loc in parts.values()) or not any(scale.any() for scale, _ in parts.values())
    masks = {site: scale | loc for site, (scale, loc) in parts.items() if scale.any() or not points}
    return {site: alive for site, alive in masks.items() if not alive.all()}


def spreads_in(bnn: BNN, params: Mapping[str, Any]) -> list[str]:
    """The deviations of positive numbers' logarithms; a parameter of the network may have such a name, and is none."""
    own = {str(spec.path) for spec in bnn.layout}
    return [name for name in params if name.endswith("_log_scale") and name not in own]


def latents_of(bnn: BNN, params: Mapping[str, Any]) -> dict[str, Any]:
    """The likelihood's own numbers, as their posteriors' medians."""
    return {name: jnp.exp(send(params[f"{name}_log_loc"])) for name in latent_sites(bnn.likelihood, bnn.output_shape)}


def _are_params(given: object, sites: list[str]) -> bool:
    """Whether these are NumPyro parameters of a fit, not a module's own."""
    if not isinstance(given, Mapping):
        return False
    return bool(draws_of(given)) or any(_is_weight(name, sites) for name in given)


def _is_weight(name: str, sites: list[str]) -> bool:
    """Whether a parameter is one of a Bayesian array's posterior."""
    return any(name.startswith((f"{site}_auto_", f"{site}_map_", f"{site}_dense_")) for site in sites)


def _read(bnn: BNN, params: dict[str, Any], sites: list[str]) -> dict[str, Node]:
    try:
        return bnn.posterior(params)
    except KeyError:
        for site in sites:
            named(params, site)  # says which one has no values
        try:
            return bnn.under(found_family(params, sites)).posterior(params)
        except KeyError as error:
            raise ValueError(
                f"params have no {error.args[0]!r}, which {type(bnn.prior).__name__} asks for: they are of another prior, or "
                "of other weights that may be pruned. Build the BNN as theirs was, or give net_params of theirs."
            ) from None


def _meanings(plain: BNN, params: dict[str, Any], weights: Mapping[str, jax.Array], who: str) -> dict[str, Node]:
    """Nodes at zero with the units and priors that the network's prior gives them."""
    if isinstance(plain.prior, Posterior):
        raise ValueError(
            f"{who} needs a prior that is a Gaussian about zero, and priors.Posterior is about another fit's means, which "
            f"would be left out: fit it by bp.fit_svi, or give {who} the data of both at once."
        )
    family, specs = plain.family, {str(spec.path): spec for spec in plain.layout}
    zeros = {s: MeanField(send(np.zeros_like(w)), send(np.ones_like(w)), prior_scale=None) for s, w in weights.items()}
    nodes = plain.posterior(params | {n: v for s, node in zeros.items() for n, v in family.write(node, specs[s]).items()})
    for site, node in nodes.items():
        unit = np.asarray(node.unit)
        known_scale = unit.size == 1 and np.all(np.isfinite(unit) & (unit > 0))
        if type(node) is not MeanField or node.prior_scale is None or not known_scale:
            raise ValueError(
                f"{who} needs a prior that is a Gaussian about zero, of one scale for each array, and "
                f"{type(plain.prior).__name__} gives {site!r} none: build the BNN with priors.Gaussian() or Flat()"
                + ("; the evidence chooses its scale." if who == "laplace" else ".")
            )
    return nodes


def _check_latents(bnn: BNN, latents: list[str], others: Mapping[str, Any]) -> None:
    if missing := [name for name in latents if f"{name}_log_loc" not in others and not learns_noise(bnn, {LOC: 0})]:
        raise ValueError(
            f"{type(bnn.likelihood).__name__} has numbers of its own, {', '.join(missing)}, and a trained net says nothing of "
            "them: give a fit of this BNN with posterior='map', or fix them in the likelihood."
        )


def _noise(bnn: BNN, trained: Trained, params: dict[str, Any], data: Dataset) -> dict[str, Any]:
    """The learned noise of Gaussian targets, from the errors at the weights; see `refit_noise`."""
    if not learns_noise(bnn, params):
        return {}

    @jax.jit
    @by_one_thread
    def outputs(x: ArrayTree) -> jax.Array:
        mean: jax.Array = bnn.likelihood.mean(bnn.outputs(trained.points | trained.weights, trained.state, x))
        return mean

    parts = [
        np.asarray(outputs(jax.tree.map(lambda leaf, at=first: leaf[at : at + ROWS], data.x)))
        for first in range(0, rows_in(data.x), ROWS)
    ]
    observed = present_in(bnn, data.y)
    squared = squared_errors(np.concatenate(parts)[None], data.y, params, observed)
    return noise_of(of_observed(bnn.likelihood), params, squared, counts(observed, params))
