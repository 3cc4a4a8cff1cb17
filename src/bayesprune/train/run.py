"""A fit from its recipe to its result: from its start, or from its last checkpoint, and what that holds."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesprune.core.compiling import make_room
from bayesprune.core.lock import alone_in
from bayesprune.core.send import send
from bayesprune.prune.needs import needs_of
from bayesprune.prune.paths import Paths
from bayesprune.train.alike import state_law
from bayesprune.train.checkpoints import Checkpoints, check_same_settings
from bayesprune.train.feed import Now, Stream, WholeFeed
from bayesprune.train.fingerprint import STEPS, TRACED, fingerprint, of_traces, traces
from bayesprune.train.interruption import Interruption
from bayesprune.train.processes import ALONE, Alone, Together, check_same, of_mesh
from bayesprune.train.progress import progress as make_progress
from bayesprune.train.result import FitResult, Record
from bayesprune.train.shrinking import as_single, as_slices, shrinking_of, single_written
from bayesprune.train.sites import sites_of
from bayesprune.train.start import Given, start
from bayesprune.train.state import FitState, Recipe
from bayesprune.train.stopping import Watchers
from bayesprune.train.training import Periods, Training

_BY_CODE = (
    "No setting with a name differs: the code of the network or of a function is another one, or a number that it reads from "
    "elsewhere, or the release of bayesprune. Resume with those of then, or begin anew in another folder, from "
    "init_params= of a fit that was saved if there is one."
)
# What a course may lay out over the steps.
_LAID_OUT = {"optimizer", "kl_weight", "every", "acts"}
_LATER = ("data types",)  # which checkpoints of before do not have
FIT = ("fingerprint", "history", "stopped")  # what the metadata of a fit's checkpoint hold


@dataclass(frozen=True)
class NoCheckpoints:
    """Saves nothing, resumes nothing."""

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()

    def of_traces(self, traces: Callable[[], tuple[Any, Any]]) -> "NoCheckpoints":
        return self

    def resume(self, state: FitState, record: Record) -> tuple[FitState, Record]:
        return state, record

    def save(self, step: int, state: FitState, record: Record) -> None:
        return None


@dataclass(frozen=True)
class FitCheckpoints:
    """Checkpoints of one fit in a folder; ``fingerprint``: the settings that must not change between start and resumption."""

    checkpoints: Checkpoints
    fingerprint: dict[str, Any]
    processes: Alone | Together = ALONE

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other fits out of the folder; of several processes of one fit the first holds it, and writes."""
        with ExitStack() as held:
            self.processes.once(lambda: held.enter_context(alone_in(self.checkpoints.folder)))
            yield

    def of_traces(self, traces: Callable[[], tuple[Any, Any]]) -> "FitCheckpoints":
        """The same, with the traces of the fit's start and step in the fingerprint, where a checkpoint must agree with them."""
        fingerprint = self.fingerprint | of_traces(*traces())
        step = self.checkpoints.latest()
        if step is not None:
            _check_same(self.checkpoints.metadata(step, FIT)["fingerprint"], fingerprint, self.checkpoints.folder)
        return FitCheckpoints(self.checkpoints, fingerprint, self.processes)

    def latest(self) -> int | None:
        """The last step that is saved, which is the same for all processes. `ValueError` where they see different folders."""
        said = self.processes.broadcast(self.checkpoints.latest())
        if other := [process for process, step in enumerate(said) if step != said[0]]:
            raise ValueError(
                f"checkpoint {os.fspath(self.checkpoints.folder)} holds step {said[0]} for process 0 and step {said[other[0]]} "
                f"for process {other[0]}: give a folder of a disk that all processes share."
            )
        return said[0]

    def resume(self, state: FitState, record: Record) -> tuple[FitState, Record]:
        step = self.latest()
        if step is None:
            return state, record
        metadata = self.checkpoints.metadata(step)
        now = (state.carry, state.sparse)
        best = now if metadata.get("has_best") else None
        (carry, sparse, losses, best), _ = self.checkpoints.restore(step, (*now, np.zeros((step,), record.losses.dtype), best))
        record = Record(record.losses, metadata["history"], metadata["stopped"], metadata.get("halted", False))
        record.add_losses(0, losses)
        planned = metadata.get("planned", state.planned)
        slices = as_slices(metadata.get("slices", ()))
        sizes = {site: tuple(alive.shape) for site, alive in sparse.mask.items()}
        single = as_single(metadata.get("single", ()), slices, sizes)
        return FitState(carry, sparse, best, planned, self._reading(metadata), slices, single), record

    def save(self, step: int, state: FitState, record: Record) -> None:
        metadata = {"fingerprint": self.fingerprint, "history": record.history, "stopped": record.stopped}
        metadata |= {"halted": record.halted, "has_best": state.best is not None, "planned": state.planned}
        metadata |= {"slices": state.slices} if state.slices else {}
        metadata |= {"single": single_written(state.single)} if state.single else {}
        metadata["readings"] = self.processes.broadcast(state.reading)
        saved = self.processes.own((state.carry, state.sparse, record.losses[:step], state.best))
        self.processes.once(lambda: self.checkpoints.save(step, saved, metadata))

    def _reading(self, metadata: dict[str, Any]) -> Any:
        """Where this process's reading of the data stood."""
        readings = metadata.get("readings", [metadata.get("reading")])
        if all(reading is None for reading in readings):
            return None  # the step says it
        if len(readings) != self.processes.count:
            raise ValueError(
                f"{os.fspath(self.checkpoints.folder)} holds a fit of {len(readings)} processes, each with its own share of "
                f"the data, and there are {self.processes.count}: resume it with as many, or read by row number (a "
                "memory-mapped array, a data source), which any number of processes goes on with."
            )
        return readings[self.processes.index]


def open_checkpoints(
    folder: str | os.PathLike[str] | None,
    num_steps: int,
    fingerprint: Callable[[], dict[str, Any]],
    processes: Alone | Together = ALONE,
) -> FitCheckpoints | NoCheckpoints:
    """The checkpoints in ``folder``, made if need be; none for None, and no fingerprint is taken.

    Raises `ValueError` where the folder holds a fit of other settings, by name, or one of more steps than ``num_steps``.
    """
    if folder is None:
        return NoCheckpoints()
    checkpoints = Checkpoints(folder)
    opened = FitCheckpoints(checkpoints, fingerprint(), processes)
    step = opened.latest()
    if step is None:
        return opened
    # The traces are compared later: what has a name is compared by it, before anything is compiled.
    metadata = checkpoints.metadata(step, FIT)
    saved = {name: word for name, word in metadata["fingerprint"].items() if name not in STEPS}
    _check_same(saved, opened.fingerprint, checkpoints.folder, (metadata.get("planned", num_steps), num_steps))
    if step > num_steps:
        raise ValueError(
            f"num_steps={num_steps}, but {os.fspath(checkpoints.folder)} holds the fit at step {step}, and there is no way "
            "back: give at least as many steps, or another folder."
        )
    return opened


def _check_same(
    saved: dict[str, Any], current: dict[str, Any], folder: str | os.PathLike[str], num_steps: tuple[int, int] = (0, 0)
) -> None:
    """``num_steps``: those that the fit was begun with, and those of now."""
    current = {name: word for name, word in current.items() if name in saved or name not in _LATER}
    if saved.get("jax") != current["jax"]:
        saved, current = ({n: v for n, v in words.items() if n not in (*TRACED, "jax")} for words in (saved, current))
    try:
        check_same_settings(saved, current, folder)
    except ValueError as error:
        changed = {name for name in {**saved, **current} if saved.get(name) != current.get(name)}
        if changed.issubset(("network", *STEPS)):
            raise ValueError(f"{error} {_BY_CODE}") from None
        first, now = num_steps
        if first == now or not changed.issubset(_LAID_OUT):
            raise
        raise ValueError(
            f"{error} The fit was begun with num_steps={first}, over which its course is laid out, and now is num_steps={now}: "
            "go on from it by init= in another folder, or begin anew with optimizer=, kl_weight= and every= of your own, or "
            "course=bp.courses.Plain(), which any number of steps prolongs."
        ) from None


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
