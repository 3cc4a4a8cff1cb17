"""A fit from its recipe to its result: from its start, or from its last checkpoint."""

import dataclasses
import functools
import os
from typing import NamedTuple

import jax
import numpy as np

from bayesprune.core.compiling import make_room
from bayesprune.core.send import send
from bayesprune.prune.needs import needs_of
from bayesprune.prune.paths import Paths
from bayesprune.train.alike import state_law
from bayesprune.train.feed import Now, Stream, WholeFeed
from bayesprune.train.fingerprint import fingerprint, traces
from bayesprune.train.history import Record
from bayesprune.train.interruption import Interruption
from bayesprune.train.processes import check_same, of_mesh
from bayesprune.train.progress import progress as make_progress
from bayesprune.train.result import FitResult
from bayesprune.train.resume import open_checkpoints
from bayesprune.train.shrinking import shrinking_of
from bayesprune.train.sites import sites_of
from bayesprune.train.start import Given, start
from bayesprune.train.state import FitState, Recipe
from bayesprune.train.training import Periods, Training
from bayesprune.train.watch import Watchers


class Laid(NamedTuple):
    """The parts of one run, as `infer.laid_out` has checked them. ``returns``: whether Ctrl-C ends it with what there is."""

    recipe: Recipe
    rng_key: jax.Array
    feed: WholeFeed | Stream
    given: Given
    periods: Periods
    watch: Watchers
    checkpoint: str | os.PathLike[str] | None
    progress: bool | None
    returns: bool


def run(laid: Laid) -> FitResult:
    """Train as its recipe and periods have it."""
    recipe, rng_key, data, given, periods, watch, checkpoint, progress, returns = laid
    make_room()
    num_steps, example = periods.num_steps, data.example
    stops = {"stops": periods.stops} if periods.stops else {}
    # Bounds that bound nothing are none, so that a fit without others can be prolonged.
    acts = None if periods.acts == (0, num_steps) else periods.acts
    when = {"every": periods.every, "eval_every": periods.eval_every, "acts": acts}
    decisive = stops | when | given.decisive() | watch.decisive()
    of_data = {"data": data.described(), "data types": data.types}
    processes = of_mesh(recipe.mesh)
    words = functools.cache(lambda: fingerprint(recipe, example, rng_key, of_data | decisive))
    if processes.count > 1:
        check_same(processes, words() | {"periods": periods, "checkpoint": str(checkpoint)})
    paths = Paths.of(recipe.program, recipe.sparsifier)
    shrinking = shrinking_of(given.storage, recipe, example, num_steps)
    checkpoints = open_checkpoints(checkpoint, num_steps, words, processes)
    loop, carry, sparse, known = start(recipe, rng_key, data, given)
    stored = dataclasses.replace(recipe, storage=loop.storage)
    checkpoints = checkpoints.of_traces(
        lambda: traces(stored, example, (rng_key, data.first), (carry, data.alike, sparse.mask, send(0, np.int32)))
    )
    ahead, keep = needs_of(recipe.sparsifier).gradient.num_draws, checkpoint is not None
    with checkpoints.alone():
        state, record = checkpoints.resume(FitState(carry, sparse, planned=num_steps), Record.empty(num_steps))
        now = Now(int(state.carry.step), int(state.carry.begun), state.reading)
        with (
            data.open(rng_key, now, num_steps, ahead, keep) as feed,
            make_progress(num_steps, progress if not processes.index else False, initial=now.step) as bar,
        ):
            interruption = Interruption(checkpoint, returns)
            law = state_law(recipe.kernel, sites_of(recipe.program, example).params)
            watch = watch._replace(processes=processes)
            paths.check_start(processes.own(loop.whole_mask(sparse.mask)), is_given=given.mask is not None)
            training = Training(
                recipe.program, loop, feed, periods, checkpoints, bar, watch, interruption, known, paths, law, shrinking,
                processes,
            )  # fmt: skip
            fit = training.run(state, record)
            bar.judge(fit.diagnose)
            return fit
