"""What a sparsifier is shown on the way: the posterior, and the loss's gradient in every weight, the dead included."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesprune as bp
from bayesprune.core import masks
from bayesprune.core.types import Info, SparseState
from tests.infer import programs


@dataclass(frozen=True)
class Watch:
    """Prunes nothing, and reports the gradient in weight ``index`` in the place of the evidence."""

    index: int

    def init(self, rng_key, posterior) -> SparseState:
        ones = {site: jnp.ones(()) for site in posterior}
        return SparseState(masks.full_like(posterior), ones, (), jnp.zeros((), jnp.int32))

    def step(self, rng_key, evidence, state) -> tuple[SparseState, Info]:
        zero = jnp.zeros((), jnp.int32)
        seen = evidence.gradient["w"][self.index]
        return state, Info(masks.density(state.mask), {"w": jnp.ones(())}, zero, zero, zero, seen, jnp.ones(()))


@pytest.mark.parametrize("estimator", ["weight", "local"])
@pytest.mark.parametrize("index", [0, 1])
def test_the_gradient_reaches_dead_weights(index, estimator, rng_key) -> None:
    data, _ = programs.line()
    alive = np.array([True, False, True])
    start = {"w_auto_loc": jnp.array([1.0, 9.0, -0.5]), "w_auto_scale": jnp.full(3, 1e-6)}
    fit = bp.fit_svi(
        rng_key, programs.linear_program(), data, num_steps=2, optimizer=optax.sgd(0.0), init_params=start, mask={"w": alive},
        sparsifier=Watch(index), every=1, estimator=estimator,
    )  # fmt: skip
    w = np.array([1.0, 0.0, -0.5])
    gradient = -data.x.T @ (data.y - data.x @ w) / programs.NOISE**2 / len(data.y)
    # Without the divergence: what the data ask for.
    assert fit.history["prune/evidence_gained"][0] == pytest.approx(gradient[index], rel=1e-3)
