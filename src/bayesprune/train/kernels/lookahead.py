"""`optax.lookahead` as a kernel: the fast parameters are trained, the slow ones are what is evaluated."""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from optax import LookaheadParams, LookaheadState

from bayesprune.core.trees import of_kind
from bayesprune.core.types import PyTree
from bayesprune.train.kernel import Params
from bayesprune.train.kernels.optimizer import Optax

REFERENCE = "zhang2019lookahead"


class Slow(NamedTuple):
    """``inner``: the transformation's own state; ``slow``: the slow parameters."""

    inner: Any
    slow: Params


@dataclass(frozen=True)
class Lookahead(Optax):
    """A transformation of pairs of fast and slow parameters, whose slow ones are kept in its state.

    `fit_svi` wraps what it is given by itself, as in ``optimizer=optax.lookahead(optax.adam(1e-3), 5, 0.5)``.

    >>> kernel = Lookahead(optax.lookahead(optax.sgd(1.0), sync_period=2, slow_step_size=0.5))
    >>> params, state = {"w": jnp.zeros(())}, kernel.init({"w": jnp.zeros(())})
    >>> for _ in range(2):
    ...     params, state = kernel.step(None, {"w": jnp.ones(())}, params, state)
    >>> float(params["w"]), float(kernel.evaluated(params, state)["w"])
    (-1.0, -1.0)

    Source: Zhang, Lucas, Hinton & Ba (2019), algorithm 1.
    """

    def init(self, params: Params) -> Slow:
        return Slow(self.optimizer.init(LookaheadParams.init_synced(params)), jax.tree.map(jnp.copy, params))

    def step(
        self, rng_key: jax.Array, gradient: Params, params: Params, state: Slow, *loss: Any, **named: Any
    ) -> tuple[Params, Slow]:
        pair = LookaheadParams(params, state.slow)
        after, inner = super().step(rng_key, gradient, pair, state.inner, *loss, **named)
        return after.fast, Slow(inner, after.slow)

    def evaluated(self, params: Params, state: PyTree) -> Params:
        """The slow parameters; those that are trained where there is no state with them."""
        return state.slow if isinstance(state, Slow) else params


@functools.lru_cache(maxsize=64)
def takes_pairs(optimizer: optax.GradientTransformation) -> bool:
    """Whether a transformation has a `optax.lookahead` in it.

    >>> takes_pairs(optax.chain(optax.clip(1.0), optax.lookahead(optax.sgd(1.0), 2, 0.5))), takes_pairs(optax.sgd(1.0))
    (True, False)
    """
    try:
        pair = LookaheadParams.init_synced({"w": jax.ShapeDtypeStruct((), jnp.float32)})
        state = jax.eval_shape(optimizer.init, pair)
    except Exception:  # whatever a transformation raises that knows its parameters by name: it is asked for these alone
        return False
    return bool(of_kind(state, LookaheadState))
