"""The kernel: how parameters move from one step to the next."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import jax

Params = dict[str, Any]
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

    ``per_row``: whether ``gradient`` is that of the loss divided by the number of rows, as learning rates expect it; without
    one or False: of the whole loss in nats, -ELBO or -log joint density, which is what samplers need.
    """

    def __hash__(self) -> int: ...

    def init(self, params: Params) -> Any: ...

    def step(self, rng_key: jax.Array, gradient: Params, params: Params, state: Any) -> tuple[Params, Any]: ...

    def moments(self, state: Any) -> Moments: ...

    def with_moments(self, state: Any, moments: Moments) -> Any: ...
