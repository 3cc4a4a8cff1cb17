"""optax in full: transformations that ask for the loss, and those whose parameters for evaluation are not the trained ones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.train.alike import as_kernel, kernel_digest
from bayesprune.train.kernels.lookahead import Lookahead
from bayesprune.train.kernels.optimizer import Optax

DATA, _ = programs.line()
A, B = np.array([3.0, 1.0]), np.array([1.0, -2.0])  # of the loss 1/2 sum a (w - b)²


def loss(params: dict[str, Any]) -> Any:
    return 0.5 * jnp.sum(A.astype(np.float32) * (params["w"] - B.astype(np.float32)) ** 2)


def walk(optimizer: Any, num_steps: int) -> tuple[dict[str, Any], Any, Any]:
    """The kernel of an optimizer, and where it stands after so many steps from zero."""
    kernel, params = as_kernel(optimizer), {"w": jnp.zeros(2)}
    state = kernel.init(params)
    for _ in range(num_steps):
        value, gradient = jax.value_and_grad(loss)(params)
        params, state = kernel.step(jax.random.key(0), gradient, params, state, value=value, value_fn=loss)
    return params, state, kernel


def test_steps_of_polyak_are_those_of_its_formula() -> None:
    """Oracle: w - min(rate, f / |g|²) g by NumPy, the optimum's loss being 0."""
    w = np.zeros(2)
    for _ in range(3):
        gradient = A * (w - B)
        w = w - min(0.5, 0.5 * np.sum(A * (w - B) ** 2) / np.sum(gradient**2)) * gradient
    np.testing.assert_allclose(walk(optax.polyak_sgd(max_learning_rate=0.5), 3)[0]["w"], w, rtol=1e-4)


def test_lookahead_is_that_of_two_loops() -> None:
    """Oracle: the two nested loops of the paper, by NumPy: three fast steps, then half of the way."""
    slow = np.zeros(2)
    for _ in range(2):
        fast = slow
        for _ in range(3):
            fast = fast - 0.1 * A * (fast - B)
        slow = slow + 0.5 * (fast - slow)
    ahead = optax.lookahead(optax.sgd(0.1), sync_period=3, slow_step_size=0.5)
    params, state, kernel = walk(ahead, 6)
    assert isinstance(kernel, Lookahead)
    np.testing.assert_allclose(params["w"], slow, rtol=1e-5)
    params, state, _ = walk(ahead, 7)  # one fast step further
    np.testing.assert_allclose(kernel.evaluated(params, state)["w"], slow, rtol=1e-5)
    np.testing.assert_allclose(params["w"], slow - 0.1 * A * (slow - B), rtol=1e-5)


def test_what_takes_other_arguments_is_given_those_that_it_takes() -> None:
    """Sharpness-aware steps, by NumPy: up the gradient, and from where it began down the gradient found there."""
    w = np.zeros(2)
    for _ in range(2):
        w = w - 0.1 * A * (w + 0.05 * A * (w - B) - B)
    found, _, _ = walk(optax.contrib.sam(optax.sgd(0.1), optax.sgd(0.05), sync_period=2), 4)
    np.testing.assert_allclose(found["w"], w, rtol=1e-5)


def test_schedule_free_evaluates_the_average() -> None:
    """Oracle: the paper's three sequences by NumPy: z of the descent, x its mean, y between the two, where slopes are taken."""
    z = x = np.zeros(2)
    for step in range(1, 6):
        y = 0.9 * x + 0.1 * z
        z = z - 0.1 * A * (y - B)
        x = x + (z - x) / step
    params, state, kernel = walk(optax.contrib.schedule_free(optax.sgd(0.1), 0.1, b1=0.9), 5)
    np.testing.assert_allclose(kernel.evaluated(params, state)["w"], x, rtol=1e-4)
    assert np.abs(np.asarray(params["w"]) - x).max() > 1e-3


def test_what_does_not_look_at_the_loss_is_what_it_was() -> None:
    """By the digest that checkpoints keep: one of a step without a loss, and one with."""
    shapes = {"w": jax.ShapeDtypeStruct((2,), jnp.float32)}

    class Bare(Optax):
        asks_value = False

    bare = Bare(optax.adam(1e-3))
    assert kernel_digest(Optax(optax.adam(1e-3)), shapes) == kernel_digest(bare, shapes)
    assert kernel_digest(Optax(optax.lbfgs()), shapes) != kernel_digest(Optax(optax.polyak_sgd()), shapes)


@pytest.mark.slow
def test_a_fit_returns_the_parameters_for_evaluation_and_goes_on_from_the_trained(rng_key) -> None:
    optimizer = optax.contrib.schedule_free(optax.sgd(0.01), 0.01)
    settings = {"optimizer": optimizer, "kl_weight": 1.0, "course": bp.courses.Plain(), "progress": False}
    program = programs.linear_program()
    first = bp.fit_svi(rng_key, program, DATA, num_steps=5, **settings)
    _, (trained, state) = first.state.optim_state
    y, z = np.asarray(trained["w_auto_loc"]), np.asarray(state.z["w_auto_loc"])
    np.testing.assert_allclose(first.params["w_auto_loc"], (y - 0.1 * z) / 0.9, rtol=1e-4)
    on = bp.fit_svi(rng_key, program, DATA, num_steps=5, init=first, **settings)
    whole = bp.fit_svi(rng_key, program, DATA, num_steps=10, **settings)
    assert programs.same_bits(on.params, whole.params)


@pytest.mark.slow
def test_a_plateau_and_a_pair_of_parameters_go_through_a_fit(rng_key) -> None:
    plateau = optax.chain(optax.sgd(0.0), optax.contrib.reduce_on_plateau(factor=0.5, patience=1, cooldown=0))
    ahead = optax.lookahead(optax.adam(0.01), 4, 0.5)
    fits = {}
    for name, optimizer in {"plateau": plateau, "ahead": ahead}.items():
        fits[name] = bp.fit_svi(rng_key, programs.linear_program(), DATA, num_steps=6, optimizer=optimizer, progress=False)
    _, (_, (_, state)) = fits["plateau"].state.optim_state
    assert float(state.scale) < 1.0
    _, (fast, slow) = fits["ahead"].state.optim_state
    np.testing.assert_array_equal(fits["ahead"].params["w_auto_loc"], slow.slow["w_auto_loc"])
    assert not np.array_equal(fast["w_auto_loc"], slow.slow["w_auto_loc"])


@pytest.mark.slow
def test_quasi_newton_finds_the_maximum_and_is_refused_where_the_loss_is_drawn(rng_key) -> None:
    """Oracle: ridge regression's normal equations."""

    def linear(posterior: str) -> bp.BNN:
        return bp.BNN(
            bp.nets.MLP((), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(programs.NOISE), input_shape=(3,),
            posterior=posterior,
        )  # fmt: skip

    settings = {"optimizer": optax.lbfgs(), "kl_weight": 1.0, "num_steps": 15, "progress": False}
    fit = bp.fit_svi(rng_key, linear("map"), DATA, **settings)
    nodes = linear("map").posterior(fit.params)
    x = np.column_stack([np.asarray(DATA.x, np.float64), np.ones(len(DATA.x))])
    exact = np.linalg.solve(x.T @ x / programs.NOISE**2 + np.eye(4), x.T @ np.asarray(DATA.y, np.float64) / programs.NOISE**2)
    found = np.concatenate([np.ravel(nodes[f"Dense_0.{name}"].loc) for name in ("kernel", "bias")])
    np.testing.assert_allclose(found, exact, rtol=1e-3)
    with pytest.raises(ValueError, match=r"L-BFGS.*weights that are drawn.*posterior='map'"):
        bp.fit_svi(rng_key, linear("mean_field"), DATA, **settings)
    with pytest.raises(ValueError, match=r"L-BFGS.*minibatches, 10 of 50 rows"):
        bp.fit_svi(rng_key, linear("map"), DATA, batch_size=10, **settings)
