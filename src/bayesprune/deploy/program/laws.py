"""From a fit to the law of a network's weights: which are alive, what is known of them, and by what it is judged."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.checks import check_integer, check_key
from bayesprune.core.tracing import by_one_thread
from bayesprune.deploy.program.weights import Draws, GaussianLaw, Law, Points
from bayesprune.infer.predict import draw, networks
from bayesprune.model.bnn import BNN, STATE
from bayesprune.model.likelihoods import Normal
from bayesprune.model.net_params import mean_weights, why_no_mean
from bayesprune.model.prior import Independent, rows_of
from bayesprune.posteriors.samples import count, draws_of, spread_out

Arrays = dict[str, np.ndarray]
TASKS = ("classes", "binary", "numbers")  # of a likelihood, whose figures come from E[y | x, w] and one noise


def fixed(bnn: BNN, params: Mapping[str, Any]) -> Arrays:
    """The parameters that are not Bayesian, by site. Those of stored samples are part of each network, as its weights are."""
    if draws_of(params):
        if STATE in draws_of(params):
            raise ValueError(
                "the stored networks have running statistics of their own each, which one smaller program cannot hold: use a "
                "norm without them, such as norm='group', or compact a fit of fit_svi."
            )
        return {}
    return {str(s.path): np.asarray(params[str(s.path)]) for s in bnn.layout if not s.bayesian}


def means(bnn: BNN, params: dict[str, Any], mask: Mapping[str, Any]) -> Arrays:
    """E[w] of every weight array that is not fixed, zero where dead."""
    if draws_of(params):
        chains, _ = count(params)
        if chains > 1:
            raise ValueError(
                f"keep='mean' averages weights, and the hidden units of {chains} chains are in orders of their own: the mean "
                "is no network of the posterior. Leave keep out for all networks that are stored, or give num_draws=1 for one."
            )
        return posterior(bnn, params, mask, None, None).mean()
    found = mean_weights(bnn, params, mask)
    return {str(s.path): np.asarray(found[str(s.path)], np.float32) for s in bnn.layout if s.bayesian}


def posterior(
    bnn: BNN, params: dict[str, Any], mask: Mapping[str, Any], rng_key: jax.Array | None, num_draws: int | None
) -> Law:
    """The law of all Bayesian weights: independent Gaussians, or ``num_draws`` networks drawn with ``rng_key``.

    Stored samples are kept as they are. Raises ``ValueError`` for a posterior that is neither, where no draws are asked for.
    """
    stored = bool(draws_of(params))
    if num_draws is None and stored:
        num_draws = math.prod(count(params))
    if num_draws is None:
        if not factorised(bnn, params):
            or_mean = "" if why_no_mean(bnn, params) else ", or keep='mean' for the network at their mean"
            raise ValueError(
                f"the weights of {type(bnn.prior).__name__} with {type(bnn.family).__name__} are not independent Gaussians: "
                f"give rng_key= and num_draws= to keep so many drawn networks{or_mean}."
            )
        return gaussian(bnn, params, mask)
    check_integer(num_draws, "num_draws")
    source, number = networks(params, num_draws)
    masks = {site: jnp.asarray(alive) for site, alive in mask.items()}
    rng_key = jax.random.key(0) if stored else check_key(rng_key)  # nothing is drawn of what is stored
    rows = rows_of(bnn.prior, 1)

    @by_one_thread
    def weights(index: ArrayLike) -> dict[str, Any]:
        (model,) = draw(bnn, rng_key, index, source, masks, lambda: bnn.prior.model(bnn.layout, **rows))
        return model() | ({site: source.values[site][index] for site in others} if stored else {})

    others = [str(s.path) for s in bnn.layout if not s.bayesian]
    drawn = jax.jit(lambda: jax.lax.map(weights, jnp.arange(number)))()
    return Draws({site: np.asarray(values) for site, values in drawn.items()})


def factorised(bnn: BNN, params: Mapping[str, Any]) -> bool:
    """Whether the weights are independent Gaussians, up to one random scale for each layer."""
    simple = not draws_of(params) and bnn.of(params).family.factorised
    return simple and all(_speaks_for(type(bnn.prior), name) for name in ("model", "guide"))


def _speaks_for(prior: type, name: str) -> bool:
    """Whether ``factor`` of a prior is of the class that has its method ``name``, or of one derived from that.

    `Independent`'s is that of the classes that are derived from it at once, and of none that change these.
    """
    classes = prior.__mro__
    factor, other = (next((i for i, cls in enumerate(classes) if it in vars(cls)), len(classes)) for it in ("factor", name))
    if other < factor < len(classes) and classes[factor] is Independent:
        return Independent in classes[other].__bases__
    return factor <= other < len(classes)


def gaussian(bnn: BNN, params: dict[str, Any], mask: Mapping[str, Any]) -> GaussianLaw:
    """Independent Gaussians, each array times its prior's factor."""
    family = bnn.of(params).family
    loc, scale, shared, log = {}, {}, {}, {}
    for spec in bnn.layout:
        site = str(spec.path)
        if not spec.bayesian:
            continue
        node = family.posterior(params, (spec,))[site]
        number, name, power = bnn.prior.factor(spec)
        keep = np.asarray(mask.get(site, True))
        loc[site] = np.where(keep, np.asarray(node.loc) * np.float32(number), 0).astype(np.float32)
        scale[site] = np.where(keep, np.broadcast_to(np.asarray(node.scale) * np.float32(number), loc[site].shape), 0)
        scale[site] = scale[site].astype(np.float32)
        if name:
            mean, std = family.log_moments(params, name)
            shared[site], log[name] = name, (float(power * mean), float(abs(power) * std))
    return GaussianLaw(loc, scale, shared, log)


def alive(law: Law) -> dict[str, np.ndarray]:
    """Which weights are other than zero in some network."""
    if isinstance(law, GaussianLaw):
        return {site: (law.loc[site] != 0) | (law.scale[site] != 0) for site in law.loc}
    return {site: (draws != 0).any(0) for site, draws in law.values.items()} if isinstance(law, Draws) else {}


def smaller(law: Law, places: Mapping[str, list[np.ndarray]], kept: Mapping[str, np.ndarray]) -> Law:
    """The law of the weights at ``places``, zero but where ``kept``; of those sites alone."""

    def part(array: np.ndarray, site: str) -> np.ndarray:
        lead = array.ndim - len(places[site])
        whole = [np.arange(size) for size in array.shape[:lead]]
        return np.where(kept[site], array[np.ix_(*whole, *places[site])], 0).astype(np.float32)

    if isinstance(law, GaussianLaw):
        loc, scale = ({site: part(arrays[site], site) for site in kept} for arrays in (law.loc, law.scale))
        shared = {site: law.shared[site] for site in kept if site in law.shared}
        return GaussianLaw(loc, scale, shared, {name: law.log[name] for name in dict.fromkeys(shared.values())})
    if isinstance(law, Draws):
        return Draws({site: part(law.values[site], site) for site in kept})
    return Points()


def task_of(bnn: BNN) -> str:
    """Which figures a compact network has: of classes, of binary targets, of numbers with one noise, or "other": none."""
    task = getattr(bnn.likelihood, "task", "other")
    return task if task in TASKS and not hasattr(bnn.likelihood, "metrics") else "other"


def noise_scale_of(bnn: BNN, params: dict[str, Any], law: Law) -> Any:
    """Of Gaussian noise: one number, or (1, 1, outputs); of stored networks (networks, 1, 1 or outputs), in the law's order."""
    if not isinstance(bnn.likelihood, Normal) or task_of(bnn) != "numbers":
        return None
    if not draws_of(params):
        found = np.asarray(bnn.likelihood.read_noise_scale(params))
        return found.reshape((1, 1, -1)) if found.ndim else float(found)
    number = law.num_draws if isinstance(law, Draws) else math.prod(count(params))
    scale = bnn.likelihood.read_noise_scale(spread_out(params, number))
    if isinstance(law, Draws) or np.ndim(scale) == 0:
        return scale
    median = np.median(scale, axis=0, keepdims=True)
    return median if median.size > 1 else float(median.item())
