"""Callbacks that hand a fit's figures on: to a function of a dict and a step, to TensorBoard's writers, to a file."""

import contextlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayesprune.core.checks import got
from bayesprune.train.result import Moment

__all__ = [
    "Figures",
    "to_jsonl",
    "to_logger",
]
__dir__ = __all__.copy  # what completion offers


Send = Callable[[dict[str, float], int], Any]


@dataclass
class Figures:
    """A callback that hands on the figures of a moment that were not there at the last one: see `to_logger`.

    A step that does not lie after the ``last`` one is another fit's, or another chain's, of which nothing was handed on yet.
    ``recall``: given the first step, which evaluation and which pruning were handed on before it, where a fit is resumed.
    """

    send: Send
    recall: Callable[[int], dict[str, int]] = field(default=lambda step: {})
    seen: dict[str, int] | None = None
    last: int = 0

    def __call__(self, moment: Moment) -> None:
        """Never asks for the end, whatever the receiver answers."""
        if self.seen is None or moment.step <= self.last:
            self.seen = self.recall(int(moment.step))
        self.last = int(moment.step)
        figures = {"loss": float(moment.loss), "density": float(moment.density)}
        for kind in ("eval", "prune"):
            steps = moment.history.get(f"{kind}/step", [])
            if steps and self.seen.get(kind) != steps[-1]:
                self.seen[kind] = steps[-1]
                named = {name: rows[-1] for name, rows in moment.history.items() if name.startswith(f"{kind}/")}
                figures |= {name: float(value) for name, value in named.items() if not math.isnan(value)}
        self.send(figures, int(moment.step))


def to_logger(logger: object) -> Figures:
    """A callback that logs a fit's figures, as floats by name, with the step.

    ``logger``: a function called as ``logger(figures, step=step)``, such as ``run.log`` of Weights & Biases or
    ``mlflow.log_metrics``; or an object with ``add_scalar(name, figure, step)``, as PyTorch's and tensorboardX's writers have,
    or with ``scalar(name, figure, step)``, as Flax's has.

    Figures: ``"loss"`` (of the last step, nats) and ``"density"`` at every call; ``"eval/..."`` once for each evaluation and
    ``"prune/..."`` once for each pruning since the call before, the last of each, with their own ``"eval/step"`` and
    ``"prune/step"``: a pruning comes after the callbacks of its step, so that the next call has it. What is NaN, as figures are
    of which a method has no notion, is left out. How often it is called, ``callback_every`` of `fit_svi` says.

    Raises `TypeError` for what is none of these.

    >>> import bayesprune as bp
    >>> log = lambda figures, step: print(step, figures)
    >>> history = {"eval/step": [10], "eval/nll": [0.5]}
    >>> bp.callbacks.to_logger(log)(bp.Moment(10, 2.0, 1.0, history, dict, dict))
    10 {'loss': 2.0, 'density': 1.0, 'eval/step': 10.0, 'eval/nll': 0.5}
    """
    for name in ("add_scalar", "scalar"):
        if callable(scalar := getattr(logger, name, None)) and not isinstance(logger, type):
            return Figures(lambda figures, step: [scalar(name, figure, step) for name, figure in figures.items()])
    if not callable(logger) or isinstance(logger, type):
        raise TypeError(
            "logger must be a function of a dict of figures and step=, or a writer with add_scalar or scalar, got "
            f"{got(logger)}: give run.log of Weights & Biases, or lambda figures, step: print(step, figures)."
        )
    return Figures(lambda figures, step: logger(figures, step=step))


def to_jsonl(path: str | os.PathLike[str]) -> Figures:
    """A callback that appends a fit's figures to a file, one JSON object a line, ``{"step": ..., "loss": ..., ...}``.

    Figures are those of `to_logger`. A fit that is resumed appends again, from where its checkpoint is: of lines with the
    same step the last one counts. ``pandas.read_json(path, lines=True)`` reads it. Raises `OSError` where the file cannot be
    written.
    """
    folder = Path(path).parent
    folder.mkdir(parents=True, exist_ok=True)

    def append(figures: dict[str, float], step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)  # it may be gone since: no figure is worth a fit
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | figures) + "\n")

    return Figures(append, lambda step: _last_of_each(Path(path), step))


def _last_of_each(path: Path, step: int) -> dict[str, int]:
    """The last evaluation and pruning that a file's lines before this step have; a line that is none is passed over."""
    seen: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            figures = json.loads(line)
            if figures["step"] < step:
                seen |= {kind: figures[f"{kind}/step"] for kind in ("eval", "prune") if f"{kind}/step" in figures}
    return seen
