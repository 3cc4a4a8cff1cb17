"""`fit_svi`: the right optimum, the same bits, one compilation, pruning on the way."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpyro.infer.svi import SVIState

import bayesprune as bp
from bayesprune.core.schedules import LinearWarmup
from tests.infer import programs


@pytest.mark.slow
def test_linear_regression_reaches_the_exact_mean_field_optimum(rng_key) -> None:
    data, _ = programs.line()
    loc, scale, loss = programs.best_mean_field(data, prior_scale=2.0)
    schedule = optax.exponential_decay(0.05, 1_000, 0.3)
    fit = bp.fit_svi(
        rng_key, programs.linear_program(2.0), data, num_steps=6_000, optimizer=optax.adam(schedule), num_particles=4
    )
    # The optimiser's noise at the end is about a tenth of the posterior's scale; fixed key, so this cannot flicker.
    np.testing.assert_allclose(fit.params["w_auto_loc"], loc, atol=0.2 * scale.max())
    np.testing.assert_allclose(fit.params["w_auto_scale"], scale, rtol=0.1)
    np.testing.assert_allclose(np.mean(fit.losses[-2_000:]), loss, rtol=0.02)


@pytest.mark.slow
def test_minibatches_estimate_the_loss_of_all_rows(rng_key) -> None:
    data, _ = programs.line(rows=64)
    start = {"w_auto_loc": jnp.array([1.0, 0.2, -0.5]), "w_auto_scale": jnp.full(3, 0.1)}
    still = {"optimizer": optax.sgd(0.0), "init_params": start, "num_steps": 2_000}
    whole = bp.fit_svi(rng_key, programs.linear_program(), data, **still)
    parts = bp.fit_svi(rng_key, programs.linear_program(), data, batch_size=8, **still)
    # Equal means; five standard errors leave a chance of 6e-7 that a correct estimator fails.
    error = np.hypot(np.std(whole.losses), np.std(parts.losses)) / np.sqrt(2_000)
    assert abs(np.mean(whole.losses) - np.mean(parts.losses)) < 5 * error
    assert np.std(parts.losses) > np.std(whole.losses)


@pytest.mark.slow
def test_the_losses_are_the_bound_whatever_weighs_the_divergence(rng_key) -> None:
    """Of (4.1) with beta_t = 1; what beta_t does to the steps is tested beside `train.objective`."""
    data, _ = programs.line()
    start = {"w_auto_loc": jnp.array([1.0, 0.2, -0.5]), "w_auto_scale": jnp.full(3, 0.1)}
    still = {"optimizer": optax.sgd(0.0), "init_params": start, "num_steps": 1}
    program = programs.linear_program()
    losses = {
        w: bp.fit_svi(rng_key, program, data, kl_weight=bp.schedules.Constant(w), **still).losses[0] for w in (0.0, 0.5, 1.0)
    }
    kl = np.sum(np.log(1 / 0.1) + (0.1**2 + np.array([1.0, 0.2, -0.5]) ** 2) / 2 - 0.5)
    assert losses[0.0] == pytest.approx(losses[1.0], rel=1e-5) and losses[0.5] == pytest.approx(losses[1.0], rel=1e-5)
    assert losses[1.0] > kl


@pytest.mark.slow
def test_result_has_the_fields_of_numpyro_and_plain_arrays(rng_key) -> None:
    data = programs.classes()
    fit = bp.fit_svi(rng_key, programs.small_bnn(), data, num_steps=7, batch_size=16, eval_data=data, eval_every=3)
    assert isinstance(fit.state, SVIState)
    assert fit.losses.shape == (7,) and np.all(np.isfinite(fit.losses))
    assert fit.mask == {}
    assert all(type(values) is np.ndarray for values in fit.history.values())
    assert fit.history["eval/step"].tolist() == [3, 6]


@pytest.mark.slow
def test_pruning_on_the_way_compiles_the_step_once(rng_key) -> None:
    net, marks = programs.count_traces(bp.nets.MLP(hidden=(8, 6), num_outputs=3))
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    # A weight of the divergence that is laid out over the steps is another one for other steps.
    settings = {"batch_size": 16, "sparsifier": bp.methods.Magnitude(bp.schedules.Geometric(0.1)), "every": 4, "kl_weight": 1.0}
    optimizer = optax.adam(1e-2)
    data = programs.classes()
    with jax.log_compiles(False):
        built = len(marks)
        first = bp.fit_svi(rng_key, bnn, data, num_steps=9, optimizer=optimizer, **settings)
        once = len(marks) - built
        longer = bp.fit_svi(rng_key, bnn, data, num_steps=21, optimizer=optimizer, **settings)
    assert len(first.history["prune/step"]) == 2 and len(longer.history["prune/step"]) == 5
    assert len(marks) - built == once, "a second fit of the same kind traced the network again"


@pytest.mark.slow
def test_the_training_step_is_compiled_once_for_a_whole_run(rng_key, caplog) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    with jax.log_compiles(), caplog.at_level("WARNING"):
        bp.fit_svi(rng_key, bnn, data, num_steps=1_300, batch_size=17, sparsifier=bp.methods.BMR(), every=150)
    compiled = [
        record.getMessage() for record in caplog.records if "Finished XLA compilation of jit(run)" in record.getMessage()
    ]
    assert len(compiled) == 1


@pytest.mark.slow
def test_density_falls_and_dead_weights_are_exactly_zero(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    schedule = bp.schedules.Geometric(0.2, rate=0.5)
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=40, batch_size=16, sparsifier=bp.methods.SNR(schedule), every=10)
    assert np.all(np.diff(fit.history["prune/density"]) < 0)
    for site, alive in fit.mask.items():
        for part in ("loc", "scale"):
            assert np.all(np.asarray(fit.params[f"{site}_auto_{part}"])[~np.asarray(alive)] == 0)
    assert "Dense_2.kernel" not in fit.mask, "the last layer is not pruned by default"


@pytest.mark.slow
def test_a_given_mask_is_kept(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    mask = {"Dense_0.kernel": np.arange(32).reshape(4, 8) % 2 == 0}
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=5, mask=mask)
    assert np.array_equal(fit.mask["Dense_0.kernel"], mask["Dense_0.kernel"])
    assert np.all(np.asarray(fit.params["Dense_0.kernel_auto_loc"])[~mask["Dense_0.kernel"]] == 0)


@pytest.mark.slow
def test_fitting_goes_on_from_pruned_params(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    first = bp.fit_svi(rng_key, bnn, data, num_steps=20)
    pruned = bp.bmr_prune(first.params)
    again = bp.fit_svi(rng_key, bnn, data, num_steps=20, init_params=pruned.params, mask=pruned.mask)
    assert np.all(np.isfinite(again.losses))
    assert all(np.array_equal(again.mask[s], pruned.mask[s]) for s in pruned.mask)


@pytest.mark.slow
def test_equal_keys_give_equal_bits_and_other_keys_do_not(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    run = lambda key: bp.fit_svi(key, bnn, data, num_steps=12, batch_size=16).params  # noqa: E731
    assert programs.same_bits(run(rng_key), run(rng_key))
    assert not programs.same_bits(run(rng_key), run(jax.random.key(1)))
    assert programs.same_bits(run(rng_key), run(jax.random.key_data(rng_key))), "legacy keys are taken"


@pytest.mark.slow
def test_early_stop_ends_the_fit(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    still = optax.sgd(0.0)
    stop = bp.EarlyStop("accuracy", patience=2)
    fit = bp.fit_svi(
        rng_key, bnn, data, num_steps=100, optimizer=still, eval_data=data, eval_every=5, eval_samples=200, early_stop=stop,
        kl_weight=LinearWarmup(1, 5),
    )  # fmt: skip
    assert len(fit.losses) < 100 and len(fit.losses) % 5 == 0


@pytest.mark.slow
def test_callbacks_see_the_run(rng_key) -> None:
    seen = []
    bp.fit_svi(
        rng_key, programs.small_bnn(), programs.classes(), num_steps=6, sparsifier=bp.methods.BMR(), every=3,
        callbacks=[lambda moment: seen.append((moment.step, moment.density, moment.params()))],
    )  # fmt: skip
    assert [step for step, _, _ in seen] == [3, 6]
    assert all("Dense_0.kernel_auto_loc" in params for _, _, params in seen)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_the_fit_and_keeps_the_last_finite_parameters(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    optimizer = optax.chain(optax.sgd(1.0), optax.scale_by_schedule(lambda step: jnp.where(step < 3, 1e-6, jnp.inf)))
    with pytest.raises(FloatingPointError, match=r"step 5.*first seen at 'Dense_0.*clip_by_global_norm") as caught:
        bp.fit_svi(rng_key, bnn, data, num_steps=50, optimizer=optimizer)
    assert caught.value.step == 5
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(caught.value.params))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["weight", "local"])
def test_both_estimators_learn(estimator, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes(rows=300)
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=1_500, batch_size=50, optimizer=optax.adam(1e-2), estimator=estimator)
    probs = bp.predict(rng_key, bnn, fit.params, data.x, num_samples=20)
    assert bp.metrics.summary(probs, data.y)["accuracy"] > 0.85


@pytest.mark.slow
def test_map_fits_and_is_pruned_by_magnitude(rng_key) -> None:
    bnn, data = programs.small_bnn(posterior="map"), programs.classes(rows=300)
    fit = bp.fit_svi(
        rng_key, bnn, data, num_steps=1_500, batch_size=50, optimizer=optax.adam(1e-2),
        sparsifier=bp.methods.Magnitude(density=0.7), every=1_000,
    )  # fmt: skip
    assert float(fit.history["prune/density"][-1]) == pytest.approx(0.7, abs=0.01)
    probs = bp.predict(rng_key, bnn, fit.params, data.x, mask=fit.mask, num_samples=1)
    assert bp.metrics.summary(probs, data.y)["accuracy"] > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("sites", ["all", "loc"])
def test_parameters_to_start_from_stay_the_callers(rng_key, sites) -> None:
    """The loop takes its own arrays' memory over, never that of what it was given."""
    data, _ = programs.line(rows=64)
    program = programs.linear_program(2.0)
    first = bp.fit_svi(rng_key, program, data, num_steps=2)
    given = {n: v for n, v in first.params.items() if sites == "all" or n.endswith("loc")}
    before = {name: np.array(value) for name, value in given.items()}
    bp.fit_svi(rng_key, program, data, num_steps=3, init_params=given)
    for name, value in given.items():
        np.testing.assert_array_equal(value, before[name])
