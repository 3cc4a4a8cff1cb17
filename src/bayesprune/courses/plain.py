"""The plain course: nothing changes on the way."""

from dataclasses import dataclass
from typing import Any

import optax

from bayesprune.core.checks import check_integer, check_positive
from bayesprune.core.schedules import Constant
from bayesprune.courses.course import Plan
from bayesprune.model.bnn import BNN
from bayesprune.model.families import authors_family
from bayesprune.model.program import Trainable


@dataclass(frozen=True)
class Plain:
    """AdaBelief at one rate, divergence of weight 1, sampled weights, acts as the sparsifier has them, the authors' start.

    Args:
        rate: learning rate of AdaBelief.
        every: steps between two acts; None: an epoch.

    Of most priors the start is U(-2, 2) in the coordinates of their sites, of a posterior given by name; a family that was
    given as an object keeps its own.

    Example:
        >>> Plain(rate=1e-3).plan(num_steps=100).last
        100
    """

    rate: float = 5e-3
    every: int | None = None

    def __post_init__(self) -> None:
        check_positive(self.rate, "rate")
        if self.every is not None:
            check_integer(self.every, "every")

    def begin(self, program: Trainable) -> Any:
        """The program with its prior's authors' start."""
        name = getattr(program, "posterior_name", "")
        if not isinstance(program, BNN) or not name:
            return program
        return program.under(authors_family(name, program.prior))

    def plan(self, num_steps: int, begun: bool = False) -> Plan:
        """The same for any number of steps."""
        return Plan(optax.adabelief(self.rate), Constant(1.0), self.every, 0, num_steps, 0, "weight")
