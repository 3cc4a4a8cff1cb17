"""A network as pure functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

Params = dict[str, Any]
State = dict[str, Any]


@dataclass(frozen=True)
class Net:
    """A network as two pure functions.

    ``init(rng_key) -> (params, state)``; ``apply(params, state, x, train, rng_key) -> (outputs, new state)``. ``state`` is a
    dict, empty for most nets; batch statistics live in it. ``rng_key`` may be None where the net draws nothing.
    ``own(params, state)``: both in the form that the module's own library calls it with.
    """

    init: Callable[[jax.Array], tuple[Params, State]]
    apply: Callable[..., tuple[Any, State]]
    own: Callable[[Params, State], Any]
