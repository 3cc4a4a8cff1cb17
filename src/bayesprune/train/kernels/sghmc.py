"""Stochastic gradient Hamiltonian Monte Carlo."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from bayesprune.core.checks import check_share
from bayesprune.model.transforms.noise import normal_like
from bayesprune.train.kernel import Moments, Paced, Params, StepSize

REFERENCE = "chen2014stochastic"


class Momentum(NamedTuple):
    """``step``: how many there were. ``momentum``: v, a tree like the parameters."""

    step: jax.Array
    momentum: Params


@dataclass(frozen=True)
class SGHMC(Paced):
    """Langevin dynamics with momentum and gradients of minibatches; (7.9).

      v <- (1 - alpha) v - eps grad U(w) + sqrt(2 alpha eps T) e,  e ~ N(0, I);   w <- w + v,  U = -log p(y, w)

    Args:
        step_size: eps, a number, or a function of the step; in units of `SGLD`'s. None: .1 alpha, divided by the rows of the
            data: the momentum adds up to a learning rate of .1.
        friction: alpha, in (0, 1]; 1 is `SGLD`.
        temperature, num_cycles, num_steps, num_rows: as of `SGLD`; with cycles it is cyclical SGHMC.

    Where U is quadratic of curvature h, the variance is T/h 1/(1 - eps h/(2 (2 - alpha))). The noise of minibatches is not
    subtracted (their beta = 0). v starts at 0.

    Raises:
        ValueError: ``friction`` outside (0, 1]; the others as of `SGLD`.

    Example:
        >>> SGHMC(step_size=1e-5, num_cycles=4).friction
        0.1

    Source: Chen, Fox & Guestrin (2014), equation (15); Zhang et al. (2020) for the cycles.
    """

    step_size: StepSize | None = None
    friction: float = 0.1

    per_row: ClassVar[bool] = False
    has_default: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.friction, "friction", "it is the part of the momentum that a step takes away")

    def default_step(self) -> float:
        """As of `SGLD`, of which momentum makes 1/alpha as much."""
        return self.friction * super().default_step()

    def init(self, params: Params) -> Momentum:
        """At rest."""
        return Momentum(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def step(self, rng_key: jax.Array, gradient: Params, params: Params, state: Momentum) -> tuple[Params, Momentum]:
        """One step."""
        eps = self.pace(state.step)
        kick = jnp.sqrt(2.0 * self.friction * eps * self.temperature)
        noise = normal_like(rng_key, params)
        momentum = jax.tree.map(lambda v, g, e: (1.0 - self.friction) * v - eps * g + kick * e, state.momentum, gradient, noise)
        return jax.tree.map(jnp.add, params, momentum), Momentum(state.step + 1, momentum)

    def moments(self, state: Momentum) -> Moments:
        """The momentum."""
        return {"momentum": state.momentum}

    def with_moments(self, state: Momentum, moments: Moments) -> Momentum:
        """The state with that momentum."""
        return state._replace(momentum=dict(moments["momentum"]))
