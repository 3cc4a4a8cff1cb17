"""The chains of a sampler: one after another, or all at once, on one device or spread over several; each compiles once."""

from os import PathLike
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpyro.infer.svi import SVIState

from bayesprune.core.types import Dataset
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.feed import Stream, WholeFeed
from bayesprune.train.fingerprint import fingerprint
from bayesprune.train.processes import check_same, of_mesh
from bayesprune.train.progress import progress as make_progress
from bayesprune.train.result import FitResult
from bayesprune.train.run import Laid, run
from bayesprune.train.share import everywhere
from bayesprune.train.side_by_side import advance, at_home, check_even, over_devices, side_by_side
from bayesprune.train.sites import Example
from bayesprune.train.snapshots import Snapshots
from bayesprune.train.start import Given

Kept = list[tuple[dict[str, Any], dict[str, Any]]]  # parameters and mask of each network that a chain has kept


def sequential(laid: Laid, starts: list[Given]) -> tuple[FitResult, list[Kept]]:
    """One chain after another, until one of them is ended: the last whole one as a fit with all losses, and what each has kept.

    Of a first chain that was ended, what it had kept by then; `KeyboardInterrupt` where that is nothing.
    """
    periods, num_chains = laid.periods, len(starts)
    fits, chains, processes = list[FitResult](), list[Kept](), of_mesh(laid.recipe.mesh)
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


def at_once(laid: Laid, num_chains: int, devices: Mesh | None) -> tuple[FitResult, list[Kept]]:
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
    chains: list[Kept] = [
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
