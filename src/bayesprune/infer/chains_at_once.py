"""The chains of a sampler, all at once in one compiled program, on one device or spread over several."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpyro.infer.svi import SVIState

from bayesprune.core.types import Dataset
from bayesprune.infer.chains import Kept, key_of
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.feed import Stream, WholeFeed
from bayesprune.train.fingerprint import fingerprint
from bayesprune.train.processes import check_same, of_mesh
from bayesprune.train.progress import progress as make_progress
from bayesprune.train.result import FitResult
from bayesprune.train.share import everywhere
from bayesprune.train.side_by_side import advance, at_home, check_even, over_devices, side_by_side
from bayesprune.train.sites import Example
from bayesprune.train.state import Recipe
from bayesprune.train.training import Periods

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


def at_once(
    recipe: Recipe,
    rng_key: jax.Array,
    feed: WholeFeed | Stream,
    num_chains: int,
    periods: Periods,
    progress: bool | None,
    devices: Mesh | None,
) -> tuple[FitResult, list[Kept]]:
    """All chains in one program: the last states as a fit, and what each chain has kept.

    ``devices``: over which the chains are spread; the recipe's mesh spreads the rows of each.
    """
    data, processes, losses = _arrays(feed), of_mesh(recipe.mesh), list[np.ndarray]()
    example = Example.of(data)
    if processes.count > 1:
        check_same(processes, fingerprint(recipe, example, rng_key, {"chains": num_chains}) | {"periods": periods})
    fits = side_by_side(recipe, example, shared=True, mesh=devices)
    data = data if devices is None else everywhere(data, devices)
    own = lambda tree: at_home(processes.own(tree), devices)  # noqa: E731
    keys = jnp.stack([key_of(rng_key, chain, num_chains) for chain in range(num_chains)])
    carry = fits.init(over_devices(keys, devices), data)
    kept, first = [], 0
    with make_progress(periods.num_steps, progress if not processes.index else False, initial=0) as bar:
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
