"""The training of a fit: chunks of compiled steps, and what happens between them."""

import functools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.svi import SVIState

from bayesprune.core.checks import check_integer
from bayesprune.core.finite import broken
from bayesprune.core.send import send
from bayesprune.core.types import Info, SparseState
from bayesprune.prune.paths import Paths
from bayesprune.train.interruption import Interruption
from bayesprune.train.processes import ALONE, Alone, Together
from bayesprune.train.result import LAW, FitResult, Moment, Record, UnsavedError, diverged
from bayesprune.train.shrinking import WHOLE, Shrinking, WholeArrays
from bayesprune.train.state import CHUNK, Carry, Compiled, FitState
from bayesprune.train.stopping import Watchers

# What a period is of, by the arguments of `fit_svi`.
_OF = {"every": "sparsifier=", "eval_every": "eval_data=", "checkpoint_every": "checkpoint= folder"}


class Periods(NamedTuple):
    """When things happen, in steps; 0 = never. ``stops``: single steps beside those, after which keepers are called.

    ``callback_every``: 0 calls the callbacks whenever there is a pause. ``acts``: the first and the last step at which the
    sparsifier acts, None for no bounds.
    """

    num_steps: int
    every: int
    eval_every: int
    checkpoint_every: int
    stops: tuple[int, ...] = ()
    callback_every: int = 0
    acts: tuple[int, int] | None = None

    @classmethod
    def of(cls, num_steps: int, epoch: int, callback_every: int | None = None, **wanted: tuple[bool, int | None]) -> "Periods":
        """From pairs (whether, period or None for one epoch) by name; a ``callback_every`` of None is 0."""
        wanted = wanted | {"callback_every": (callback_every is not None, callback_every)}
        for name, (_, period) in wanted.items():
            if period is not None:
                check_integer(period, name)
        idle = [name for name, (used, period) in wanted.items() if period is not None and not used]
        if idle:
            message = "; ".join(f"{name}= says how often, and there is no {_OF[name]}" for name in idle)
            # Of the caller of `fit_svi`.
            warnings.warn(f"{message}. Give that, or leave {', '.join(idle)} out.", UserWarning, stacklevel=5)
        chosen = {name: (period or epoch) if used else 0 for name, (used, period) in wanted.items()}
        return cls(num_steps=num_steps, stops=(), acts=None, **chosen)

    def next_stop(self, step: int) -> int:
        """The next step after ``step`` at which something other than training happens."""
        periods = [p for p in (self.every, self.eval_every, self.checkpoint_every, self.callback_every) if p]
        return min([self.num_steps, *((step // p + 1) * p for p in periods), *(s for s in self.stops if s > step)])

    @property
    def num_acts(self) -> int:
        """How often the sparsifier acts."""
        return sum(self.acts_at(step) for step in range(self.every, self.num_steps, self.every)) if self.every else 0

    def acts_at(self, step: int) -> bool:
        """Whether the sparsifier acts before the step that follows ``step`` steps."""
        first, last = self.acts or (0, self.num_steps)
        return step > 0 and self.due("every", step) and first <= step <= last

    def due(self, name: str, step: int) -> bool:
        period = getattr(self, name)
        return bool(period) and step % period == 0

    def shows(self, step: int, over: bool) -> bool:
        """Whether the callbacks are called at a pause after ``step``; ``over``: it is the last one."""
        return over or step == self.num_steps or not self.callback_every or self.due("callback_every", step)


@dataclass(frozen=True)
class Training:
    """One fit's fixed parts; `run` carries the changing ones from step to step."""

    program: Any
    loop: Compiled
    feed: Any
    periods: Periods
    checkpoints: Any
    bar: Any
    watch: Watchers
    interruption: Any
    known: dict[str, Any]
    paths: Paths
    law: str = ""
    shrinking: Shrinking | WholeArrays = WHOLE
    processes: Alone | Together = ALONE

    def run(self, state: FitState, record: Record) -> FitResult:
        """Train to the end, or until the early stop, or a callback."""
        step, pace = int(state.carry.step), 16
        if record.halted:
            # Of a callback that has no memory the answer is the same; without it, the fit goes on as if it had never been.
            record.halted = self._show(step, state, record)
        state = self.shrinking.settle(step, state, record)
        with self.interruption as interruption:
            begun = broken(self._state(state.carry))  # an optimiser's best loss so far may begin at infinity
            while step < self.periods.num_steps and not record.over:
                # Only where training goes on: what was evaluated last is what is returned.
                state = self._prune(step, state, record)
                pause = self.periods.next_stop(step)
                while step < pause:
                    carry, taken, seconds = self._chunk(state, record, min(pace, pause - step), begun)
                    step, state = step + taken, state._replace(carry=carry)
                    # About one chunk a second, so that the bar moves; how steps are cut into chunks changes no bit.
                    pace = max(1, min(CHUNK, int(taken / max(seconds, 1e-3))))
                    pace, asked = self._agreed(pace, interruption)
                    if step < pause and asked:
                        break
                else:
                    state = self._pause(step, state, record)
                    _, asked = self._agreed(pace, interruption)
                if asked:
                    if self.periods.checkpoint_every:
                        self._save(step, state, record)
                    interruption.end(step, self.periods.num_steps)
                    record.interrupted = step < self.periods.num_steps
        return self._result(step, state, record)

    def _agreed(self, pace: int, interruption: Interruption) -> tuple[int, bool]:
        """The steps of the next chunk, and whether to end: what the processes saw of clocks and signals differs."""
        said = self.processes.broadcast((pace, int(interruption.signum)))
        interruption.hear(max(signum for _, signum in said))
        return said[0][0], any(signum for _, signum in said)

    def _result(self, step: int, state: FitState, record: Record) -> FitResult:
        carry, sparse = (state.carry, state.sparse) if state.best is None else state.best
        svi_state = SVIState((carry.begun + carry.step, (carry.params, carry.opt_state)), carry.mutable or None, carry.rng_key)
        params, mask = self._params(carry, sparse.mask)
        svi_state = self.processes.own(svi_state)
        history = record.arrays() | {"returned/step": np.asarray([int(carry.step)])} | record.ended(step)
        history |= {LAW: np.frombuffer(self.law.encode(), np.uint8)}
        return FitResult(params, svi_state, record.losses[:step], mask, history)

    def _chunk(self, state: FitState, record: Record, num_steps: int, begun: frozenset[str]) -> tuple[Carry, int, float]:
        carry, sparse = state.carry, state.sparse
        step, begin = int(carry.step), time.perf_counter()
        # `run` takes its argument's memory over; a copy of the parameters, as a fit returns them, stays behind for the
        # day the loss is not finite.
        finite = jax.tree.map(jnp.copy, carry._replace(params=self.loop.evaluated(carry), opt_state=()))
        data, room = self.feed.block(step)
        run = self.shrinking.run(self.loop, state)
        carry, losses, done = run(carry, data, sparse.mask, send(min(num_steps, room), np.int32))
        record.add_losses(step, np.asarray(losses)[: int(done)])  # on the device each length would be a program of its own
        loss = float(record.losses[step + int(done) - 1])
        # The loss is of the parameters before its step: those after the last one are looked at by themselves.
        lost = broken(self._state(carry)) - begun
        if not math.isfinite(loss) or lost:
            what = "" if math.isfinite(loss) else "the loss"
            raise diverged(step + int(done), what, lost, self._params(finite, sparse.mask)[0])
        self.bar.advance(int(done), loss=loss, density=self._density(sparse.mask), connected=_connected(record))
        return carry, int(done), time.perf_counter() - begin

    def _prune(self, step: int, state: FitState, record: Record) -> FitState:
        """The pruning that is due before the next step, unless it was done before a checkpoint from which the fit goes on."""
        if not self.periods.acts_at(step) or record.pruned_at(step):
            return state
        old, planned = state.sparse.mask, send(state.planned, np.int32)
        carry = self.loop.redraw(state.carry, old)
        sparse, info = self.loop.prune(carry, self.feed.ahead(step), state.sparse, self.known, planned)
        sparse, info = self._settle(step, state.sparse, sparse, info)
        record.add_info(step, info)
        carry = self.loop.weigh(self.loop.renew(carry, old, sparse.mask, self.known), sparse)
        return self.shrinking.settle(step, state._replace(carry=carry, sparse=sparse), record)

    def _settle(self, step: int, old: SparseState, new: SparseState, info: Info) -> tuple[SparseState, Any]:
        """The act as it is by the network's paths; masks as the storage keeps them."""
        before, after = (s._replace(mask=self.processes.own(self.loop.whole_mask(s.mask))) for s in (old, new))
        settled, info = self.paths.settle(step, before, after, info)
        if settled.mask is after.mask:
            return new, info
        # Of positions, which have nothing to trim, there is only the way back.
        return new._replace(mask=old.mask if settled.mask is before.mask else settled.mask), info

    def _pause(self, step: int, state: FitState, record: Record) -> FitState:
        carry, sparse = state.carry, state.sparse
        if self.periods.due("eval_every", step):
            key = carry.step_key
            params, mask = self._params(carry, sparse.mask)
            if self.watch.see(key, self.program, params, mask, step, record):
                # A copy: the loop takes over the memory of the state that it goes on from.
                state = state._replace(best=(jax.tree.map(jnp.copy, carry), sparse))
        # Before the checkpoint: a run that is killed in between shows its callbacks the step again, rather than never.
        record.halted = self._show(step, state, record)
        last = step == self.periods.num_steps or record.over
        if self.periods.due("checkpoint_every", step) or (self.periods.checkpoint_every and last):
            self._save(step, state, record)
        return state

    def _save(self, step: int, state: FitState, record: Record) -> None:
        try:
            self.checkpoints.save(step, state._replace(reading=self.feed.state(step)), record)
        except OSError as error:
            if self.processes.count > 1:  # the others would wait for this one's part of the result
                raise
            raise UnsavedError(error.errno, error.strerror or str(error), self._result(step, state, record)) from error

    def _show(self, step: int, state: FitState, record: Record) -> bool:
        """Call the callbacks; whether one of them ends the fit."""
        carry, sparse = state.carry, state.sparse
        now: Callable[[], tuple[dict[str, Any], dict[str, Any]]] = functools.partial(self._params, carry, sparse.mask)
        due = self.periods.shows(step, record.stopped)
        if self.processes.count > 1 and self.watch.looks(due):
            fetched = now()  # by all processes, of which only one may ask
            now = lambda: fetched  # noqa: E731
        loss, density = float(record.losses[step - 1]), self._density(sparse.mask)
        moment = Moment(step, loss, density, record.history, lambda: now()[0], lambda: now()[1])
        return self.watch.show(moment, due)

    def _params(self, carry: Carry, mask: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.processes.own(self.loop.whole(carry, mask, self.known))  # type: ignore[no-any-return]

    def _state(self, carry: Carry) -> dict[str, Any]:
        """What of a state must stay finite: it is what the next step is made from. Parameters both as they are and as they are
        given: a logarithm of 100 is finite, and its scale is not."""
        given = self.loop.constrain(carry.params)
        return {"params": given, "free": carry.params, "state": carry.mutable, "optimizer": carry.opt_state}

    def _density(self, mask: dict[str, Any]) -> float:
        return self.loop.storage.density(mask) if mask else 1.0


def _connected(record: Record) -> float | None:
    """The share of the prunable weights that were connected after the last act; None where that is not known."""
    connected, alive, density = (record.history.get(f"prune/{name}", [0]) for name in ("num_connected", "num_alive", "density"))
    return connected[-1] / alive[-1] * density[-1] if alive[-1] and not math.isnan(connected[-1]) else None
