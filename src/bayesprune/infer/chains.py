"""The chains of a sampler: where they start, and how they run, one after another or all at once, on one device or several."""

import functools
import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpyro.handlers import seed, substitute, trace
from numpyro.infer.svi import SVIState

from bayesprune.core.checks import as_params
from bayesprune.core.streams import OfAStep, stream
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset, Mask, Pruned, PyTree
from bayesprune.infer.origins import check_origin, law_of
from bayesprune.infer.predict import check_sites
from bayesprune.model.bnn import BNN, STATE
from bayesprune.model.handlers import masked
from bayesprune.model.samples import params_at
from bayesprune.posteriors.samples import count, draws_of
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.continuation import Kept, Origin, keep, own_names
from bayesprune.train.feed import Stream, WholeFeed
from bayesprune.train.fingerprint import fingerprint
from bayesprune.train.processes import check_same, of_mesh
from bayesprune.train.progress import progress as make_progress
from bayesprune.train.result import FitResult
from bayesprune.train.run import Laid, run
from bayesprune.train.share import everywhere
from bayesprune.train.side_by_side import advance, at_home, check_even, over_devices, side_by_side
from bayesprune.train.sites import Example, Sites, sites_of
from bayesprune.train.snapshots import Snapshots
from bayesprune.train.start import Given


def chain_starts(
    laid: Laid, bnn: BNN, init: FitResult | Pruned | None, init_params: PyTree | None, num_chains: int
) -> list[Given]:
    """What each chain starts from. ``laid``: its run, of ``bnn`` with the guide that a sampler moves.

    Of a fit: its mean for one chain, for each of several a draw of its own. Of samples: the last of each chain, and of a single
    one its whole state. Raises `ValueError` and `TypeError` for another network's, and for what is no fit.
    """
    if init is None:
        params = None if init_params is None else as_params(init_params, "init_params")
        return [laid.given._replace(init_params=params)] * num_chains
    check_origin(init, init_params)
    moving, example = cast(BNN, laid.recipe.program), laid.feed.example
    sites, origin = sites_of(moving, example), Origin(init.params, init.mask, None, whole=False)
    drawn = bool(draws_of(init.params))
    points = not drawn and own_names(init.params) == own_names(_names(sites))
    owner = moving if points else bnn
    if not drawn:
        origin.check_names(_names(sites_of(owner, example)))
        origin.check_units(owner.describe(init.params))
    alive = check_sites(owner, init.params, dict(init.mask))
    if drawn:
        origins = _after_chains(moving, sites, init, num_chains)
    elif points:
        origins = [origin] * num_chains
    else:
        network = jax.jit(by_one_thread(functools.partial(_network, bnn, num_chains == 1)))
        keys = [stream(key_of(laid.rng_key, chain, num_chains), OfAStep.STARTING) for chain in range(num_chains)]
        own = {name: init.params[name] for name in own_names(init.params)}
        origins = [_at(moving, network(key, own, alive) | _others(init.params, sites), init.mask) for key in keys]
    return [laid.given._replace(init=start) for start in origins]


def begun(starts: list[Given]) -> int:
    """Steps that a chain has behind it, whose kernel goes on; 0 where the kernels of all chains begin."""
    origins = [start.init for start in starts if start.init is not None]
    return max((origin.kept.step for origin in origins if origin.whole and origin.kept is not None), default=0)


def _network(bnn: BNN, mean: bool, rng_key: jax.Array, params: dict[str, Any], mask: dict[str, Any]) -> dict[str, Any]:
    """A draw of every latent site of a fit, or their means; of a scale that moves others, at its mean."""

    def at_mean(site: Mapping[str, Any]) -> Any:
        return site["fn"].mean if mean and site["type"] == "sample" else None

    guide = substitute(substitute(seed(masked(bnn.guide, mask), rng_key), substitute_fn=at_mean), data=params)
    found = trace(guide).get_trace()
    values = {name: site["value"] for name, site in found.items() if site["type"] == "sample"}
    return {name: value * mask[name].astype(value.dtype) if name in mask else value for name, value in values.items()}


def _after_chains(moving: BNN, sites: Sites, init: FitResult | Pruned, num_chains: int) -> list[Origin]:
    """The last network of each chain; of a single one all that it left, where that is whole."""
    draws, (chains, _) = draws_of(init.params), count(init.params)
    if chains != num_chains:
        raise ValueError(
            f"init holds {chains} chain(s), each of which goes on from its own end, and num_chains={num_chains}: give "
            f"num_chains={chains}, or start from a fit of bp.fit_svi, of which every chain draws a network."
        )
    last = [jax.tree.map(lambda leaf, c=chain: np.asarray(leaf)[c, -1], draws) for chain in range(chains)]
    # A weight that is cut is exactly 0 in the samples since; the mask of the run has those alone that were 0 in all of them.
    masks = [{site: np.asarray(alive) & (np.asarray(one[site]) != 0) for site, alive in init.mask.items()} for one in last]
    origins = [_at(moving, one, alive) for one, alive in zip(last, masks, strict=True)]
    if chains > 1 or not isinstance(init, FitResult) or (kept := keep(init.state)) is None:
        return origins
    return [_whole(origins[0], sites, kept, init)]


def _whole(origin: Origin, sites: Sites, kept: Kept, init: FitResult) -> Origin:
    """The end of a single chain with the kernel's state, its parameters as they stood after the last step."""
    params = {name: kept.params.get(f"[{name!r}]") for name in sites.params}
    if any(value is None or np.shape(value) != np.shape(sites.params[name]) for name, value in params.items()):
        return origin
    stands = sites.constrain(params)
    if not getattr(init, "interrupted", False) and not _same(origin, stands):
        warnings.warn(
            "init's last network is not where its chain stands: it was changed since, or the chain ended some steps after it. "
            "The new chain starts at that network, with the kernel anew.",
            UserWarning,
            stacklevel=5,  # the caller of `fit_sgmcmc`
        )
        return origin
    # The state of a loaded fit holds arrays of the optimizer alone: what the network carries is in the last sample.
    carried = {name: value for name, value in origin.params.items() if name == STATE}
    mutable = getattr(init.state, "mutable_state", None) or carried
    return Origin(stands | mutable, origin.mask, kept, whole=True, law=law_of(init))


def _same(origin: Origin, stands: Mapping[str, Any]) -> bool:
    """Whether parameters are those of the origin, but for rounding and for what is dead."""
    pairs = ((name, jnp.isclose(origin.params[name], value, rtol=1e-4, atol=1e-5)) for name, value in stands.items())
    return all(bool(jnp.all(close | origin.dead(name))) for name, close in pairs if name in origin.params)


def _at(moving: BNN, values: dict[str, Any], mask: Mask) -> Origin:
    return Origin(params_at(moving, values), mask, None, whole=False)


def _names(sites: Sites) -> set[str]:
    """Of parameters; what is frozen is a part of the state."""
    return {*sites.params, *sites.mutable}


def _others(params: Mapping[str, Any], sites: Sites) -> dict[str, Any]:
    """What is no latent site: parameters without a prior, and what the network carries beside them."""
    return {name: jax.tree.map(jnp.asarray, value) for name, value in params.items() if name in {*_names(sites), STATE}}


KeptNetworks = list[tuple[dict[str, Any], dict[str, Any]]]  # parameters and mask of each network that a chain has kept


def sequential(laid: Laid, starts: list[Given]) -> tuple[FitResult, list[KeptNetworks]]:
    """One chain after another, until one of them is ended: the last whole one as a fit with all losses, and what each has kept.

    Of a first chain that was ended, what it had kept by then; `KeyboardInterrupt` where that is nothing.
    """
    periods, num_chains = laid.periods, len(starts)
    fits, chains, processes = list[FitResult](), list[KeptNetworks](), of_mesh(laid.recipe.mesh)
    for chain, (folder, given) in enumerate(zip(_folders(laid.checkpoint, num_chains), starts, strict=True)):
        snapshots, key = Snapshots(periods.stops, folder, processes), key_of(laid.rng_key, chain, num_chains)
        watch = laid.watch._replace(keepers=(snapshots,))
        fit = run(laid._replace(rng_key=key, given=given, watch=watch, checkpoint=folder))
        ended = {name: step for name, step in fit.history.items() if name in ("interrupted/step", "halted/step")}
        if len(fit.losses) == periods.num_steps or not chains:
            if fit.interrupted and len(fit.losses) < periods.stops[0]:
                raise KeyboardInterrupt(f"before the first network was kept, at step {periods.stops[0]}.")
            fits.append(fit)
            chains.append(snapshots.all(len(fit.losses)))
        if ended:
            break
    losses = fits[0].losses if num_chains == 1 else np.stack([fit.losses for fit in fits])
    return fits[-1]._replace(losses=losses, history=fits[-1].history | ended), chains


def _folders(checkpoint: str | PathLike[str] | None, num_chains: int) -> list[Path | None]:
    if checkpoint is None:
        return [None] * num_chains
    return [Path(checkpoint)] if num_chains == 1 else [Path(checkpoint) / f"chain_{chain}" for chain in range(num_chains)]


def key_of(rng_key: jax.Array, chain: int, num_chains: int) -> jax.Array:
    """The key of a chain: a single one has the key itself."""
    return rng_key if num_chains == 1 else jax.random.fold_in(rng_key, chain)


PARALLEL = "parallel"


def check_plain(chain_method: str, sparsifier: object, callbacks: object, *given: object) -> None:
    """Refuse what chains side by side have no place for."""
    if not isinstance(sparsifier, KeepAll) or callbacks or any(value is not None for value in given):
        raise ValueError(
            f"chain_method={chain_method!r} has no sparsifier, mask, init, init_params, eval_data, callbacks or checkpoint: "
            "leave them out, or take chain_method='sequential'."
        )


def devices_of_chains(mesh: Mesh | None, num_chains: int) -> Mesh:
    """The devices over which parallel chains are spread, all of this machine if ``mesh`` is None.

    Raises `ValueError` unless each has as many chains, in one process.
    """
    if jax.process_count() > 1:
        raise ValueError(
            "chain_method='parallel' spreads chains over the devices of one process: take 'vectorized' with a mesh of all "
            "devices, over which the rows are spread, or run the script in each process with a key of its own."
        )
    mesh = Mesh(np.asarray(jax.devices()), ("chains",)) if mesh is None else mesh
    check_even(mesh, num_chains, "parallel chains", f"num_chains={num_chains}", "chains")
    return mesh


def at_once(laid: Laid, num_chains: int, devices: Mesh | None) -> tuple[FitResult, list[KeptNetworks]]:
    """All chains in one program: the last states as a fit, and what each chain has kept.

    ``devices``: over which the chains are spread; the recipe's mesh spreads the rows of each.
    """
    recipe, periods, losses = laid.recipe, laid.periods, list[np.ndarray]()
    data, processes = _arrays(laid.feed), of_mesh(recipe.mesh)
    example = Example.of(data)
    if processes.count > 1:
        check_same(processes, fingerprint(recipe, example, laid.rng_key, {"chains": num_chains}) | {"periods": periods})
    fits = side_by_side(recipe, example, shared=True, mesh=devices)
    data = data if devices is None else everywhere(data, devices)
    own = lambda tree: at_home(processes.own(tree), devices)  # noqa: E731
    keys = jnp.stack([key_of(laid.rng_key, chain, num_chains) for chain in range(num_chains)])
    carry = fits.init(over_devices(keys, devices), data)
    kept, first = [], 0
    with make_progress(periods.num_steps, laid.progress if not processes.index else False, initial=0) as bar:
        for last in sorted({*periods.stops, periods.num_steps}):
            carry, part = advance(fits, carry, data, {}, first, last, "chain", bar)
            losses.append(part)
            first = last
            if last in periods.stops:
                kept.append(own(jax.tree.map(jnp.copy, fits.constrain(carry.params, carry.opt_state) | carry.mutable)))
    chains: list[KeptNetworks] = [
        [(jax.tree.map(lambda leaf, c=chain: leaf[c], params), {}) for params in kept] for chain in range(num_chains)
    ]
    carry = own(carry)
    of_chains = (carry.params, carry.opt_state, carry.mutable, carry.rng_key)
    if num_chains == 1:  # as a chain by itself leaves them, so that the next one goes on from there
        of_chains = jax.tree.map(lambda leaf: leaf[0], of_chains)
    params, opt_state, mutable, rng_key = of_chains
    state = SVIState((carry.step, (params, opt_state)), mutable or None, rng_key)
    all_losses = np.concatenate(losses, 1)
    return FitResult({}, state, all_losses if num_chains > 1 else all_losses[0], {}, {}), chains


def _arrays(feed: WholeFeed | Stream) -> Dataset:
    if isinstance(feed, Stream):
        raise ValueError(
            "chain_method='vectorized' and 'parallel' take arrays, for each chain has an order of rows of its own: give "
            "arrays, or take chain_method='sequential'."
        )
    return feed.shown
