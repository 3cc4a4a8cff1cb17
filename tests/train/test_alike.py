"""Settings that compute the same share what is compiled, however often they are written down anew."""

import jax
import jax.numpy as jnp
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.train.alike import kernel_key, trace_key
from bayesprune.train.kernels.optimizer import Optax
from bayesprune.train.objective import make_elbo
from bayesprune.train.state import Recipe

WEIGHTS = {"w": jax.ShapeDtypeStruct((3,), jnp.float32)}
DATA = programs.classes(rows=44)


def cell(hidden: int = 5) -> bp.FitResult:
    """What stands in a notebook's cell: every object is made anew."""
    bnn = bp.BNN(
        bp.nets.MLP(hidden=(hidden,), num_outputs=3), prior=bp.priors.Gaussian(0.7), input_shape=(4,),
        likelihood=bp.likelihoods.Categorical(), prunable=lambda path, shape: len(shape) == 2,
    )  # fmt: skip
    fit = bp.fit_svi(
        jax.random.key(0), bnn, DATA, num_steps=5, batch_size=11, optimizer=optax.adabelief(5e-3, eps=1e-9),
        sparsifier=bp.methods.BMR(alpha0=1.5), every=2, kl_weight=lambda step: 0.5, augment=lambda rng_key, x: 1.1 * x,
        estimator=bp.MeanFieldELBO(num_particles=2), eval_data=DATA, eval_every=4, eval_samples=2, progress=False,
    )  # fmt: skip
    bp.predict(jax.random.key(1), bnn, fit.params, DATA.x, mask=fit.mask, num_samples=2)
    bp.predict_draws(jax.random.key(1), bnn, fit.params, DATA.x, num_samples=2)
    return fit


def compiled(caplog, run) -> list[str]:
    caplog.clear()
    with jax.log_compiles(), caplog.at_level("WARNING"):
        run()
    return [record.getMessage() for record in caplog.records if "Finished XLA compilation" in record.getMessage()]


@pytest.mark.slow
def test_a_cell_run_twice_compiles_nothing(caplog) -> None:
    assert any("jit(run)" in told for told in compiled(caplog, cell)), "nothing is counted here"
    assert compiled(caplog, cell) == []


@pytest.mark.slow
def test_a_hand_written_program_fitted_twice_compiles_nothing(caplog) -> None:
    (data, _), program = programs.line(rows=23), programs.linear_program()
    fit = lambda: bp.fit_svi(  # noqa: E731
        jax.random.key(0), program, data, num_steps=3, optimizer=optax.sgd(1e-3), sparsifier=bp.methods.BMR(), every=2
    )
    assert any("jit(run)" in told for told in compiled(caplog, fit)), "nothing is counted here"
    assert compiled(caplog, fit) == []


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("estimator", [bp.MeanFieldELBO, bp.LocalELBO])
def test_estimators_of_equal_attributes_are_one(estimator) -> None:
    assert make_elbo(estimator(num_particles=3), 1) is make_elbo(estimator(num_particles=3), 1)
    assert make_elbo(estimator(num_particles=3), 1) is not make_elbo(estimator(num_particles=4), 1)


def test_kernels_are_known_by_what_they_compute() -> None:
    one, same, other = (kernel_key(Optax(optax.adam(rate)), WEIGHTS) for rate in (0.01, 0.01, 0.02))
    assert one == same != other
    assert kernel_key(Optax(optax.adam(0.01)), {"v": WEIGHTS["w"]}) != one, "of other parameters"


STEP = jax.ShapeDtypeStruct((), jnp.int32)


def test_a_function_is_known_by_what_it_computes_now() -> None:
    """A name that it reads elsewhere may be bound anew."""
    numbers = {"scale": 0.125}
    weight = lambda step: numbers["scale"] * step  # noqa: E731
    assert trace_key(weight, STEP) == trace_key(lambda step: 0.125 * step, STEP)
    numbers["scale"] = 0.375
    assert trace_key(weight, STEP) == trace_key(lambda step: 0.375 * step, STEP) != trace_key(lambda step: 0.125 * step, STEP)


def test_a_callback_to_python_equals_itself_alone() -> None:
    one, other = (lambda step: jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), jnp.float32), step) for _ in range(2))
    assert trace_key(one, STEP) == trace_key(one, STEP) != trace_key(other, STEP)


def test_recipes_made_by_hand_compare_their_functions_as_objects() -> None:
    elbo = bp.MeanFieldELBO()
    recipes = [
        Recipe(None, elbo, Optax(optimizer), None, weight, 3, (), None)
        for optimizer in (optax.sgd(0.1), optax.sgd(0.2))
        for weight in (bp.schedules.Constant(1.0), bp.schedules.Constant(0.5))
    ]
    assert len(set(recipes)) == 4
