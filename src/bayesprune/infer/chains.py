"""The chains of a sampler, one after another through one compiled program."""

from os import PathLike
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesprune.train.feed import Stream, WholeFeed
from bayesprune.train.processes import of_mesh
from bayesprune.train.result import FitResult
from bayesprune.train.run import run
from bayesprune.train.snapshots import Snapshots
from bayesprune.train.start import Given
from bayesprune.train.state import Recipe
from bayesprune.train.training import Periods
from bayesprune.train.watch import Watchers

Kept = list[tuple[dict[str, Any], dict[str, Any]]]  # parameters and mask of each network that a chain has kept


def sequential(
    recipe: Recipe,
    rng_key: jax.Array,
    data: WholeFeed | Stream,
    starts: list[Given],
    periods: Periods,
    watch: Watchers,
    checkpoint: str | PathLike[str] | None,
    num_chains: int,
    progress: bool | None,
    returns: bool,
) -> tuple[FitResult, list[Kept]]:
    """One chain after another, until one of them is ended: the last whole one as a fit with all losses, and what each has kept.

    Of a first chain that was ended, what it had kept by then; `KeyboardInterrupt` where that is nothing.
    """
    fits, chains, processes = list[FitResult](), list[Kept](), of_mesh(recipe.mesh)
    for chain, (folder, given) in enumerate(zip(_folders(checkpoint, num_chains), starts, strict=True)):
        snapshots, key = Snapshots(periods.stops, folder, processes), key_of(rng_key, chain, num_chains)
        fit = run(recipe, key, data, given, periods, watch._replace(keepers=(snapshots,)), folder, progress, returns)
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
