"""The kernel: how parameters move from one step to the next; and what samplers have in common, their steps' sizes above all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
from jax.typing import ArrayLike

from bayesprune.core.checks import check_integer, check_not_negative, check_number, check_positive
from bayesprune.core.schedules import Constant, CyclicalCosine
from bayesprune.core.types import Params, PyTree
from bayesprune.model.program import Trainable

# kind -> name of a parameter -> array of the parameter's shape, for each kind of array that a state has: "[0].mu", say.
Moments = Mapping[str, Mapping[str, jax.Array]]


@runtime_checkable
class Kernel(Protocol):
    """A frozen dataclass of knobs with pure functions; `fit_svi` takes one as ``optimizer=``, and an optax transformation too.

    ``init(params)``: the state before the first step. ``step(rng_key, gradient, params, state)``: the next parameters and
    state; each step has a key of its own. Parameters are unconstrained: a scale is the softplus of what the kernel sees.

    ``moments(state)``: the state's arrays that belong to parameters, in trees of the parameters' names and shapes, one for each
    kind; ``with_moments(state, moments)``: the state with those in their place. By them exchanged weights start afresh. A
    state without such arrays has none: ``{}``.

    ``asks_value``: whether ``step`` also takes ``value``, the loss of which ``gradient`` is, and ``value_fn``, that loss as a
    function of the parameters, of the same rows and draws; without one or False: it does not. ``evaluated(params, state)``,
    where there is one: the parameters to evaluate and return, in place of those that are trained.

    ``for_fit(program, num_rows, num_steps)``, where there is one: the kernel of one fit, which knows its prior and its length;
    it refuses programs that it is not for. ``begin(params)``: the parameters of a new fit, started as the kernel wants them.
    ``whole_bound``: whether the divergence must have weight 1 throughout.

    ``per_row``: whether ``gradient`` is that of the loss divided by the number of rows, as learning rates expect it; without
    one or False: of the whole loss in nats, -ELBO or -log joint density, which is what samplers need.
    """

    def __hash__(self) -> int: ...

    def init(self, params: Params) -> PyTree: ...

    def step(self, rng_key: jax.Array, gradient: Params, params: Params, state: PyTree) -> tuple[Params, PyTree]: ...

    def moments(self, state: PyTree) -> Moments: ...

    def with_moments(self, state: PyTree, moments: Moments) -> PyTree: ...


def asks_value(kernel: Kernel) -> bool:
    """Whether a kernel's step takes the loss beside its gradient."""
    return bool(getattr(kernel, "asks_value", False))


def for_fit(kernel: object, program: Trainable, num_rows: int, num_steps: int) -> Any:
    """The kernel, or what else is given for one, as it is for one fit."""
    bound = getattr(kernel, "for_fit", None)
    return kernel if bound is None else bound(program, num_rows, num_steps)


def begun(kernel: Kernel, params: Params) -> Params:
    """The parameters before the first step of a new fit."""
    begin = getattr(kernel, "begin", None)
    return params if begin is None else begin(params)


def evaluated(kernel: Kernel, params: Params, state: PyTree) -> Params:
    """The parameters to evaluate and return, those of most kernels the ones that are trained."""
    chosen = getattr(kernel, "evaluated", None)
    return params if chosen is None else chosen(params, state)


StepSize = float | Callable[[Any], Any]
RATE = 0.1  # learning rate of a sampler whose step size is not given: what a step moves by the mean gradient of a row


@dataclass(frozen=True, kw_only=True)
class Paced:
    """What samplers have in common. Their ``step_size`` is a field of their own: its unit differs.

    ``temperature``: T. ``num_cycles``: 0 keeps the step size, otherwise it falls by a cosine, anew in each cycle.
    ``num_steps``: of the whole run, of which cycles are parts; ``num_rows``: of the data; 0: not known yet.

    Raises `ValueError` for a step size that is not positive, and numbers below zero; `TypeError` for a step size that is
    neither one number nor a function, and for several temperatures.
    """

    temperature: float = 1.0
    num_cycles: int = 0
    num_steps: int = 0
    num_rows: int = 0

    has_default: ClassVar[bool] = False  # whether a step size of None is `default_step`

    def __post_init__(self) -> None:
        self.check_pace()
        check_number(self.temperature, "temperature")
        check_not_negative(self.temperature, "temperature")

    def check_pace(self) -> None:
        """Refuse a step size and numbers of cycles and steps that are none."""
        step_size: Any = self.step_size  # type: ignore[attr-defined]
        if not callable(step_size) and not (step_size is None and self.has_default):
            check_number(step_size, "step_size")
            check_positive(step_size, "step_size")
        for name in ("num_cycles", "num_steps", "num_rows"):
            check_integer(getattr(self, name), name, minimum=0)

    def default_step(self) -> float:
        """The step size where none is given: a learning rate of .1 over the rows, whose gradients U sums."""
        if not self.num_rows:
            raise ValueError(
                "num_rows of the kernel is not known, and its default step size depends on it: bp.fit_sgmcmc says it; "
                "elsewhere give num_rows=, or step_size=."
            )
        return RATE / self.num_rows

    def moments(self, state: PyTree) -> Moments:
        """None, as of a state that only counts."""
        return {}

    def with_moments(self, state: PyTree, moments: Moments) -> Any:
        """The state as it is."""
        return state

    def pace(self, step: ArrayLike) -> Any:
        """The step size of a step: a function's own; a number, constant without cycles, else as `CyclicalCosine` has it."""
        given: StepSize | None = self.step_size  # type: ignore[attr-defined]
        step_size = self.default_step() if given is None else given
        if callable(step_size):
            return step_size(step)
        if not self.num_cycles:
            return Constant(step_size)(step)
        if not self.num_steps:
            raise ValueError(
                "num_steps of the kernel is not known, and its cycles depend on it: bp.fit_sgmcmc says it; elsewhere give "
                "num_steps=, or num_cycles=0 for a constant step size."
            )
        return CyclicalCosine(step_size, max(self.num_steps // self.num_cycles, 1))(step)
