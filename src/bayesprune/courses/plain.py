"""The plain course: nothing changes on the way. With it the papers' own, by name: only what is documented as theirs."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import optax

from bayesprune.core.checks import check_integer, check_name, check_positive
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


# Start: the prior's authors'. Rates and rhythm: of the paper's settings.
_PAPERS = MappingProxyType({
    "bmr": Plain(rate=1e-2, every=500),  # Marković, Friston & Kiebel (2024), section III: an act after every 500 steps
    "flat": Plain(rate=5e-3),  # the same, without pruning: flat and tiered mean field
    "map": Plain(rate=1e-3),  # the same, maximum a posteriori
})  # fmt: skip


def papers() -> list[str]:
    """The names that `paper` knows.

    >>> papers()
    ['bmr', 'flat', 'map']
    """
    return sorted(_PAPERS)


def paper(name: str) -> Plain:
    """The course of a paper's experiments, with the start of its authors.

    "bmr", "flat", "map": Marković, Friston & Kiebel (2024), its stochastic Bayesian model reduction, its mean fields, its MAP.
    Settings that belong to one experiment alone, as SSVI's cold posterior, are presets of ``bayesprune run``.

    Raises `ValueError` for an unknown name.

    >>> paper("bmr").every
    500
    """
    check_name("paper", name, _PAPERS)
    return _PAPERS[name]
