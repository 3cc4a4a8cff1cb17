"""A time limit of a fit: the pace of its first steps says what there is time for; the rest is left out and named."""

import math
import numbers
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bayesprune.core.checks import got
from bayesprune.train.result import Moment

EVERY = 100  # steps between two looks at the clock; the second look tells the pace
LEAST = 250  # steps of the shortest course
LARGER = 2.0  # how much longer a further form may take than the first one: it reads more

clock: Callable[[], float] = time.monotonic  # seconds


class OutOfTimeError(Exception):
    """A fit would not have ended in time, and was ended; its result is not used."""


@dataclass
class Budget:
    """The seconds that a fit may take, and what it has used of them. ``limit``: infinite for none.

    ``left_out``: what there was no time for, see `BayesianSparseRegressor`. ``pace``: seconds of a step of the fit seen last;
    ``lead``: seconds of that fit before its first step, which are compilation for the most part.
    """

    limit: float = math.inf
    begun: float = field(default_factory=lambda: clock())
    left_out: dict[str, Any] = field(default_factory=dict)
    pace: float = 0.0
    lead: float = 0.0

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.limit < math.inf

    def left(self) -> float:
        """Seconds."""
        return self.limit - (clock() - self.begun)

    def has_half(self) -> bool:
        """Whether at least half of the time is left: as much as there was until now."""
        return not self.limited or self.left() > self.limit / 2

    def watches(self, num_steps: int, after: int = 0) -> "tuple[Deadline, ...]":
        """Callbacks that end a fit of so many steps if these and ``after`` more would take too long; none without a limit."""
        return (Deadline(self, num_steps, after),) if self.limited else ()

    def last(self, fit: Callable[..., Any], num_steps: int) -> Any:
        """The result of the last fit, ``fit(num_steps, *watches)``, with fewer steps where there is no time for all.

        It is fitted anew with a half, a quarter ... of the steps, not broken off: only at the end of its course has the prior
        its full weight.
        """
        try:
            if not self.pace or num_steps * self.pace <= self.left():
                return fit(num_steps, *self.watches(num_steps))
        except OutOfTimeError:
            pass
        fewer = num_steps
        while fewer // 2 >= LEAST and fewer * self.pace + self.lead > self.left():
            fewer //= 2
        if fewer < num_steps:
            self.left_out["steps"] = num_steps - fewer
        return fit(fewer)

    def if_time(self, fit: Callable[..., Any], num_steps: int) -> Any:
        """The result of a further fit, ``fit(num_steps, *watches)``; None without time for it."""
        if LARGER * num_steps * self.pace > self.left():
            return None
        try:
            return fit(num_steps, *self.watches(num_steps, after=1))
        except OutOfTimeError:
            return None


@dataclass
class Deadline:
    """A callback of `fit_svi`, to be called every `EVERY` steps, that ends a fit for which there is no time."""

    budget: Budget
    num_steps: int
    after: int
    begun: float = field(default_factory=lambda: clock())
    first: tuple[int, float] | None = None
    ended: bool = False

    def __call__(self, moment: Moment) -> bool:
        """Whether to end. The last fit ends within its first tenth only: later, too much would be lost."""
        step, now = moment.step, clock()
        if self.first is None:
            self.first = (step, now)
            return False
        self.budget.pace = max(now - self.first[1], 1e-9) / (step - self.first[0])
        self.budget.lead = max(0.0, self.first[1] - self.begun - self.first[0] * self.budget.pace)
        late = (self.num_steps - step + self.after) * self.budget.pace > self.budget.left()
        self.ended = late and (self.after > 0 or step <= max(2 * EVERY, self.num_steps // 10)) and step < self.num_steps
        return self.ended

    def check(self) -> None:
        """Raise `OutOfTimeError` if it has ended the fit."""
        if self.ended:
            raise OutOfTimeError


def read(time_limit: object) -> Budget:
    """The budget of a setting, from now on.

    >>> read(None).limited, read(60).limit
    (False, 60.0)
    """
    if time_limit is None:
        return Budget()
    if isinstance(time_limit, bool) or not isinstance(time_limit, numbers.Real):
        raise TypeError(f"time_limit must be a number of seconds, or None for no limit; got {got(time_limit)}.")
    if not float(time_limit) > 0:
        raise ValueError(f"time_limit must be positive, got {time_limit}: it is in seconds; None is no limit.")
    return Budget(float(time_limit))
