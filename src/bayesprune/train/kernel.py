"""The kernel: how parameters move from one step to the next."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import jax

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
