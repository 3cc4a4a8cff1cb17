"""What a fit writes down as it goes: losses, and a history of plain arrays."""

import math
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesprune.core.types import Info

LAW = "optimizer/law"  # the text of `alike.state_law`, as bytes


@dataclass
class Record:
    """Losses by step (NaN where not yet run), and lists that become the arrays of `FitResult.history`.

    ``stopped``: by the early stop, for good; ``halted``: by a callback, which is asked again where the fit is resumed;
    ``interrupted``: by Ctrl-C, of which the resumed fit knows nothing.
    """

    losses: np.ndarray
    history: dict[str, list[Any]] = field(default_factory=dict)
    stopped: bool = False
    halted: bool = False
    interrupted: bool = False

    @property
    def over(self) -> bool:
        """Whether no further step is to be taken."""
        return self.stopped or self.halted or self.interrupted

    def ended(self, step: int) -> dict[str, np.ndarray]:
        """Entries of the history of a fit that a callback or Ctrl-C ended after ``step``."""
        return {f"{name}/step": np.asarray([step]) for name in ("halted", "interrupted") if getattr(self, name)}

    @classmethod
    def empty(cls, num_steps: int) -> "Record":
        return cls(np.full((num_steps,), np.nan, jnp.result_type(float)))

    def add_losses(self, first: int, losses: np.ndarray) -> None:
        values = np.asarray(losses)
        self.losses[first : first + len(values)] = values

    def add_info(self, step: int, info: Info) -> None:
        row = {name: getattr(info, name) for name in Info._fields if name not in ("density_per_site", "gains")}
        row |= {f"density/{site}": value for site, value in info.density_per_site.items()}
        self._append("prune", step, row)

    def pruned_at(self, step: int) -> bool:
        """Whether the last pruning was at this step."""
        return self.history.get("prune/step", [])[-1:] == [step]

    def add_metrics(self, step: int, metrics: dict[str, float]) -> None:
        """Figures of an evaluation; of one that others have and this one has not: NaN, so that all are in step."""
        if "step" in metrics:
            raise ValueError("evaluator gives a figure named 'step', the name of the step itself: give it another name.")
        known = {name.removeprefix("eval/") for name in self.history if name.startswith("eval/")} - {"step"}
        before = len(self.history.get("eval/step", []))
        for name in metrics:
            self.history.setdefault(f"eval/{name}", [math.nan] * before)
        self._append("eval", step, metrics | {name: math.nan for name in known if name not in metrics})

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(values) for name, values in self.history.items()}

    def add_size(self, step: int, numbers: int) -> None:
        """From this step on the program has so many numbers; see `train.shrinking`."""
        self._append("shrunk", step, {"numbers": numbers})

    def _append(self, kind: str, step: int, row: dict[str, Any]) -> None:
        for name, value in ({"step": step} | row).items():
            number = math.nan if value is None else float(value)
            self.history.setdefault(f"{kind}/{name}", []).append(int(value) if name == "step" else number)
