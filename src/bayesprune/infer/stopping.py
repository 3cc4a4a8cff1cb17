"""Early stopping on a held-out figure."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune.core.checks import check_integer

_HIGHER_IS_BETTER = ("accuracy", "coverage", "auroc")


@dataclass(frozen=True)
class EarlyStop:
    """Stop when ``metric`` on the held-out data has not improved for ``patience`` evaluations.

    Args:
        metric: a name that the evaluation reports, such as "nll" (lower is better) or "accuracy" (higher is better).
        patience: evaluations without a new best before the fit ends.
    """

    metric: str = "nll"
    patience: int = 5

    def __post_init__(self) -> None:
        check_integer(self.patience, "patience")

    def __call__(self, history: dict[str, list[Any]]) -> bool:
        """Whether to stop, given the history so far."""
        values = history.get(f"eval/{self.metric}")
        if values is None:
            known = sorted(name.removeprefix("eval/") for name in history if name.startswith("eval/") and name != "eval/step")
            raise ValueError(f"early_stop watches {self.metric!r}, but the evaluation reports {', '.join(known) or 'nothing'}.")
        scores = np.asarray(values) if self.metric in _HIGHER_IS_BETTER else -np.asarray(values)
        best = int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))  # what is undefined is no best
        return len(values) - 1 - best >= self.patience


@dataclass(frozen=True)
class NeverStop:
    """Run all steps."""

    def __call__(self, history: dict[str, list[Any]]) -> bool:
        return False
