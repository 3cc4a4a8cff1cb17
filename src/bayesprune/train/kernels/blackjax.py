"""A stochastic gradient sampler of BlackJAX as a kernel."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from bayesprune.core.checks import check_function, got
from bayesprune.core.types import PyTree
from bayesprune.train.kernel import Paced, Params, StepSize

REFERENCE = "cabezas2024blackjax"
EXAMPLE = "blackjax.sgld.build_kernel()"
CALLED = ("rng_key", "state", "grad_estimator", "minibatch", "step_size", "temperature")


class Wrapped(NamedTuple):
    """``step``: how many there were. ``inner``: BlackJAX's own state, of which no moments are known."""

    step: jax.Array
    inner: Any


def _position(position: Params) -> Params:
    return position


@dataclass(frozen=True)
class BlackJAX(Paced):
    """A kernel of `blackjax.sgmcmc` that asks for one gradient at a step: sgld or sgnht, as ``build_kernel`` makes it.

    Args:
        kernel: a function (rng_key, state, grad_estimator, minibatch, step_size, temperature) -> state; ``temperature`` goes by
            its name where the function has that.
        start: position -> first state; the position itself for sgld. Of sgnht: ``lambda position:
            blackjax.sgmcmc.sgnht.init(position, rng_key, xi)``.
        step_size, temperature, num_cycles, num_steps: as of `SGLD`; U counts every row.

    The gradient of our loop is given where BlackJAX would ask for one. A kernel of several gradients a step, such as sghmc with
    its inner steps, would see the same one again, and is refused: take `SGHMC`.

    The draws of sgnht have a biased spread, its integrator's: Euler's steps h heat a direction of precision a by h a/alpha, and
    one thermostat cools all alike. Their variance is about 1 + h (a - mean of a)/alpha - alpha h/2 times the posterior's; in a
    conjugate regression of ours they had .90 to .97 of its standard deviations. Take smaller steps, or `SGHMC`.

    Raises:
        ValueError: as of `SGLD`; in a step, a kernel that asks for a gradient elsewhere than where it is, or for two.
        TypeError: ``kernel`` is no function of that kind: a name, a module's interface such as ``blackjax.sgld``, sghmc.

    Example:
        >>> import blackjax
        >>> kernel = BlackJAX(blackjax.sgld.build_kernel(), step_size=1e-5)

    Source: Cabezas et al. (2024), BlackJAX.
    """

    kernel: Callable[..., Any]
    start: Callable[[Params], Any] = _position
    step_size: StepSize = 1e-6

    per_row: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_kernel(self.kernel)
        check_function(self.start, "start", "lambda position: blackjax.sgmcmc.sgnht.init(position, rng_key, 0.1)")

    def init(self, params: Params) -> Wrapped:
        """BlackJAX's own first state."""
        return Wrapped(jnp.zeros((), jnp.int32), self.start(params))

    def step(self, rng_key: jax.Array, gradient: Params, params: Params, state: Wrapped) -> tuple[Params, Wrapped]:
        """One step."""
        inner = state.inner._replace(position=params) if hasattr(state.inner, "position") else params
        upwards = jax.tree.map(jnp.negative, gradient)  # of the log density, which BlackJAX climbs
        eps = self.pace(state.step)
        gradient_at = _once(getattr(inner, "position", inner), upwards)
        args, named = _arguments(self.kernel, rng_key, inner, gradient_at, None, eps, self.temperature)
        inner = self.kernel(*args, **named)
        return getattr(inner, "position", inner), Wrapped(state.step + 1, inner)


def _once(here: Params, gradient: Params) -> Callable[[Any, Any], Params]:
    """The estimator that a step is handed: the gradient, once, and only at ``here``. In `jax.jit` it is asked by the trace."""
    asked: list[Any] = []

    def estimate(position: Params, minibatch: object) -> Params:
        there, own = jax.tree.leaves(position), jax.tree.leaves(here)
        moved = len(there) != len(own) or any(one is not other for one, other in zip(there, own, strict=True))
        if moved or asked:
            raise ValueError(
                f"kernel asks for a gradient {'at another position than its own' if moved else 'twice in a step'}, and a "
                "step of this loop has one, where it is: take kernels.SGHMC() in place of sghmc, or a kernel of one "
                f"gradient a step, such as {EXAMPLE}."
            )
        asked.append(position)
        return gradient

    return estimate


def _arguments(kernel: Callable[..., Any], *values: PyTree) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a step, in their order; the last by its name where the kernel has that."""
    try:
        named = "temperature" in inspect.signature(kernel).parameters
    except ValueError:  # some functions of other languages do not say
        named = False
    return (values[:-1], {CALLED[-1]: values[-1]}) if named else (values, {})


def _check_kernel(kernel: Callable[..., Any]) -> None:
    """Refuse what is no function of a step's arguments."""
    if hasattr(kernel, "build_kernel"):
        raise TypeError(f"kernel must be a function, got {got(kernel)}, which makes them: give {EXAMPLE}.")
    check_function(kernel, "kernel", EXAMPLE)
    args, named = _arguments(kernel, *CALLED)
    try:
        inspect.signature(kernel).bind(*args, **named)
    except TypeError:
        raise TypeError(
            f"kernel must be called as ({', '.join(CALLED)}), got a function of {inspect.signature(kernel)}: give {EXAMPLE}; "
            "in place of sghmc, which asks for several gradients a step, take kernels.SGHMC()."
        ) from None
    except ValueError:
        pass
