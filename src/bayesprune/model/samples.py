"""Sampling a network's posterior: the guide whose parameters a sampler moves, and how stored draws are read back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.handlers import seed, substitute, trace

from bayesprune.core.checks import check_integer
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Array
from bayesprune.model.families import MapFamily
from bayesprune.model.layout import LaidOut
from bayesprune.model.shapes import filled
from bayesprune.posteriors import points
from bayesprune.posteriors.family import Family
from bayesprune.posteriors.params import is_meaning
from bayesprune.posteriors.samples import AXES, DRAWS


@dataclass(frozen=True)
class CurrentSample(MapFamily):
    """A point for every latent variable, where a sampler is; the loss is -log p(y, w) in the coordinates that move.

    Positive variables move as their logarithms, whose density has |dc/d log c| = c beside that of c. A maximum (`MapFamily`)
    goes without: it is one of the density of c.
    """

    factorised = False

    def log_volume(self, log_loc: Array) -> Any:
        """-log c: the guide's term, so that log c is added to the log density."""
        return -log_loc


def current_sample(family: Family) -> CurrentSample:
    """The guide of a sampler that starts where fits of ``family`` do.

    >>> current_sample(MapFamily(init_loc="he")).init_loc
    'he'
    """
    fields = ("init_range", "init_loc", "unit", "sound", "sound_scales")
    return CurrentSample(**{name: getattr(family, name) for name in fields if hasattr(family, name)})


@by_one_thread
def values_of(guide: Callable[..., Any], params: dict[str, Any]) -> dict[str, Any]:
    """One network, by the names of its sites: latent values as a guide of points has them, and all that is no site of it.

    >>> guide = lambda x=None, y=None: CurrentSample().positive("c")
    >>> {name: float(value) for name, value in values_of(guide, {"c_log_loc": jnp.zeros(()), "bias": jnp.ones(())}).items()}
    {'c': 1.0, 'bias': 1.0}
    """
    found = trace(substitute(seed(guide, jax.random.key(0)), data=params)).get_trace()
    latent = {name: site["value"] for name, site in found.items() if site["type"] == "sample"}
    others = {name: value for name, value in params.items() if name not in found and not is_meaning(name)}
    return latent | others


@by_one_thread
def params_at(bnn: LaidOut, values: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `values_of`, for the guide of points of a network ``bnn``: parameters that are one network.

    Raises `ValueError` where a site is missing, or the guide is not where it should be.

    >>> import bayesprune as bp
    >>> bnn = bp.BNN(bp.nets.MLP((), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(), input_shape=(2,))
    >>> moving, at = bnn.under(CurrentSample()), {"Dense_0.kernel": jnp.ones((2, 1)), "Dense_0.bias": jnp.ones(1)}
    >>> {name: value.shape for name, value in params_at(moving, at | {"noise_precision": jnp.ones(())}).items()}
    {'Dense_0.kernel_dense_map_loc': (2, 1), 'Dense_0.bias_dense_map_loc': (1,), 'noise_precision_log_loc': ()}
    """
    hidden = {str(spec.path): not spec.prunable for spec in bnn.layout if spec.bayesian}
    sites = trace(seed(bnn.guide, jax.random.key(0))).get_trace()
    latent = [name for name, site in sites.items() if site["type"] == "sample"]
    if missing := [name for name in latent if name not in values]:
        raise ValueError(f"init has no {missing[0]!r}: it is a fit of another network, prior or likelihood.")
    params = {}
    for name in latent:
        value = jnp.asarray(values[name])
        if name in hidden:
            params[points.FAMILY.name(name, "loc", hidden[name])] = value
        else:
            params[f"{name}_log_loc"] = jnp.log(value)
    back = values_of(bnn.guide, params)
    if any(not jnp.allclose(back[name], values[name], rtol=1e-4) for name in latent):
        raise ValueError(f"priors.{type(bnn.prior).__name__} has a guide that cannot be put at given values: leave init out.")
    return {name: value for name, value in values.items() if name not in latent} | params


def stored_samples(bnn: LaidOut, samples: Mapping[str, Any], chains: int | None = None) -> dict[str, Any]:
    """Samples of ``bnn.model`` from elsewhere, such as NumPyro's `MCMC`, as parameters that `predict` and the others take.

    Args:
        bnn: the `BNN` whose ``model`` was sampled.
        samples: site -> draws, ``mcmc.get_samples()``, or ``mcmc.get_samples(group_by_chain=True)`` with chains first.
        chains: how many there are, where draws lie one after another; None: the draws are one chain, or grouped already.

    Raises:
        TypeError: samples that are no mapping, or complex.
        ValueError: a site is missing, unknown or of another shape, has no draws or other numbers of them than the rest, or one
            that is not finite; parameters or running statistics of the network that no prior covers are not among the samples;
            ``chains`` below 1.

    Example:
        >>> import bayesprune as bp
        >>> bnn = bp.BNN(bp.nets.MLP((), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(1.0),
        ...              input_shape=(2,))
        >>> draws = {"Dense_0.kernel": jnp.zeros((50, 2, 1)), "Dense_0.bias": jnp.zeros((50, 1))}
        >>> stored_samples(bnn, draws)["Dense_0.kernel$draws"].shape
        (1, 50, 2, 1)
    """
    if not isinstance(samples, Mapping):
        raise TypeError(f"samples must be a mapping of sites to draws, got {type(samples).__name__}: give mcmc.get_samples().")
    if chains is not None:
        check_integer(chains, "chains")
    found = sites_of(bnn)
    unknown = samples.keys() - found.keys()
    missing = found.keys() - samples.keys()
    if unknown or missing:
        raise ValueError(
            f"samples must have the sites of this network's model, and no others: missing {sorted(missing)}, unknown "
            f"{sorted(unknown)}. What has no prior (see bnn.layout) has to be among them too, with one value for each draw."
        )
    params = {}
    for name, of_site in found.items():
        grouped = lambda leaf, like, name=name: _grouped(name, leaf, like.shape, chains)  # noqa: E731
        params[name + DRAWS] = jax.tree.map(grouped, samples[name], of_site)
    _check_draws(params)
    return params | bnn.describe(params)


def _check_draws(params: dict[str, Any]) -> None:
    """Refuse sites of different numbers of draws, none at all, and draws that are complex or not finite."""
    leaves = [(name.removesuffix(DRAWS), leaf) for name, value in params.items() for leaf in jax.tree.leaves(value)]
    numbers = {leaf.shape[: len(AXES)]: name for name, leaf in leaves}
    if len(numbers) > 1:
        numbers_given = " and ".join(f"{shape} of {name!r}" for shape, name in numbers.items())
        raise ValueError(
            f"samples must have as many draws of every site, got (chains, draws) {numbers_given}: give whole runs."
        )
    for name, leaf in leaves:
        if 0 in leaf.shape[: len(AXES)]:
            raise ValueError(f"samples[{name!r}] has no draws, got (chains, draws) {leaf.shape[: len(AXES)]}: give some.")
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise TypeError(
                f"samples[{name!r}] must be real numbers, got {leaf.dtype}: give draws of this network's own model."
            )
        known = not isinstance(leaf, jax.core.Tracer) and jnp.issubdtype(leaf.dtype, jnp.floating)
        if known and not np.isfinite(leaf).all():
            raise ValueError(
                f"samples[{name!r}] must be finite, got NaN or infinity among its draws: sample again with smaller steps, or "
                "leave those draws out of every site."
            )


def sites_of(bnn: LaidOut) -> dict[str, Any]:
    """Shapes of every site of the model but what is observed: what samples of it have to hold."""
    row = bnn.inputs.zeros(1)

    @by_one_thread
    def values() -> dict[str, Any]:
        found = trace(seed(bnn.network, jax.random.key(0))).get_trace(row)
        with_noise = trace(seed(bnn.likelihood.observe, jax.random.key(0))).get_trace(filled(bnn.output_shape, 1, 0.0), None)
        sites = {name: site for name, site in (found | with_noise).items() if name != "obs"}
        return {name: site["value"] for name, site in sites.items() if site["type"] in ("sample", "param", "mutable")}

    return jax.eval_shape(values)  # type: ignore[no-any-return]


def _grouped(name: str, leaf: Array, shape: tuple[int, ...], chains: int | None) -> jax.Array:
    """Draws with chains first."""
    leaf = jnp.asarray(leaf)
    if leaf.shape[len(AXES) :] == shape and leaf.ndim == len(shape) + 2 and chains is None:
        return leaf
    if leaf.shape[1:] != shape or leaf.shape[0] % (chains or 1):
        raise ValueError(
            f"samples[{name!r}] has shape {leaf.shape}, and the site's is {shape}: give (draws, ...) with draws a multiple of "
            f"chains={chains or 1}, or (chains, draws, ...)."
        )
    return leaf.reshape((chains or 1, leaf.shape[0] // (chains or 1), *shape))  # no -1: of no draws it has no size
