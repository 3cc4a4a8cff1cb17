"""What runs between the steps of a fit: evaluation on held-out data, early stopping, callbacks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from bayesprune.core.types import Dataset, Mask
from bayesprune.model.program import Trainable
from bayesprune.train.processes import ALONE, Alone, Together
from bayesprune.train.result import Moment, Record
from bayesprune.train.stopping import EarlyStop, NeverStop, asks_to_stop


class Watchers(NamedTuple):
    """``evaluate``: (rng_key, program, params, data, mask=, num_samples=) -> figures by name, of ``data``, None where there is
    none; ``early_stop`` looks at them; ``callbacks`` see a `Moment` and may ask for the end; ``keepers`` see every one, and may
    not. Of several processes all evaluate, the figures of the first one count, and the callbacks are called there alone."""

    evaluate: Callable[..., dict[str, float]]
    data: Dataset | None
    num_samples: int
    early_stop: EarlyStop | NeverStop
    callbacks: tuple[Callable[[Moment], Any], ...]
    keepers: tuple[Callable[[Moment], None], ...] = ()
    processes: Alone | Together = ALONE

    def see(
        self, rng_key: jax.Array, program: Trainable, params: dict[str, Any], mask: Mask, step: int, record: Record
    ) -> bool:
        """Evaluate, and record the figures and whether to stop; returns whether this state is the one to keep."""
        figures = self.evaluate(rng_key, program, params, self.data, mask=mask, num_samples=self.num_samples)
        if self.processes.count > 1:
            figures = self.processes.broadcast({name: float(figure) for name, figure in figures.items()})[0]
        record.add_metrics(step, figures)
        record.stopped = self.early_stop(record.history)
        return self.early_stop.keeps(record.history)

    def show(self, moment: Moment, due: bool) -> bool:
        """Call the keepers, and the callbacks where they are due, all of them; returns whether one asks for the end."""
        for keeper in self.keepers:
            keeper(moment)
        if not due or not self.callbacks:
            return False
        return bool(self.processes.once(lambda: any([asks_to_stop(callback(moment)) for callback in self.callbacks])))

    def looks(self, due: bool) -> bool:
        """Whether `show` would call anything."""
        return bool(self.keepers or (due and self.callbacks))

    def decisive(self) -> dict[str, Any]:
        """What of it decides a fit's result, by the names of `fit_svi`'s arguments."""
        return {"eval_data": self.data, "eval_samples": self.num_samples, "early_stop": self.early_stop}
