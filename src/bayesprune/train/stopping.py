"""What runs between the steps of a fit: evaluation on held-out data, early stopping, callbacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesprune.core.checks import check_integer, check_name
from bayesprune.core.types import Dataset, Mask
from bayesprune.model.program import Trainable
from bayesprune.report.directions import direction_of, merit
from bayesprune.train.processes import ALONE, Alone, Together
from bayesprune.train.result import Moment, Record

RESTORE = ("last", "best")


@dataclass(frozen=True)
class EarlyStop:
    """Stop when ``metric`` on the held-out data has not improved for ``patience`` evaluations.

    Args:
        metric: a name that the evaluation reports, such as "nll" or "accuracy". Of every figure of `bayesprune.evaluate` and
            `bayesprune.metrics` it is known which way is better: "coverage" is the better the nearer it is to 0.95.
        patience: evaluations without a new best before the fit ends. NaN is never best.
        restore: which evaluated state the fit returns: the "last" one, at which it stopped, or the "best" by ``metric``, the
            first of equals, with the mask of then (also where no stop came). Where no evaluation gave a number there is no
            best, and the last state is returned. ``fit.history["returned/step"]`` has its step.
        direction: which way a figure of your own is better, of an ``evaluator`` or a likelihood's ``metrics``: "max", "min", or
            the number that it should be nearest to. Needed for these alone.

    Nothing is pruned or exchanged after the evaluation that ends the fit.

    Raises `ValueError` for a patience below 1, an unknown ``restore``, an unknown ``metric`` without a direction, and a
    direction that contradicts a metric of ours.

    >>> stop = EarlyStop("accuracy", patience=2)
    >>> stop({"eval/accuracy": [0.5, 0.9, 0.8]}), stop({"eval/accuracy": [0.5, 0.9, 0.8, 0.9]})
    (False, True)
    >>> EarlyStop("f1", patience=2, direction="max")({"eval/f1": [0.5, 0.6, 0.7]})
    False
    """

    metric: str = "nll"
    patience: int = 5
    restore: str = "last"
    direction: str | int | float | None = None

    def __post_init__(self) -> None:
        check_integer(self.patience, "patience")
        check_name("restore", self.restore, RESTORE)
        direction_of(self.metric, self.direction)

    def __call__(self, history: dict[str, list[Any]]) -> bool:
        """Whether to stop, given the history so far."""
        return self._since_best(history) >= self.patience

    def keeps(self, history: dict[str, list[Any]]) -> bool:
        """Whether the evaluation just made is the best so far, and the best is what the fit returns."""
        return self.restore == "best" and self._since_best(history) == 0

    def _since_best(self, history: dict[str, list[Any]]) -> int:
        """Evaluations since the best one; all of them where none gave a number."""
        values = history.get(f"eval/{self.metric}")
        if values is None:
            known = sorted(name.removeprefix("eval/") for name in history if name.startswith("eval/") and name != "eval/step")
            raise ValueError(
                f"early_stop watches {self.metric!r}, but the evaluation reports {', '.join(known) or 'nothing'}: "
                "name one of these."
            )
        merits = merit(values, direction_of(self.metric, self.direction))
        numbers = np.flatnonzero(~np.isnan(merits))  # what is undefined is no best, be all else infinitely bad
        if not numbers.size:
            return len(merits)
        return len(merits) - 1 - int(numbers[np.argmax(merits[numbers])])


def asks_to_stop(answer: object) -> bool:
    """Whether a callback's answer is True; any other answer, such as the None of most callbacks, asks for nothing.

    >>> asks_to_stop(np.float32(1) > 0), asks_to_stop(None), asks_to_stop("done"), asks_to_stop(1)
    (True, False, False, False)
    """
    if isinstance(answer, np.ndarray | jax.Array):
        return answer.shape == () and answer.dtype == bool and bool(answer)
    return isinstance(answer, bool | np.bool_) and bool(answer)


@dataclass(frozen=True)
class NeverStop:
    """Run all steps."""

    def __call__(self, history: dict[str, list[Any]]) -> bool:
        return False

    def keeps(self, history: dict[str, list[Any]]) -> bool:
        return False


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
