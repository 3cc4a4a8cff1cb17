"""Who watches a fit between its steps: an evaluation on held-out data, the stop that it may cause, callbacks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from bayesprune.core.types import Dataset
from bayesprune.train.history import Record
from bayesprune.train.result import Moment
from bayesprune.train.stopping import EarlyStop, NeverStop, asks_to_stop


class Watch(NamedTuple):
    """``evaluate``: (rng_key, program, params, data, mask=, num_samples=) -> figures by name, of ``data``, None where there is
    none; ``early_stop`` looks at them; ``callbacks`` see a `Moment` and may ask for the end; ``keepers`` see every one, and may
    not."""

    evaluate: Callable[..., dict[str, float]]
    data: Dataset | None
    num_samples: int
    early_stop: EarlyStop | NeverStop
    callbacks: tuple[Callable[[Moment], Any], ...]
    keepers: tuple[Callable[[Moment], None], ...] = ()

    def see(self, rng_key: jax.Array, program: Any, params: dict[str, Any], mask: Any, step: int, record: Record) -> bool:
        """Evaluate, and record the figures and whether to stop; returns whether this state is the one to keep."""
        record.add_metrics(step, self.evaluate(rng_key, program, params, self.data, mask=mask, num_samples=self.num_samples))
        record.stopped = self.early_stop(record.history)
        return self.early_stop.keeps(record.history)

    def show(self, moment: Moment, due: bool) -> bool:
        """Call the keepers, and the callbacks where they are due, all of them; returns whether one asks for the end."""
        for keeper in self.keepers:
            keeper(moment)
        answers = [callback(moment) for callback in self.callbacks] if due else []
        return any(map(asks_to_stop, answers))

    def decisive(self) -> dict[str, Any]:
        """What of it decides a fit's result, by the names of `fit_svi`'s arguments."""
        return {"eval_data": self.data, "eval_samples": self.num_samples, "early_stop": self.early_stop}
