"""The best step of a run so far, kept on disk: what --choose best takes in the place of the last one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesprune.infer.checkpoint import Checkpoints
from bayesprune.infer.result import FitResult, Moment

LAST = {"choose": "last"}


@dataclass(frozen=True)
class Best:
    """A callback of `fit_svi` that keeps parameters and mask of the evaluation of highest accuracy, or lowest nll.

    ``folder``: where they are kept, one file, whole at any time; a resumed run finds it there. ``on``: the name of what the
    evaluation is on, and ``rows`` how many there are. Of equal steps the first stays.
    """

    folder: Path
    on: str
    rows: int

    def __call__(self, moment: Moment) -> None:
        evaluated = moment.history.get("eval/step")
        if not evaluated or evaluated[-1] != moment.step:
            return
        name = "accuracy" if "eval/accuracy" in moment.history else "nll"
        value, kept = moment.history[f"eval/{name}"][-1], self.figure()
        better = kept is None or (value > kept["value"] if name == "accuracy" else value < kept["value"])
        if better and value == value:  # NaN is never the best
            metadata = {"step": moment.step, "metric": name, "value": value}
            self._kept.save(moment.step, (moment.params(), moment.mask()), metadata)

    def forget(self) -> None:
        """Start anew: a folder without checkpoints may still hold the best step of another run."""
        for step in self._kept.steps():
            self._kept.delete(step)

    def figure(self) -> dict[str, Any] | None:
        """The step that is kept, its "metric" and "value"; None before the first evaluation."""
        step = self._kept.latest()
        return None if step is None else self._kept.metadata(step)

    def taken(self, fit: FitResult) -> tuple[FitResult, dict[str, Any]]:
        """The fit with the parameters and the mask of the best step, and what is to be told of the choice.

        Raises `FloatingPointError` where no evaluation gave a number.
        """
        figure = self.figure()
        if figure is None:
            raise FloatingPointError(f"no evaluation on the {self.on} set gave a number, so that none is best: see --choose.")
        (params, mask), _ = self._kept.restore(figure["step"], (fit.params, fit.mask))
        told = {"choose": "best", **figure, "on": self.on, "rows": self.rows}
        if self.on == "test":
            told["note"] = "optimistic: the test set chose the step that it judges"
        return fit._replace(params=params, mask=mask), told

    @property
    def _kept(self) -> Checkpoints:
        return Checkpoints(self.folder, keep=1)
