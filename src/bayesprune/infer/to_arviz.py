"""A fit as ArviZ reads it: its alive weights, what they predict, and how probable they make every row."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.fields import check_fields
from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.masks import gone
from bayesprune.core.numbers import arrays_in, real_numbers
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset, Mask, PyTree
from bayesprune.infer.data import check_same_length, takes_nan
from bayesprune.infer.observed import draws_of_targets, log_density
from bayesprune.infer.predict import check_inputs, draw_sites, networks
from bayesprune.model.bnn import BNN
from bayesprune.posteriors.samples import count, draws_of
from bayesprune.report.arviz import inference_data


def to_arviz(
    rng_key: RandomKey,
    bnn: BNN,
    params: dict[str, Any],
    data: GivenRows,
    *,
    mask: dict[str, Any] | None = None,
    num_samples: int = 1000,
) -> Any:
    """ArviZ's `InferenceData` (a `DataTree` since ArviZ 1) of a fit: for ``az.loo``, ``az.compare``, ``az.plot_ppc``.

    Its groups: "posterior", the sites of ``bnn.model`` in the prior's coordinates; of a site with dead weights the alive ones
    alone, along a dimension whose labels are their places, such as "3,17". "log_likelihood" and "posterior_predictive", both
    "obs" of every row: log p(y | x, w) in nats, and a target drawn. "observed_data": y. Draw by draw they are of one network.

    Draws of `fit_svi` are one chain of independent networks, and are of the approximation: what ``az.loo`` makes of them
    leaves rows out of that, not of the exact posterior. Held-out rows (`evaluate`) need no such assumption.

    Args:
        rng_key, bnn, params, mask: see `predict`.
        data: rows with targets; for ``az.loo`` those that were fitted.
        num_samples: networks drawn; of stored samples (`fit_sgmcmc`) all are taken, chain by chain. Memory: as many times the
            alive weights and the rows.

    Raises:
        ImportError: ArviZ is not installed.
        TypeError: ``bnn`` is no `BNN`; its likelihood has no density of each row.
        ValueError: see `predict`; ``params`` are of points, all of whose draws are the same.

    Example:
        >>> import jax, numpy as np, bayesprune as bp
        >>> bnn = bp.BNN(bp.nets.MLP((), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(), input_shape=(2,))
        >>> data = bp.Dataset(np.eye(2, dtype=np.float32), np.ones(2, np.float32))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=2, progress=False)
        >>> found = bp.to_arviz(jax.random.key(1), bnn, fit.params, data, num_samples=5)
        >>> found.log_likelihood["obs"].shape
        (1, 5, 2)

    Source: Vehtari, Gelman & Gabry 2017, Practical Bayesian model evaluation using leave-one-out cross-validation.
    """
    check_fields(data, "data")
    data = Dataset(arrays_in(data.x), arrays_in(data.y))
    check_same_length(data.x, data.y, "data")
    chains, draws = count(params) if isinstance(params, dict) and draws_of(params) else (1, num_samples)
    rng_key, _, mask = check_inputs(rng_key, bnn, params, data.x, mask, draws)
    y, number = np.asarray(real_numbers(data.y, "data.y", takes_nan(bnn))), chains * draws
    bnn.likelihood.check(y, bnn.output_shape)
    nats = log_density(rng_key, bnn, params, data, mask, number, each=True)
    if nats is None:
        raise TypeError(f"{type(bnn.likelihood).__name__} samples no 'obs' row by row: there is no likelihood of each row.")
    if number > 1 and not np.ptp(nats, axis=0).any():
        raise ValueError("params are of points, all of whose draws are one network: fit with posterior='mean_field'.")
    predicted = draws_of_targets(rng_key, bnn, params, data.x, mask, number)["y"]
    left = {site: np.asarray(mask.get(site, True)) & ~np.asarray(gone(node)) for site, node in bnn.posterior(params).items()}
    sites, coords, dims = _alive(_sites(rng_key, bnn, params, mask, number), left)
    of_draws = {"posterior": sites, "log_likelihood": {"obs": nats}, "posterior_predictive": {"obs": predicted}}
    by_chain = jax.tree.map(lambda value: value.reshape(chains, draws, *value.shape[1:]), of_draws)
    return inference_data(by_chain | {"observed_data": {"obs": y}}, coords=coords, dims=dims)


def _sites(rng_key: jax.Array, bnn: BNN, params: PyTree, mask: dict[str, Any], number: int) -> dict[str, np.ndarray]:
    """Site -> draws, (number, *shape)."""
    params, _ = networks(params, number)
    found = _all(bnn)(rng_key, params, mask, num_samples=number)
    return {site: np.asarray(value) for site, value in found.items() if not isinstance(value, dict)}


@functools.lru_cache(maxsize=32)
def _all(bnn: BNN) -> Callable[..., dict[str, Any]]:
    def draws(rng_key: jax.Array, params: PyTree, mask: Mask, num_samples: int) -> dict[str, Any]:
        return jax.lax.map(lambda index: draw_sites(bnn, rng_key, index, params, mask), jnp.arange(num_samples))

    return jax.jit(by_one_thread(draws), static_argnames="num_samples")


def _alive(
    sites: dict[str, np.ndarray], mask: dict[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, list[str]], dict[str, list[str]]]:
    """The draws of alive weights, and ArviZ's names of the places and axes of those that are some of their site."""
    found, coords, dims = dict(sites), {}, {}
    for site, kept in ((site, np.asarray(kept)) for site, kept in mask.items() if site in sites):
        if kept.all():
            continue
        axis = f"{site}_alive"
        found[site], dims[site] = sites[site][:, kept], [axis]
        coords[axis] = [",".join(map(str, place)) for place in np.argwhere(kept)]
        if not kept.any():
            del found[site], dims[site], coords[axis]
    return found, coords, dims
