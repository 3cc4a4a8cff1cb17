"""Stochastic gradient Langevin dynamics."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from bayesprune.model.transforms.noise import normal_like
from bayesprune.train.kernel import Paced, Params, StepSize

REFERENCE = "welling2011bayesian"


class Count(NamedTuple):
    """How many steps there were."""

    step: jax.Array


@dataclass(frozen=True)
class SGLD(Paced):
    """Langevin dynamics with gradients of minibatches; (7.8).

      w <- w - eps grad U(w) + sqrt(2 eps T) e,  e ~ N(0, I),  U = -log p(y, w)

    Args:
        step_size: eps, a number, or a function of the step. U counts every row of the data, so that eps is a learning rate
            divided by the number of rows; None: .1 divided by it.
        temperature: T, of p(w | y)^(1/T).
        num_cycles: 0 keeps ``step_size``; otherwise it falls by a cosine, anew in each cycle: cyclical SGLD.
        num_steps, num_rows: of the whole run, of which cycles are parts, and of the data; `fit_sgmcmc` says both.

    Where U is quadratic of curvature h, the variance is T/h 1/(1 - eps h/2): a step of finite size samples too widely.

    Raises:
        ValueError: a step size that is not positive; a temperature or a number of cycles below zero.

    Example:
        >>> SGLD(step_size=1e-5).num_cycles
        0

    Source: Welling & Teh (2011); Zhang et al. (2020) for the cycles.
    """

    step_size: StepSize | None = None

    per_row: ClassVar[bool] = False
    has_default: ClassVar[bool] = True

    def init(self, params: Params) -> Count:
        """Nothing but a count."""
        return Count(jnp.zeros((), jnp.int32))

    def step(self, rng_key: jax.Array, gradient: Params, params: Params, state: Count) -> tuple[Params, Count]:
        """One step."""
        eps = self.pace(state.step)
        kick = jnp.sqrt(2.0 * eps * self.temperature)
        noise = normal_like(rng_key, params)
        moved = jax.tree.map(lambda w, g, e: w - eps * g + kick * e, params, gradient, noise)
        return moved, Count(state.step + 1)
