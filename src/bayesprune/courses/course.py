"""What a course is: one object that says how a fit goes, from its start to its last step."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import optax

from bayesprune.model.program import Trainable


class Plan(NamedTuple):
    """A course laid out over the steps of one fit.

    ``optimizer``: an optax transformation. ``kl_weight``: the divergence's weight, a function of the step. ``every``: steps
    between two acts of the sparsifier; None: an epoch. ``first``, ``last``: the steps within which it acts. ``verified``: by
    how many minibatches acts are verified, see `prune.verified`, 0: they are not. ``estimator``: of the bound, as of `fit_svi`.
    ``laid_out``: the rate follows the steps to its end, so that a fit that goes on must begin it anew. ``optimizer_for``: the
    optimizer of a program, where it depends on that; None: ``optimizer``.
    """

    optimizer: optax.GradientTransformation
    kl_weight: Callable[[jax.Array], Any]
    every: int | None
    first: int
    last: int
    verified: int
    estimator: str
    laid_out: bool = False
    optimizer_for: Callable[[Any], optax.GradientTransformation] | None = None


@runtime_checkable
class Course(Protocol):
    """A frozen dataclass of knobs. Equal knobs hash equally.

    ``begin(program)``: the program with the start that the course has for it. ``plan(num_steps, begun)``: what it makes of so
    many steps; ``begun``: the fit goes on from weights that were trained before.
    """

    def __hash__(self) -> int: ...

    def begin(self, program: Trainable) -> Any: ...

    def plan(self, num_steps: int, begun: bool = False) -> Plan: ...
