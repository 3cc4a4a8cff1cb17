"""Bad input is told by name, with the remedy, before anything is trained."""

import numpy as np
import pytest

import bayesprune as bp
from bayesprune.infer import door
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
    "row shape": (lambda: bp.Dataset(GOOD.x[:, :3], GOOD.y), ValueError, r"rows of shape \(3,\).*input_shape=\(4,\)"),
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
    "eval data": ({"eval_data": bp.Dataset(GOOD.x, GOOD.y + 7)}, ValueError, r"labels from 7 to 9"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_settings(case, rng_key) -> None:
    settings, kind, message = BAD_SETTINGS[case]
    with pytest.raises(kind, match=message):
        bp.fit_svi(rng_key, programs.small_bnn(), GOOD, **({"num_steps": 1} | settings))


def test_a_sparsifier_that_would_never_act_is_told(rng_key, recwarn) -> None:
    told = r"never acts: every=6 \(one epoch, if not given\) in num_steps=3"
    with pytest.warns(UserWarning, match=told):
        bp.fit_svi(rng_key, programs.small_bnn(), GOOD, num_steps=3, batch_size=10, sparsifier=bp.methods.BMR())
    recwarn.clear()
    for every, num_steps in ((2, 3), (0, 3), (1, 1)):  # it acts; there is none; one step is a trial
        door.check_acts(every, num_steps)
    assert not recwarn.list


def test_a_seed_is_no_key() -> None:
    with pytest.raises(TypeError, match=r"jax\.random\.key\(0\)"):
        bp.fit_svi(0, programs.small_bnn(), GOOD, num_steps=1)


def test_a_program_needs_model_and_guide(rng_key) -> None:
    with pytest.raises(TypeError, match=r"bp\.BNN or a bp\.Program"):
        bp.fit_svi(rng_key, lambda x, y: None, GOOD, num_steps=1)


def test_a_checkpoint_folder_that_cannot_be_written(tmp_path, rng_key) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="cannot write checkpoints"):
        bp.fit_svi(rng_key, programs.small_bnn(), GOOD, num_steps=1, checkpoint=str(tmp_path / "file" / "folder"))
