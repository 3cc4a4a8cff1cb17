"""An estimator for tests of what is chosen: it fits nothing, and says what it is told of held-out rows."""

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np

from bayesprune.sklearn import choosing
from bayesprune.sklearn.budget import Budget
from bayesprune.sklearn.forms import FormChoice
from bayesprune.sklearn.mixture import Member
from bayesprune.sklearn.training_rows import TrainingRows


def member_called(name: str) -> Any:
    """A network without anything to predict by."""
    return Member(None, name, {}, {}, None, 1.0)  # type: ignore[arg-type]


class StandIn:
    """``nats``: mean log density of held-out rows by form. ``fits``: forms in the order in which they were fitted."""

    _seed = 0

    def __init__(self, nats: dict[str, float], stacks: bool = False, limit: float = np.inf) -> None:
        self._budget, self.nats, self.stacks = Budget(limit), nats, stacks
        self.fits: list[str] = []

    def learn(self, form: str, rows: np.ndarray, num_steps: int, *watches: Any) -> SimpleNamespace:
        self.fits.append(form)
        return SimpleNamespace(rungs=(None,), member=member_called(f"fit {len(self.fits)} of {form}"))

    def _cut(self, learned: SimpleNamespace, x: np.ndarray, y: np.ndarray, rung: int) -> Member:
        return learned.member

    def _predicting_by(self, member: Member) -> "StandIn":
        found = copy.copy(self)
        found.form = member.network.rpartition(" ")[2]
        return found

    def _judged(self, x: np.ndarray, y: np.ndarray) -> choosing.Judged:
        nats = self.nats[self.form] + 1e-3 * np.random.default_rng(len(self.form)).standard_normal(len(x))
        return choosing.Judged(nats, np.full(len(x), self.nats[self.form]))

    def _wrong(self, y: np.ndarray, foreseen: np.ndarray) -> np.ndarray:
        return foreseen

    def _measured(self, form: str, x: np.ndarray, y: np.ndarray, kept: np.ndarray, held: np.ndarray) -> None:
        return None

    def choose(self, choice: FormChoice, x: np.ndarray, y: np.ndarray, num_steps: int = 2000) -> Any:
        """What is chosen for it, and how wrong held-out rows were foreseen."""
        return choosing.choose(self, choice, TrainingRows(x, y, 0, self._budget), self.learn, num_steps)

    def _stacks(self, choice: object) -> bool:
        return self.stacks
