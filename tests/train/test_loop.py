"""What a sparsifier is shown on the way: the posterior, and the loss's gradient in every weight, the dead included."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.core import masks
from bayesprune.core.schedules import Constant
from bayesprune.core.types import Info, SparseState
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.train.kernels.optimizer import Optax
from bayesprune.train.loop import compile_loop
from bayesprune.train.sites import Example
from bayesprune.train.start import set_up_guide, start_mask
from bayesprune.train.state import Recipe

AUTO = {"w_auto_loc": jnp.zeros(3), "w_auto_scale": jnp.ones(3)}


@dataclass(frozen=True)
class Watch:
    """Prunes nothing, and reports the gradient in weight ``index`` in the place of the evidence."""

    index: int

    def init(self, rng_key, posterior) -> SparseState:
        return SparseState(masks.full_like(posterior), (), jnp.zeros((), jnp.int32))

    def step(self, rng_key, evidence, state) -> tuple[SparseState, Info]:
        zero = jnp.zeros((), jnp.int32)
        seen = evidence.gradient["w"][self.index]
        return state, Info(masks.density(state.mask), {"w": jnp.ones(())}, zero, zero, zero, seen, jnp.ones(()))


@dataclass(frozen=True)
class Keys(Watch):
    """Remembers the keys that it was given."""

    def init(self, rng_key, posterior) -> SparseState:
        return super().init(rng_key, posterior)._replace(memory=(jax.random.key_data(rng_key),))

    def step(self, rng_key, evidence, state) -> tuple[SparseState, Info]:
        return state._replace(memory=(jax.random.key_data(rng_key),)), super().step(rng_key, evidence, state)[1]


@pytest.mark.slow
def test_a_sparsifier_has_keys_of_its_own(rng_key) -> None:
    data, _ = programs.line()
    program = programs.linear_program()
    set_up_guide(rng_key, program, data)
    state = start_mask(rng_key, Keys(0), program.read(AUTO), None)
    others = jax.random.key_data(jax.random.split(rng_key, 3))  # of parameters, of steps, of batches
    assert not any(np.array_equal(state.memory[0], other) for other in others)

    recipe = Recipe(program, MeanFieldELBO(), Optax(optax.sgd(0.0)), Keys(0), Constant(1.0), 50, (), None)
    loop = compile_loop(recipe, Example.of(data))
    carry = loop.init(rng_key, data)
    state, _ = loop.prune(carry, data, state, program.describe({}, data), jnp.asarray(100))
    noise = jax.random.split(jax.random.fold_in(carry.rng_key, carry.step), 3)  # of the training step that follows
    below = [jax.random.key_data(jax.random.split(key)) for key in noise]
    assert not any(np.array_equal(state.memory[0], other) for pair in below for other in pair)


@pytest.mark.slow
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
