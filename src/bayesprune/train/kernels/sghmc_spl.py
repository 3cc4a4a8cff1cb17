"""SGHMC-SPL: variational natural gradients written as a preconditioned SGHMC, with a decay for each weight."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from bayesprune.core.checks import check_not_negative, check_number, check_positive, check_within
from bayesprune.formulas import sghmc_spl as formula
from bayesprune.model.transforms.noise import normal_like
from bayesprune.train.kernel import Moments, Paced, Params, StepSize

REFERENCE = "ke2022optimization"


class SPLState(NamedTuple):
    """``step``: how many there were; trees like the parameters: ``rho``, ``momentum``, the last ``noise``, and ``decay``, the
    precision of each weight beyond what the model's prior has, per row."""

    step: jax.Array
    rho: Params
    momentum: Params
    noise: Params
    decay: Params


@dataclass(frozen=True)
class SGHMCSPL(Paced):
    """One sample of a mean-field posterior, moved by (7.1) to (7.3).

      rho <- rho - eta [Temp² C³ d tau + Temp C^(3/2) e g - 1/(tau n)],  tau = sigmoid(rho)    (e: the noise of the step before)
      m   <- beta_1 m - beta_2 C² (g + d w) + sqrt(2 + 2 beta_1²) C^(3/2) Temp e,  e ~ N(0, I);   w <- w + tau m

    Args:
        step_size: C² at the start of a cycle, a number, or a function of the step; `benchmarks/sghmc.md` compares some.
        temperature: Temp; None is n^(-1/2), as in the authors' simulations (CIFAR: 1/n).
        num_cycles: cycles of the cosine by which C² falls, anew in each; 0 keeps ``step_size``.
        momentum, push, rate: beta_1, beta_2 and eta.
        decay: d at the start, of every parameter; `methods.SGHMCSPL` sets it, weight by weight.
        num_rows, num_steps: n, and the steps of the whole run; `fit_sgmcmc` says both.

    g is the gradient of the loss per row with the model's prior in it, so that d is what a weight's precision has beyond
    that, divided by n. (The authors have the prior in d. (7.2) is the same; in (7.1) the prior's precision h then acts as
    Temp² C³ h tau, here through Temp C^(3/2) e g, whose expectation is sqrt(2 + 2 beta_1²) times that, 1.42 at beta_1 = .1.)
    rho, m and the first e start at 0; the authors draw m from N(0, .001²), e from N(0, 1).

    Temp does not mean one temperature: where g = h w the variance is (7.6), about Temp² C tau (1 + beta_1²)/((1 - beta_1) h),
    which at Temp = n^(-1/2) is the posterior's 1/(n h) times C tau (1 + beta_1²)/(1 - beta_1). tau climbs from 1/2 to 1: rho
    by eta/(tau n) a step, by which 1 - tau falls to .37 of itself in n/eta steps, 2,000 of 200 rows; the other terms are
    small. So at C = .1 the samples have .056 of the posterior's variance at first and .112 at last, .24 and .33 of its
    standard deviation.

    Raises:
        ValueError: a number out of its range; ``num_rows`` is not known yet.
        TypeError: an argument that is not one number.

    Example:
        >>> SGHMCSPL(step_size=0.1, num_cycles=6).momentum
        0.1

    Source: Ke & Fan (2022), and the authors' code for what their text leaves open.
    """

    step_size: StepSize = 0.3
    temperature: float | None = field(default=None, kw_only=True)  # type: ignore[assignment]
    num_cycles: int = field(default=4, kw_only=True)  # by name, as of the other samplers: the step size comes first
    momentum: float = 0.1
    push: float = 1.0
    rate: float = 0.1
    decay: float = 0.0

    per_row: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_pace()
        check_number(self.momentum, "momentum")
        check_within(self.momentum, "momentum", "[0, 1)", "at 1 nothing would ever slow down")
        for name in ("temperature", "push", "rate", "decay"):  # of arrays each column of the weights would have its own
            if (value := getattr(self, name)) is not None or name != "temperature":
                check_number(value, name)
                check_not_negative(value, name)
        check_positive(self.push, "push")

    def init(self, params: Any) -> SPLState:
        """At rest, every decay the same."""
        zeros = lambda: jax.tree.map(jnp.zeros_like, params)  # noqa: E731
        decay = jax.tree.map(lambda w: jnp.full_like(w, self.decay), params)
        return SPLState(jnp.zeros((), jnp.int32), zeros(), zeros(), zeros(), decay)

    def step(self, rng_key: jax.Array, gradient: Any, params: Any, state: SPLState) -> tuple[Any, SPLState]:
        """One step, of any tree."""
        squared_step = self.pace(state.step)
        noise, knobs = normal_like(rng_key, params), self._knobs()

        def move(weight: Any, slope: Any, decay: Any, rho: Any, momentum: Any, before: Any, draw: Any) -> Any:
            moved = formula.Moved(rho, momentum, before)
            change, after = formula.step(weight, slope, decay, moved, draw, squared_step, knobs)
            return weight + change, after.rho, after.momentum

        moved = jax.tree.map(move, params, gradient, state.decay, state.rho, state.momentum, state.noise, noise)
        new, rho, momentum = jax.tree.transpose(jax.tree.structure(params), None, moved)
        return new, SPLState(state.step + 1, rho, momentum, noise, state.decay)

    def moments(self, state: SPLState) -> Moments:
        """All that belongs to single weights."""
        return {name: getattr(state, name) for name in ("rho", "momentum", "noise", "decay")}

    def with_moments(self, state: SPLState, moments: Moments) -> SPLState:
        """The state with those in their place."""
        new: dict[str, Any] = {name: dict(arrays) for name, arrays in moments.items()}
        return state._replace(**new)

    def with_decay(self, state: SPLState, precision: Params) -> SPLState:
        """The state after a spike and slab has spoken: ``precision`` beyond the prior's, nats per squared weight, by name."""
        per_row = {name: (value / self.num_rows).astype(state.decay[name].dtype) for name, value in precision.items()}
        decay = {name: per_row.get(name, d) for name, d in state.decay.items()}
        return state._replace(decay=decay)

    def _knobs(self) -> formula.Knobs:
        if not self.num_rows:
            raise ValueError(
                "num_rows of kernels.SGHMCSPL is not known: bp.fit_sgmcmc says it; elsewhere give the rows of the data."
            )
        temperature = 1.0 / math.sqrt(self.num_rows) if self.temperature is None else self.temperature
        return formula.Knobs(temperature, self.num_rows, self.momentum, self.push, self.rate)
