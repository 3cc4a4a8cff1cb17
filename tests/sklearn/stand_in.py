"""An estimator for tests of what is chosen: it fits nothing, and says what it is told of held-out rows."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from bayesprune.sklearn import choosing
from bayesprune.sklearn.budget import Budget


class StandIn:
    """``nats``: mean log density of held-out rows by form. ``fits``: forms in the order in which they were fitted."""

    _seed = 0

    def __init__(self, nats: dict[str, float], stacks: bool = False, limit: float = np.inf) -> None:
        self._budget, self.nats, self.stacks = Budget(limit), nats, stacks
        self.fits: list[str] = []

    def learn(self, form: str, rows: np.ndarray, num_steps: int, *watches: Any) -> SimpleNamespace:
        self.form = form
        self.fits.append(form)
        return SimpleNamespace(rungs=(None,))

    def _judged(self, x: np.ndarray, y: np.ndarray) -> choosing.Judged:
        nats = self.nats[self.form] + 1e-3 * np.random.default_rng(len(self.form)).standard_normal(len(x))
        return choosing.Judged(nats, np.full(len(x), self.nats[self.form]))

    def _wrong(self, y: np.ndarray, foreseen: np.ndarray) -> np.ndarray:
        return foreseen

    def _measured(self, form: str, x: np.ndarray, y: np.ndarray, kept: np.ndarray, held: np.ndarray) -> None:
        return None

    def _member(self) -> str:
        return f"fit {len(self.fits)} of {self.form}"

    def _stacks(self, choice: object) -> bool:
        return self.stacks
