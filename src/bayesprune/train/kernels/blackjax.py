"""A stochastic gradient sampler of BlackJAX as a kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from bayesprune.train.cycles import Paced, StepSize
from bayesprune.train.kernel import Moments, Params

REFERENCE = "cabezas2024blackjax"


class Wrapped(NamedTuple):
    """``step``: how many there were. ``inner``: the state of BlackJAX's kernel."""

    step: jax.Array
    inner: Any


def _position(position: Params) -> Params:
    return position


@dataclass(frozen=True)
class BlackJAX(Paced):
    """A kernel of `blackjax.sgmcmc` that asks for one gradient at a step: sgld or sgnht, as ``build_kernel`` makes it.

    Args:
        kernel: a function (rng_key, state, grad_estimator, minibatch, step_size, temperature) -> state.
        start: position -> first state; the position itself for sgld. Of sgnht: ``lambda position:
            blackjax.sgmcmc.sgnht.init(position, rng_key, xi)``.
        step_size, temperature, num_cycles, num_steps: as of `SGLD`; U counts every row.

    The gradient of our loop stands where BlackJAX would ask for one. A kernel of several gradients a step, such as sghmc with
    its inner steps, would see the same one again: take `SGHMC`.

    Raises:
        ValueError: as of `SGLD`.

    Example:
        >>> import blackjax
        >>> kernel = BlackJAX(blackjax.sgld.build_kernel(), step_size=1e-5)

    Source: Cabezas et al. (2024), BlackJAX.
    """

    kernel: Callable[..., Any]
    start: Callable[[Params], Any] = _position
    step_size: StepSize = 1e-6

    per_row: ClassVar[bool] = False

    def init(self, params: Params) -> Wrapped:
        """BlackJAX's own first state."""
        return Wrapped(jnp.zeros((), jnp.int32), self.start(params))

    def step(self, rng_key: jax.Array, gradient: Params, params: Params, state: Wrapped) -> tuple[Params, Wrapped]:
        """One step."""
        inner = state.inner._replace(position=params) if hasattr(state.inner, "position") else params
        upwards = jax.tree.map(jnp.negative, gradient)  # of the log density, which BlackJAX climbs
        eps = self.pace(state.step)
        inner = self.kernel(rng_key, inner, lambda position, minibatch: upwards, None, eps, self.temperature)
        return getattr(inner, "position", inner), Wrapped(state.step + 1, inner)

    def moments(self, state: Wrapped) -> Moments:
        """None is told apart: weights cannot start afresh in a state that only BlackJAX reads."""
        return {}

    def with_moments(self, state: Wrapped, moments: Moments) -> Wrapped:
        """The state as it is."""
        return state
