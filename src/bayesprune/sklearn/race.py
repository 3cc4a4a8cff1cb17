"""Which form is ahead on the way: one that is behind where two fifths of its steps are done is not trained to the end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from bayesprune.sklearn.watch import GivenUpError
from bayesprune.train.result import Moment

SHARE, ROUND, LEAST = 0.4, 100, 1000  # where it is looked, to a number of steps; of shorter courses it is not


class BehindError(GivenUpError):
    """A form was behind."""


@dataclass
class Halfway:
    """A `Watch` that judges held-out rows once, after ``every`` steps, and ends the fit if they are foreseen worse than before.

    ``judge(moment)``: log density of each row by the networks as they stand. ``rival``: what it was of the first form at this
    step, None in its own fit. Behind is who is so by more than one standard error of the mean of differences row by row.

    From there on held-out densities hardly move, and their order does not: see benchmarks/tabular_kinds.md.
    """

    judge: Callable[[Moment], Float64[np.ndarray, " rows"]]
    every: int
    rival: Float64[np.ndarray, " rows"] | None = None
    nats: Float64[np.ndarray, " rows"] | None = None
    behind: bool = False

    def __call__(self, moment: Moment) -> bool:
        """Whether to end."""
        if moment.step != self.every:
            return False
        self.nats = self.judge(moment)
        self.behind = self.rival is not None and is_behind(self.nats - self.rival)
        return self.behind

    def check(self) -> None:
        """Raise `BehindError` if it has ended the fit."""
        if self.behind:
            raise BehindError


def is_behind(lead: Float64[np.ndarray, " rows"]) -> bool:
    """Whether the mean of leads is negative by more than one standard error.

    >>> is_behind(np.array([-0.3, -0.2, -0.4])), is_behind(np.array([-0.3, 0.2, -0.4])), is_behind(np.array([-1.0]))
    (True, False, False)
    """
    return len(lead) > 1 and bool(lead.mean() < -lead.std(ddof=1) / np.sqrt(len(lead)))


def where(num_steps: int) -> int:
    """After how many steps of a course it is looked; 0 for never.

    >>> where(5000), where(2000), where(900)
    (2000, 800, 0)
    """
    return ROUND * round(SHARE * num_steps / ROUND) if num_steps >= LEAST else 0


def halfway(judge: Callable[[Moment], Any], num_steps: int, rival: Halfway | None) -> tuple[Halfway, ...]:
    """What follows a form's fit of so many steps; ``rival``: what followed the first form's on the same rows."""
    return (Halfway(judge, where(num_steps), None if rival is None else rival.nats),) if where(num_steps) else ()
