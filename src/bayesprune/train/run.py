"""A fit from its recipe to its result: from its start, or from where its last checkpoint stands."""

import os

import jax
import jax.numpy as jnp

from bayesprune.core.types import Dataset
from bayesprune.train.course import Periods, Training
from bayesprune.train.fingerprint import fingerprint
from bayesprune.train.history import Record
from bayesprune.train.interruption import interruption
from bayesprune.train.loop import Recipe
from bayesprune.train.progress import progress as make_progress
from bayesprune.train.result import FitResult
from bayesprune.train.resume import open_checkpoints
from bayesprune.train.sites import Example
from bayesprune.train.standing import Standing
from bayesprune.train.start import Given, start
from bayesprune.train.watch import Watch


def run(
    recipe: Recipe,
    rng_key: jax.Array,
    data: Dataset,
    given: Given,
    periods: Periods,
    watch: Watch,
    checkpoint: str | os.PathLike[str] | None,
    progress: bool | None,
) -> FitResult:
    """Train as ``recipe`` and ``periods`` have it, under the eyes of ``watch``; arguments as `fit_svi` has checked them."""
    num_steps, example = periods.num_steps, Example.of(data)
    stops = {"stops": periods.stops} if periods.stops else {}
    decisive = (
        stops | {"data": data, "every": periods.every, "eval_every": periods.eval_every} | given.decisive() | watch.decisive()
    )
    checkpoints = open_checkpoints(checkpoint, num_steps, lambda: fingerprint(recipe, example, rng_key, decisive))
    loop, carry, sparse, known = start(recipe, rng_key, data, given)
    checkpoints = checkpoints.of_traces(
        lambda: (loop.init.trace(rng_key, data), loop.run.trace(carry, data, sparse.mask, jnp.zeros((), jnp.int32)))
    )
    with checkpoints.alone():
        standing, record = checkpoints.resume(Standing(carry, sparse, planned=num_steps), Record.empty(num_steps))
        with make_progress(num_steps, progress, initial=int(standing.carry.step)) as bar:
            training = Training(recipe.program, loop, data, periods, checkpoints, bar, watch, interruption(checkpoint), known)
            return training.run(standing, record)
