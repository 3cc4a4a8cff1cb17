"""Numbers that are none, too large or hidden: refused at the door or at the step where they arise, never passed on."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesprune as bp
from tests.infer import programs

DATA = programs.classes()
HIDDEN = np.ma.array(DATA.x, mask=DATA.x > 1.0)


@pytest.fixture(scope="module")
def fit() -> bp.FitResult:
    return bp.fit_svi(jax.random.key(0), BNN, DATA, num_steps=2)


BNN = programs.small_bnn()


def spoilt(fit, name: str = "Dense_0.kernel_auto_loc") -> dict:
    return fit.params | {name: fit.params[name].at[0, 0].set(jnp.nan)}


def line_bnn() -> bp.BNN:
    return bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(), input_shape=(3,))


class Rows:
    """Rows by number, as a data set of PyTorch's has them; the first hides a value."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, number: int):
        return np.ma.array(DATA.x[number], mask=number == 0), DATA.y[number]


MASKED = {
    "data.x": lambda fit, key: bp.fit_svi(key, BNN, bp.Dataset(HIDDEN, DATA.y), num_steps=1),
    "data.y": lambda fit, key: bp.fit_svi(key, BNN, bp.Dataset(DATA.x, np.ma.array(DATA.y, mask=DATA.y == 1)), num_steps=1),
    "batches": lambda fit, key: bp.fit_svi(key, BNN, [(HIDDEN, DATA.y)], num_rows=60, num_steps=1),
    "rows": lambda fit, key: bp.fit_svi(key, BNN, Rows(), num_steps=1),
    "a tree": lambda fit, key: bp.fit_svi(key, BNN, bp.Dataset({"a": HIDDEN}, DATA.y), num_steps=1),
    "bytes": lambda fit, key: bp.predict(key, BNN, fit.params, np.ma.array(DATA.x.astype(np.uint8), mask=DATA.x > 1)),
    "predict": lambda fit, key: bp.predict(key, BNN, fit.params, HIDDEN),
    "evaluate": lambda fit, key: bp.evaluate(key, BNN, fit.params, bp.Dataset(DATA.x, np.ma.array(DATA.y, mask=DATA.y == 1))),
    "diagnose": lambda fit, key: bp.diagnose(key, BNN, fit, bp.Dataset(HIDDEN, DATA.y)),
    "held out": lambda fit, key: bp.diagnose(key, BNN, fit, DATA, held_out=bp.Dataset(HIDDEN, DATA.y)),
    "small": lambda fit, key: bp.compact(BNN, fit.params).predict(HIDDEN),
    "metrics": lambda fit, key: bp.metrics.accuracy(np.eye(3)[DATA.y], np.ma.array(DATA.y, mask=DATA.y == 1)),
    "scaling": lambda fit, key: bp.data.fit_scaling(HIDDEN),
    "regressor": lambda fit, key: bp.BayesianSparseRegressor(num_steps=1).fit(HIDDEN, DATA.x[:, 0]),
    "classifier": lambda fit, key: bp.BayesianSparseClassifier(num_steps=1).fit(DATA.x, np.ma.array(DATA.y, mask=DATA.y == 1)),
}


@pytest.mark.parametrize("case", MASKED)
def test_a_masked_entry_is_no_number(case, fit, rng_key) -> None:
    with pytest.raises(ValueError, match=r"is a masked array with \d+ masked value"):
        MASKED[case](fit, rng_key)


@pytest.mark.slow
def test_a_masked_array_that_hides_nothing_is_an_array(fit, rng_key) -> None:
    whole = np.ma.array(DATA.x, mask=False)
    np.testing.assert_array_equal(
        bp.predict(rng_key, BNN, fit.params, whole, num_samples=2), bp.predict(rng_key, BNN, fit.params, DATA.x, num_samples=2)
    )


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (-1.0, TypeError, "not negative, got -1"),
        (bp.schedules.Constant(-1.0), ValueError, r"not negative at every step, got -1\.0 at step 0"),
        (lambda step: 1.0 - step, ValueError, r"got -\d"),
        (lambda step: jnp.where(step > 5, jnp.nan, 1.0), ValueError, "got nan at step 6"),
        (lambda step: jnp.ones(2) * step, ValueError, r"one number for each step, got shape \(2,\)"),
        (lambda step: "a", TypeError, "one number for each step"),
    ],
)
def test_the_divergence_never_has_a_negative_weight(weight, error, message, rng_key) -> None:
    with pytest.raises(error, match=f"kl_weight.*{message}"):
        bp.fit_svi(rng_key, BNN, DATA, num_steps=10, kl_weight=weight)
    many = bp.Dataset(DATA.x[None], DATA.y[None])
    with pytest.raises(error, match=f"kl_weight.*{message}"):
        bp.fit_replicates(rng_key, BNN, many, num_steps=10, kl_weight=weight)


DOORS = {
    "predict": lambda key, fit, bad: bp.predict(key, BNN, bad, DATA.x),
    "predict_draws": lambda key, fit, bad: bp.predict_draws(key, BNN, bad, DATA.x),
    "sample_targets": lambda key, fit, bad: bp.sample_targets(key, BNN, bad, DATA.x),
    "evaluate": lambda key, fit, bad: bp.evaluate(key, BNN, bad, DATA),
    "compact": lambda key, fit, bad: bp.compact(BNN, bad),
    "compact mean": lambda key, fit, bad: bp.compact(BNN, bad, keep="mean"),
    "net_params": lambda key, fit, bad: BNN.net_params(bad),
    "save": lambda key, fit, bad: fit._replace(params=bad).save("never-written"),
    "save_fit": lambda key, fit, bad: bp.report.save_fit("never-written", BNN, fit._replace(params=bad)),
    "save_posterior": lambda key, fit, bad: bp.report.save_posterior("never-written", BNN.read(bad), {}, {}),
    "go on": lambda key, fit, bad: bp.fit_svi(key, BNN, DATA, num_steps=1, init_params=bad),
    "go on from a fit": lambda key, fit, bad: bp.fit_svi(key, BNN, DATA, num_steps=1, init=fit._replace(params=bad)),
    "sample from a fit": lambda key, fit, bad: bp.fit_sgmcmc(key, BNN, DATA, num_steps=99, init=fit._replace(params=bad)),
    "laplace": lambda key, fit, bad: bp.laplace(key, BNN, bad, DATA),
    "laplace around a fit": lambda key, fit, bad: bp.laplace(key, BNN, fit._replace(params=bad), DATA),
    "today's prior": lambda key, fit, bad: bp.priors.Posterior(fit._replace(params=bad)),
    "recalibrate": lambda key, fit, bad: bp.recalibrate(key, BNN, bad, DATA),
}


@pytest.mark.parametrize("door", DOORS)
def test_parameters_of_a_diverged_fit_go_no_further(door, fit, rng_key, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"NaN or infinite at 'Dense_0\.kernel(_auto)?_loc'"):
        DOORS[door](rng_key, fit, spoilt(fit))
    assert not list(tmp_path.iterdir())


def test_cuts_refuse_them_too(fit) -> None:
    with pytest.raises(ValueError, match=r"site 'Dense_0\.kernel' is no Gaussian posterior"):
        bp.bmr_prune(spoilt(fit))


def overflowing(finite_steps: int) -> optax.GradientTransformation:
    """Updates that leave float32 after so many steps, while the loss before them is finite."""
    schedule = lambda count: jnp.where(count < finite_steps, 1e-6, jnp.inf)  # noqa: E731
    return optax.chain(optax.scale_by_sign(), optax.scale_by_schedule(schedule))


@pytest.mark.slow
@pytest.mark.parametrize("watch", [{}, {"callbacks": lambda moment: None, "callback_every": 1}])
def test_a_last_step_that_breaks_the_parameters_ends_the_fit(watch, rng_key) -> None:
    with pytest.raises(
        bp.DivergedError, match=r"the parameters stopped being finite at step 3, first seen at 'Dense"
    ) as caught:
        bp.fit_svi(rng_key, BNN, DATA, num_steps=3, optimizer=overflowing(2), course=bp.courses.Plain(), **watch)
    assert caught.value.step == 3 and caught.value.site.endswith(("_loc", "_scale"))
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(caught.value.params))


@pytest.mark.slow
def test_with_a_callback_at_every_step_the_error_has_finite_parameters_and_no_checkpoint_broken_ones(rng_key, tmp_path) -> None:
    how = {"optimizer": overflowing(2), "course": bp.courses.Plain(), "checkpoint": tmp_path, "checkpoint_every": 1}
    with pytest.raises(bp.DivergedError) as caught:
        bp.fit_svi(rng_key, BNN, DATA, num_steps=9, **how)
    assert caught.value.step == 3
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(caught.value.params))
    how["callbacks"] = seen = []
    with contextlib.suppress(bp.DivergedError):
        bp.fit_svi(rng_key, BNN, DATA, num_steps=9, **how | {"callbacks": lambda moment: seen.append(moment.step)})
    assert not seen, "it goes on from step 2, and step 3 is never shown"


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["schedule-free", "lookahead"])
def test_the_error_s_parameters_are_those_that_a_fit_of_the_steps_before_returns(name, rng_key) -> None:
    """Of an optimiser that averages they are the averages, not those that are trained."""
    rule = optax.chain(optax.sgd(0.05), overflowing(3))
    optimizer = optax.contrib.schedule_free(rule, 0.05) if name == "schedule-free" else optax.lookahead(rule, 2, 0.5)
    how = {"optimizer": optimizer, "course": bp.courses.Plain(), "kl_weight": 1.0, "progress": False}
    before = bp.fit_svi(rng_key, BNN, DATA, num_steps=3, **how)
    with pytest.raises(bp.DivergedError) as caught:
        bp.fit_svi(rng_key, BNN, DATA, num_steps=9, callbacks=lambda moment: None, callback_every=1, **how)
    assert caught.value.step == 4
    assert programs.same_bits(caught.value.params, before.params)
    _, (trained, _) = before.state.optim_state
    name = next(name for name in trained if name.endswith("_loc"))
    assert not np.array_equal(trained[name], before.params[name])


@pytest.mark.slow
def test_an_optimiser_that_overflows_ends_the_fit(rng_key) -> None:
    """Its moments infinite, Adam never moves the weight again, and the losses look well."""
    huge = optax.chain(optax.scale(1e25), optax.scale_by_adam(), optax.scale(-1e-3))
    with pytest.raises(bp.DivergedError, match="the optimizer's state stopped being finite at step"):
        bp.fit_svi(rng_key, BNN, DATA, num_steps=2, optimizer=huge)


@pytest.mark.slow
def test_an_optimiser_may_begin_at_infinity(rng_key) -> None:
    def init(params):
        return jnp.full((), jnp.inf)

    best = optax.GradientTransformation(init, lambda updates, state, params=None: (updates, state))
    fit = bp.fit_svi(rng_key, BNN, DATA, num_steps=2, optimizer=optax.chain(best, optax.sgd(1e-3)))
    assert len(fit.losses) == 2


@pytest.mark.slow
def test_replicates_look_at_their_last_step_too(rng_key) -> None:
    many = bp.Dataset(np.stack([DATA.x] * 2), np.stack([DATA.y] * 2))
    with pytest.raises(bp.DivergedError, match=r"the parameters of .*\[0, 1\] stopped being finite at step 3") as caught:
        bp.fit_replicates(rng_key, BNN, many, num_steps=3, optimizer=overflowing(2))
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(caught.value.params))


@pytest.mark.parametrize("row", [0, 1501])
def test_a_number_whose_square_overflows_is_refused(row, rng_key) -> None:
    data = programs.classes(rows=3_000)
    data.x[row, 1] = 1e30
    with pytest.raises(ValueError, match=r"data\.x holds a value of size 1e\+30, whose square is beyond float32"):
        bp.fit_svi(rng_key, BNN, data, num_steps=1)
    y = np.where(np.arange(len(data.y)) == row, -1e30, 1.0)
    with pytest.raises(ValueError, match=r"data\.y holds a value of size 1e\+30"):
        bp.fit_svi(rng_key, line_bnn(), bp.Dataset(data.x[:, :3] * (np.abs(data.x[:, :3]) < 9), y), num_steps=1)


@pytest.mark.slow
def test_a_lone_large_number_is_seen_in_any_row(rng_key) -> None:
    data = programs.classes(rows=3_000)
    data.x[1501, 1] = 1e15
    with pytest.warns(UserWarning, match=r"data\.x has root mean square"):
        bp.fit_svi(rng_key, BNN, data, num_steps=1)


def test_scalings_refuse_what_float64_cannot_square() -> None:
    x, y = DATA.x, DATA.x[:, 0].astype(np.float64)
    with pytest.raises(ValueError, match=r"squares of that are beyond float64"):
        bp.BayesianSparseRegressor(num_steps=1).fit(x, y * 1e200)
    with pytest.raises(ValueError, match=r"squares of that are beyond float64"):
        bp.data.fit_scaling(y * 1e200)
    assert np.isfinite(bp.data.fit_scaling(y * 1e140).scale)
