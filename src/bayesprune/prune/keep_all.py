"""The sparsifier of a fit that was given none."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from bayesprune.core.keys import Key
from bayesprune.core.send import send
from bayesprune.core.types import Evidence, Info, PyTree, SparseState


@dataclass(frozen=True)
class KeepAll:
    """The sparsifier that prunes nothing."""

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        return SparseState({}, (), send(0, np.int32))

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        one, zero = jnp.ones(()), jnp.zeros((), jnp.int32)
        return state, Info(one, {}, zero, zero, zero, jnp.zeros(()), one)
