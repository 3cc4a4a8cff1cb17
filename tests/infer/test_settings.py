"""Bad input is told by name, with the remedy, before anything is trained."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam

import bayesprune as bp
from bayesprune.infer.settings import check_acts, check_stop
from bayesprune.train.stopping import NeverStop
from bayesprune.train.training import Periods
from tests.infer import programs

GOOD = programs.classes()


def with_nan() -> bp.Dataset:
    x = GOOD.x.copy()
    x[3, 1] = np.nan
    return bp.Dataset(x, GOOD.y)


BAD_DATA = {
    "nan": (with_nan, ValueError, r"data\.x holds 1 value\(s\) that are NaN or infinite: drop or impute"),
    "label too large": (lambda: bp.Dataset(GOOD.x, GOOD.y + 1), ValueError, r"labels from 1 to 3.*network has 3 outputs"),
    "negative label": (lambda: bp.Dataset(GOOD.x, GOOD.y - 1), ValueError, r"labels from -1 to 1"),
    "float labels": (lambda: bp.Dataset(GOOD.x, GOOD.y * 1.0), TypeError, r"integer class labels.*use Normal"),
    "row shape": (lambda: bp.Dataset(GOOD.x[:, :3], GOOD.y), ValueError, r"data\.x must have shape \(rows, 4\), got \(60, 3\)"),
    "row counts": (lambda: bp.Dataset(GOOD.x[:9], GOOD.y), ValueError, r"got \(9, 4\) and \(60,\)"),
    "empty": (lambda: bp.Dataset(GOOD.x[:0], GOOD.y[:0]), ValueError, r"data is empty"),
    "strings": (lambda: bp.Dataset(GOOD.x.astype(str), GOOD.y), TypeError, r"data\.x must hold numbers"),
    "complex": (lambda: bp.Dataset(GOOD.x + 1j, GOOD.y), TypeError, r"data\.x must hold real numbers, got dtype complex"),
    "no data set": (lambda: GOOD.x, TypeError, r"fields x and y.*bp\.Dataset\(x, y\)"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(case, rng_key) -> None:
    make, kind, message = BAD_DATA[case]
    with pytest.raises(kind, match=message):
        bp.fit_svi(rng_key, programs.small_bnn(), make(), num_steps=1)


BAD_SETTINGS = {
    "batch larger than data": ({"batch_size": 61}, ValueError, r"batch_size=61 is larger than the data set of 60 rows"),
    "batch of none": ({"batch_size": 0}, ValueError, "batch_size must be a positive integer"),
    "no steps": ({"num_steps": 0}, ValueError, "num_steps must be an integer of at least 1"),
    "estimator": ({"estimator": "locl"}, ValueError, "unknown estimator 'locl'. Did you mean 'local'"),
    "every": ({"sparsifier": bp.methods.BMR(), "every": 0}, ValueError, "every must be an integer"),
    "mask site": ({"mask": {"Dense_9.kernel": np.ones(3, bool)}}, ValueError, "unknown site in mask 'Dense_9.kernel'"),
    "mask shape": ({"mask": {"Dense_0.bias": np.ones(3, bool)}}, ValueError, r"mask\['Dense_0.bias'\] has shape \(3,\)"),
    "init_params": ({"init_params": {"w": np.ones(3)}}, ValueError, "unknown parameter of init_params 'w'"),
    "stop without data": ({"early_stop": bp.EarlyStop("nll")}, ValueError, "early_stop watches the evaluation on eval_data"),
    "optimizer, a number": ({"optimizer": 1e-3}, TypeError, r"got 0\.001: write optax\.adam\(0\.001\)"),
    "optimizer, a name": ({"optimizer": "adam"}, TypeError, r"got 'adam': write optax\.adam\(1e-3\)"),
    "optimizer, NumPyro's": ({"optimizer": Adam(1e-3)}, TypeError, r"NumPyro's Adam: write optax\.adam"),
    "optimizer, a function": ({"optimizer": optax.adam}, TypeError, r"the function adam: call it, adam\(1e-3\)"),
    "optimizer, a class": ({"optimizer": Adam}, TypeError, r"the class Adam: call it"),
    "optimizer, IVON of a loop": (
        {"optimizer": bp.ivon(num_rows=60, weight_decay=0.1)},
        ValueError,
        r"in bp\.fit_svi give optimizer=bp\.kernels\.IVON\(\)",
    ),
    "optimizer, IVON within": (
        {"optimizer": optax.chain(optax.clip(1.0), bp.ivon(num_rows=60, weight_decay=0.1))},
        ValueError,
        r"optimizer=bp\.kernels\.IVON\(\)",
    ),
    "sparsifier, a class": ({"sparsifier": bp.methods.BMR}, TypeError, r"the class BMR: call it, as in bp\.methods\.BMR\(\)"),
    "sparsifier, a name": ({"sparsifier": "bmr"}, TypeError, r"sparsifier must be .* got 'bmr'.*bp\.methods\.BMR\(\)"),
    "kl_weight": ({"kl_weight": -1.0}, TypeError, r"kl_weight must be .* got -1\.0.*LinearWarmup"),
    "early_stop": ({"early_stop": 5}, TypeError, r"early_stop .* got 5: write bp\.EarlyStop\('nll', patience=5\)"),
    "early_stop, a class": ({"early_stop": bp.EarlyStop}, TypeError, r"early_stop .* got the class EarlyStop"),
    "callbacks": ({"callbacks": [print, 3]}, TypeError, r"callbacks must be functions .* got 3"),
    "callbacks, a number": ({"callbacks": 5}, TypeError, r"callbacks must be functions .* got 5: write lambda moment"),
    "callback_every": ({"callback_every": 0}, ValueError, "callback_every must be an integer of at least 1, got 0"),
    "callbacks, None": ({"callbacks": None}, TypeError, r"callbacks .* got None.* leave callbacks out"),
    "callbacks, a class": ({"callbacks": bp.Moment}, TypeError, r"callbacks .* got the class Moment \(call it\)"),
    "estimator, a class": ({"estimator": bp.LocalELBO}, TypeError, r"estimator must be .* got the class LocalELBO \(call"),
    "num_particles beside an ELBO": (
        {"estimator": Trace_ELBO(num_particles=2), "num_particles": 8},
        ValueError,
        r"num_particles=8 is of estimators by name.*has its own, 2: write Trace_ELBO\(num_particles=8\)",
    ),
    "augment, a class": (
        {"augment": bp.data.CropFlip},
        TypeError,
        r"augment .* got the class CropFlip.*bp\.data\.CropFlip\(\)",
    ),
    "kl_weight, a class": ({"kl_weight": bp.schedules.LinearWarmup}, TypeError, r"kl_weight must be a function of the step"),
    "mask, a fit": ({"mask": bp.FitResult({}, None, None, {}, {})}, TypeError, r"got FitResult: give its \.mask; sites are"),
    "checkpoint": ({"checkpoint": True}, TypeError, r"checkpoint must be the path of a folder, got True: .*checkpoint_every"),
    "mesh": ({"mesh": 2}, TypeError, r"mesh must be a jax\.sharding\.Mesh, got 2: .*jax\.make_mesh"),
    "progress": ({"progress": "bar"}, TypeError, "progress must be True or False, got 'bar'"),
    "remat": ({"remat": None}, TypeError, "remat must be True or False, got None"),
    "evaluator, a class": ({"evaluator": bp.EarlyStop}, TypeError, r"evaluator must be a function, got the class EarlyStop"),
    "eval_samples": (
        {"eval_data": GOOD, "eval_samples": 0},
        ValueError,
        "eval_samples must be an integer of at least 1, got 0",
    ),
    "eval data, a class": ({"eval_data": bp.Dataset}, TypeError, r"eval_data must have fields x and y, got the class Dataset"),
    "init_params, an array": ({"init_params": np.ones(3)}, TypeError, r"init_params must be parameters by name.* got ndarray"),
    "eval data": ({"eval_data": bp.Dataset(GOOD.x, GOOD.y + 7)}, ValueError, r"labels from 7 to 9"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_settings(case, rng_key) -> None:
    settings, kind, message = BAD_SETTINGS[case]
    with pytest.raises(kind, match=message):
        bp.fit_svi(rng_key, programs.small_bnn(), GOOD, **({"num_steps": 1} | settings))


BAD_OF_SAMPLERS = {
    "callbacks": ({"callbacks": 5}, "callbacks must be functions"),
    "kernel, a class": ({"kernel": bp.kernels.SGHMC}, r"kernel must be a sampler .* got the class SGHMC \(call it\)"),
    "sparsifier, a class": ({"sparsifier": bp.methods.Magnitude}, "the class Magnitude: call it"),
    "augment": ({"augment": None}, "augment must be a function, got None"),
}


@pytest.mark.parametrize("case", BAD_OF_SAMPLERS)
def test_bad_settings_of_a_sampler(case, rng_key) -> None:
    settings, message = BAD_OF_SAMPLERS[case]
    with pytest.raises(TypeError, match=message):
        bp.fit_sgmcmc(rng_key, SAMPLED, GOOD, **({"num_steps": 2, "num_samples": 1} | settings))


SAMPLED = programs.small_bnn(prior=bp.priors.Gaussian())
POSTERIOR = {"w_auto_loc": np.zeros(4, np.float32), "w_auto_scale": np.ones(4, np.float32)}
BAD_OF_PRUNING = {
    "a fit": ((bp.FitResult(POSTERIOR, None, None, {}, {}),), {}, r"got a whole FitResult: pass its \.params"),
    "what is pruned": ((bp.Pruned(POSTERIOR, {}, None),), {}, r"got a whole Pruned: pass its \.params"),
    "program, a class": ((POSTERIOR,), {"program": bp.BNN}, "program must be an object, got the class BNN: call it"),
    "program, a net": ((POSTERIOR,), {"program": bp.nets.MLP((8,), 3)}, r"program must be .* got MLP: .*bp\.BNN\(net"),
    "prunable": ((POSTERIOR,), {"prunable": True}, "prunable must be a function, got True"),
    "mask, a fit": ((POSTERIOR,), {"mask": bp.Pruned({}, {}, None)}, r"got Pruned: give its \.mask"),
    "mask, an array": ((POSTERIOR,), {"mask": np.ones(4, bool)}, r"mask must map sites .* got ndarray: write \{site: mask\}"),
}


@pytest.mark.parametrize("case", BAD_OF_PRUNING)
def test_what_is_not_to_be_pruned(case) -> None:
    given, settings, message = BAD_OF_PRUNING[case]
    with pytest.raises(TypeError, match=message):
        bp.bmr_prune(*given, **({} if "program" in settings else {"prior_scale": 1.0}) | settings)


def test_numbers_and_methods_of_pruning() -> None:
    for scale in ("1", bp.priors.Gaussian(), 0.0):
        with pytest.raises(ValueError, match="must be positive and finite, got"):
            bp.bmr_prune(POSTERIOR, prior_scale=scale)
    for method in (bp.methods.SNR, "snr"):
        with pytest.raises(TypeError, match="sparsifier must be an object"):
            bp.prune_once(POSTERIOR, method)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"net": bp.nets.MLP}, r"net must be a Flax .* got the class MLP \(call it\)"),
        ({"bayesian": True}, "bayesian must be a function, got True"),
        ({"prunable": dict}, r"prunable must be a function, got the class dict"),
    ],
)
def test_what_is_no_network(settings, message) -> None:
    chosen = {"net": bp.nets.MLP((8,), 3), "prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical()} | settings
    with pytest.raises(TypeError, match=message):
        bp.BNN(chosen.pop("net"), input_shape=4, **chosen)


@pytest.mark.slow
def test_a_sparsifier_that_would_never_act_is_told(rng_key, recwarn) -> None:
    told = r"never acts: every=6 \(one epoch, if not given\) in num_steps=3"
    with pytest.warns(UserWarning, match=told):
        bp.fit_svi(
            rng_key,
            programs.small_bnn(),
            GOOD,
            num_steps=3,
            batch_size=10,
            sparsifier=bp.methods.BMR(),
            course=bp.courses.Plain(),
        )
    recwarn.clear()
    for every, num_steps in ((2, 3), (0, 3), (1, 1)):  # it acts; there is none; one step is a trial
        check_acts(bp.methods.BMR(), periods(every, num_steps))
    assert not recwarn.list


def periods(every: int, num_steps: int, acts: tuple[int, int] | None = None) -> Periods:
    return Periods(num_steps, every, 0, 0, acts=acts)


def test_a_course_whose_acts_fall_between_two_periods_is_told(recwarn) -> None:
    with pytest.warns(UserWarning, match=r"never acts: every=5 .* no multiple from step 11 to 14.* smaller every="):
        check_acts(bp.methods.BMR(), periods(5, 100, (11, 14)))
    recwarn.clear()
    check_acts(bp.methods.BMR(), periods(5, 100, (11, 15)))
    assert not recwarn.list


def test_a_sparsifier_that_warms_up_for_the_whole_fit_is_told(recwarn) -> None:
    """The number of its first rounds that do nothing, beside the rounds that there are: before steps 2, 4, 6 and 8 of 9."""
    check_acts(bp.methods.SGHMCSPL(warm_up=3), periods(2, 9))
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"never acts: every=2 .* calls it 4x in num_steps=9.* warm_up=4 .* less than 4"):
        check_acts(bp.methods.SGHMCSPL(warm_up=4), periods(2, 9))


def test_an_early_stop_without_an_evaluation_is_told(recwarn) -> None:
    periods = Periods(num_steps=4, every=0, eval_every=8, checkpoint_every=0)
    with pytest.warns(UserWarning, match=r"early_stop never looks.*eval_every=8 .*num_steps=4.*smaller eval_every="):
        check_stop(bp.EarlyStop("nll"), periods)
    recwarn.clear()
    check_stop(NeverStop(), periods)
    check_stop(bp.EarlyStop("nll"), periods._replace(eval_every=4))
    assert not recwarn.list


def test_a_seed_is_no_key() -> None:
    with pytest.raises(TypeError, match=r"jax\.random\.key\(0\)"):
        bp.fit_svi(0, programs.small_bnn(), GOOD, num_steps=1)


def test_a_program_needs_model_and_guide(rng_key) -> None:
    with pytest.raises(TypeError, match=r"bp\.BNN or a bp\.Program"):
        bp.fit_svi(rng_key, lambda x, y: None, GOOD, num_steps=1)


def test_a_checkpoint_folder_that_cannot_be_written(tmp_path, rng_key) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="cannot write"):
        bp.fit_svi(rng_key, programs.small_bnn(), GOOD, num_steps=1, checkpoint=str(tmp_path / "file" / "folder"))


@pytest.mark.parametrize("kind", [bp.BNN, bp.Program])
def test_a_class_is_no_program(kind, rng_key) -> None:
    with pytest.raises(TypeError, match=f"program must be .* got the class {kind.__name__}: call it"):
        bp.fit_svi(rng_key, kind, GOOD, num_steps=1)


@pytest.mark.slow
def test_what_is_plain_is_taken(rng_key) -> None:
    """One number for a constant weight, one callback without a list, a fit for its parameters."""
    seen: list[int] = []
    bnn = programs.small_bnn()
    first = bp.fit_svi(rng_key, bnn, GOOD, num_steps=2, kl_weight=0.5, callbacks=lambda moment: seen.append(moment.step))
    again = bp.fit_svi(rng_key, bnn, GOOD, num_steps=2, kl_weight=bp.schedules.Constant(0.5))
    array = bp.fit_svi(rng_key, bnn, GOOD, num_steps=2, kl_weight=jnp.float32(0.5))
    assert seen == [2] and programs.same_bits(first.params, again.params) and programs.same_bits(first.params, array.params)
    one, other = (bp.fit_svi(rng_key, bnn, GOOD, num_steps=1, kl_weight=0.5, init_params=p) for p in (first, first.params))
    assert programs.same_bits(one.params, other.params)


def test_none_prunes_nothing_and_stops_at_nothing(rng_key) -> None:
    """As leaving the argument out: what a loop over methods, the first of them none, writes."""
    bnn = programs.small_bnn()
    left_out = bp.fit_svi(rng_key, bnn, GOOD, num_steps=3)
    none = bp.fit_svi(rng_key, bnn, GOOD, num_steps=3, sparsifier=None, early_stop=None)
    assert not none.mask
    np.testing.assert_array_equal(none.losses, left_out.losses)


@pytest.mark.slow
def test_none_prunes_no_chain(rng_key) -> None:
    bnn = programs.small_bnn()
    few = {"num_steps": 4, "num_samples": 1, "sample_every": 2}
    chains, others = (bp.fit_sgmcmc(rng_key, bnn, GOOD, **few, **given) for given in ({"sparsifier": None}, {}))
    assert all((np.asarray(chains.params[name]) == np.asarray(value)).all() for name, value in others.params.items())
