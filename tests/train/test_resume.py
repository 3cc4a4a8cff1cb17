"""A run killed at any step and taken up again gives the bits of a run left alone."""

import shutil
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.cli.errors import one_line
from bayesprune.model.families import MeanFieldFamily
from bayesprune.train.run import _check_same


class KilledError(Exception):
    """Stands for the end of the process."""


def killer(at: int):
    def callback(moment) -> None:
        if moment.step >= at:
            raise KilledError

    return callback


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("killed_at", [5, 10, 23])
def test_a_resumed_run_has_the_same_bits(killed_at, tmp_path, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    settings = {
        "num_steps": 30, "batch_size": 16, "optimizer": optax.adabelief(1e-2), "sparsifier": bp.methods.BMR(), "every": 5,
        "eval_data": data, "eval_every": 10, "eval_samples": 2, "checkpoint_every": 7,
    }  # fmt: skip
    alone = bp.fit_svi(rng_key, bnn, data, **settings)
    with pytest.raises(KilledError):
        bp.fit_svi(rng_key, bnn, data, checkpoint=str(tmp_path), callbacks=[killer(killed_at)], **settings)
    resumed = bp.fit_svi(rng_key, bnn, data, checkpoint=str(tmp_path), **settings)
    assert programs.same_bits(alone.params, resumed.params)
    assert programs.same_bits(alone.state, resumed.state)
    assert alone.losses.tobytes() == resumed.losses.tobytes()
    assert programs.same_bits(alone.mask, resumed.mask)
    assert alone.history.keys() == resumed.history.keys()
    assert all(np.array_equal(alone.history[k], resumed.history[k], equal_nan=True) for k in alone.history)


@pytest.mark.slow
def test_other_settings_do_not_resume(tmp_path, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    bp.fit_svi(rng_key, bnn, data, num_steps=4, batch_size=16, checkpoint=str(tmp_path))
    with pytest.raises(ValueError, match=r"batch_size was 16, now 8.*another folder"):
        bp.fit_svi(rng_key, bnn, data, num_steps=4, batch_size=8, checkpoint=str(tmp_path))
    with pytest.raises(ValueError, match="rng_key"):
        bp.fit_svi(jax.random.key(5), bnn, data, num_steps=4, batch_size=16, checkpoint=str(tmp_path))


@pytest.mark.slow
def test_a_function_of_another_process_is_no_other_setting(tmp_path, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()

    def fit(num_steps: int) -> bp.FitResult:
        # New functions at every call, at other addresses, as in a process that was started again.
        keep, sparsifier = lambda step: 1.0, bp.methods.Magnitude(density=lambda step: 0.5)
        made.append(keep)
        settings = {"kl_weight": keep, "sparsifier": sparsifier, "every": 2, "optimizer": optax.adam(1e-2)}
        settings["checkpoint"] = str(tmp_path)
        return bp.fit_svi(rng_key, bnn, data, num_steps=num_steps, **settings)

    made: list[object] = []  # kept, so that no address is used twice
    fit(2)
    assert len(fit(4).losses) == 4


@pytest.mark.slow
def test_a_finished_run_is_given_back_and_can_be_prolonged(tmp_path, rng_key) -> None:
    """Under a course that is not laid out over the steps, which acts once an epoch."""
    bnn, data = programs.small_bnn(), programs.classes()
    settings = {"batch_size": 16, "course": bp.courses.Plain(), "sparsifier": bp.methods.SNR(0.5)}
    first = bp.fit_svi(rng_key, bnn, data, num_steps=8, checkpoint=str(tmp_path), **settings)
    again = bp.fit_svi(rng_key, bnn, data, num_steps=8, checkpoint=str(tmp_path), **settings)
    assert programs.same_bits(first.params, again.params)
    longer = bp.fit_svi(rng_key, bnn, data, num_steps=12, checkpoint=str(tmp_path), **settings)
    alone = bp.fit_svi(rng_key, bnn, data, num_steps=12, **settings)
    assert programs.same_bits(alone.params, longer.params)


@pytest.mark.slow
def test_a_course_that_is_laid_out_over_the_steps_is_not_prolonged(tmp_path, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    first = bp.fit_svi(rng_key, bnn, data, num_steps=4, batch_size=16, checkpoint=str(tmp_path))
    with pytest.raises(
        ValueError, match=r"begun with num_steps=4, over which its course is laid out, and now is num_steps=8: go on"
    ):
        bp.fit_svi(rng_key, bnn, data, num_steps=8, batch_size=16, checkpoint=str(tmp_path))
    assert len(bp.fit_svi(rng_key, bnn, data, num_steps=4, batch_size=16, init=first).losses) == 4


BNN, DATA = programs.small_bnn(), programs.classes()
FIRST = {
    "num_steps": 4, "batch_size": 16, "optimizer": optax.adam(1e-2), "sparsifier": bp.methods.BMR(), "every": 2,
    "init_params": {"Dense_0.bias_auto_loc": np.zeros(8)}, "mask": {"Dense_0.bias": np.arange(8) > 2}, "eval_data": DATA,
    "eval_every": 2, "eval_samples": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A folder with the checkpoint of a finished fit."""
    folder = tmp_path_factory.mktemp("begun")
    bp.fit_svi(jax.random.key(0), BNN, DATA, checkpoint=str(folder), **FIRST)
    return str(folder)


def other_values() -> bp.Dataset:
    y = DATA.y.copy()
    y[7] = (y[7] + 1) % 3
    return bp.Dataset(DATA.x, y)


def net_with(activation) -> bp.nets.MLP:
    return bp.nets.MLP(hidden=(8, 6), num_outputs=3, activation=activation)


# name of what differs -> (program, data, changed settings)
CHANGES = {
    "prior": (lambda: programs.small_bnn(prior=bp.priors.Flat(0.2)), DATA, {}),
    "likelihood": (lambda: programs.small_bnn(likelihood=Tempered()), DATA, {}),
    "posterior": (lambda: programs.small_bnn(posterior=MeanFieldFamily(init_scale=0.05)), DATA, {}),
    "network": (lambda: bnn_of(net_with(jax.nn.relu)), DATA, {}),
    "layout": (lambda: programs.small_bnn(prunable=lambda path, shape: str(path) != "Dense_1.kernel"), DATA, {}),
    "data": (lambda: BNN, other_values(), {}),
    "optimizer": (lambda: BNN, DATA, {"optimizer": optax.adam(2e-2)}),
    "estimator": (lambda: BNN, DATA, {"num_particles": 2}),
    "kl_weight": (lambda: BNN, DATA, {"kl_weight": bp.schedules.Constant(0.5)}),
    "sparsifier": (lambda: BNN, DATA, {"sparsifier": bp.methods.BMR(alpha0=2.0)}),
    "every": (lambda: BNN, DATA, {"every": 3}),
    "mask": (lambda: BNN, DATA, {"mask": {"Dense_0.bias": np.arange(8) > 3}}),
    "init_params": (lambda: BNN, DATA, {"init_params": {"Dense_0.bias_auto_loc": np.ones(8)}}),
    "eval_data": (lambda: BNN, DATA, {"eval_data": other_values()}),
    "early_stop": (lambda: BNN, DATA, {"early_stop": bp.EarlyStop(patience=7)}),
    "augment": (lambda: BNN, DATA, {"augment": lambda rng_key, x: x + 0.1}),
    "remat": (lambda: BNN, DATA, {"remat": True}),
}


@dataclass(frozen=True)
class Tempered(bp.likelihoods.Categorical):
    def observe(self, outputs, y):
        return super().observe(outputs / 2.0, y)


def bnn_of(net) -> bp.BNN:
    return bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_what_decides_the_result_is_told_when_it_differs(name, begun, rng_key) -> None:
    program, data, changes = CHANGES[name]
    with pytest.raises(ValueError, match=rf"was started with other settings: (.*; )?{name} was .*, now .*another folder"):
        bp.fit_svi(rng_key, program(), data, checkpoint=begun, **(FIRST | changes))


@pytest.mark.slow
def test_a_hand_written_programs_numbers_are_told_by_its_step(tmp_path, rng_key) -> None:
    data, _ = programs.line()
    settings = {"course": bp.courses.Plain(), "checkpoint": str(tmp_path)}
    bp.fit_svi(rng_key, programs.linear_program(1.0), data, num_steps=2, **settings)
    bp.fit_svi(rng_key, programs.linear_program(1.0), data, num_steps=3, **settings)
    with pytest.raises(ValueError, match=r"settings: training step was .*, now .*or the release of bayesprune"):
        bp.fit_svi(rng_key, programs.linear_program(2.0), data, num_steps=4, **settings)


def test_code_that_differs_is_told_from_settings_that_do() -> None:
    same = {"jax": "1", "every": 3, "network": "a", "training step": "b"}
    with pytest.raises(
        ValueError, match=r"network was .*; training step was .*another folder\. No setting with a name differs"
    ):
        _check_same(same, same | {"network": "c", "training step": "d"}, "runs/a")
    with pytest.raises(ValueError, match=r"every was 3, now 4; network was .*another folder\.$"):
        _check_same(same, same | {"every": 4, "network": "c"}, "runs/a")
    _check_same(same, same | {"jax": "2", "network": "c"}, "runs/a")


@pytest.mark.slow
def test_there_is_no_way_back(begun, rng_key) -> None:
    with pytest.raises(ValueError, match=r"num_steps=3, but .* holds the fit at step 4"):
        bp.fit_svi(rng_key, BNN, DATA, checkpoint=begun, **(FIRST | {"num_steps": 3}))


@pytest.mark.slow
def test_another_version_of_jax_is_no_other_fit(begun, rng_key, monkeypatch) -> None:
    """Its traces may read otherwise; what has a name still counts."""
    monkeypatch.setattr(jax, "__version__", "0.0.0")
    monkeypatch.setattr("bayesprune.core.traced.of_jaxpr", lambda trace: "0" * 64)
    bp.fit_svi(rng_key, BNN, DATA, checkpoint=begun, **FIRST)
    with pytest.raises(ValueError, match="every was 2, now 3"):
        bp.fit_svi(rng_key, BNN, DATA, checkpoint=begun, **(FIRST | {"every": 3}))


@pytest.mark.slow
@pytest.mark.parametrize("first", [12, 14])
def test_a_prolonged_run_is_the_run_of_all_its_steps(first, tmp_path, rng_key) -> None:
    """At 12, where weights are pruned, and two steps later."""
    settings = {
        "batch_size": 16, "optimizer": optax.adam(1e-2), "sparsifier": bp.methods.SNR(0.3), "every": 6, "eval_data": DATA,
        "eval_every": 4, "eval_samples": 2, "kl_weight": 1.0,
    }  # fmt: skip
    alone = bp.fit_svi(rng_key, BNN, DATA, num_steps=24, **settings)
    bp.fit_svi(rng_key, BNN, DATA, num_steps=first, checkpoint=str(tmp_path), **settings)
    longer = bp.fit_svi(rng_key, BNN, DATA, num_steps=24, checkpoint=str(tmp_path), **settings)
    assert alone.history["prune/step"].tolist() == [6, 12, 18]
    for name in alone.history:
        np.testing.assert_array_equal(alone.history[name], longer.history[name], err_msg=name)
    assert programs.same_bits((alone.params, alone.mask, alone.state), (longer.params, longer.mask, longer.state))
    assert alone.losses.tobytes() == longer.losses.tobytes()


@pytest.mark.slow
def test_a_folder_that_goes_during_a_fit_takes_nothing_with_it(tmp_path, rng_key) -> None:
    """The error holds the fit as it stands, which can be saved elsewhere, and gone on from to the same end."""
    bnn, data = programs.small_bnn(), programs.classes()
    settings = {
        "batch_size": 16,
        "optimizer": optax.adam(1e-2),
        "kl_weight": 1.0,
        "estimator": "weight",
        "course": bp.courses.Plain(),
    }
    gone = lambda moment: shutil.rmtree(tmp_path / "run") if moment.step == 4 else None  # noqa: E731
    with pytest.raises(bp.UnsavedError, match=r"run: the folder is gone\. Remedy: .*error\.fit\.save") as lost:
        bp.fit_svi(
            rng_key, bnn, data, num_steps=8, checkpoint=str(tmp_path / "run"), checkpoint_every=4, callbacks=[gone],
            callback_every=4, **settings,
        )  # fmt: skip
    fit = lost.value.fit
    assert isinstance(fit, bp.FitResult) and len(fit.losses) == 4 and np.isfinite(fit.losses).all()
    alone = bp.fit_svi(rng_key, bnn, data, num_steps=4, **settings)
    assert programs.same_bits(alone.params, fit.params)
    fit.save(tmp_path / "fit.safetensors")
    assert len(bp.fit_svi(rng_key, bnn, data, num_steps=2, init=bp.load(tmp_path / "fit.safetensors"), **settings).losses) == 2
    assert "error.fit" not in one_line(lost.value) and "the folder is gone" in one_line(lost.value)


BATCHES = {"num_rows": 48}
CHANGED = {
    "y of another type": (lambda y: (y.astype(np.float64), {}), "data types was .*float32.*now .*float64"),
    "y as it was": (lambda y: (y.copy(), {}), ""),
    "another number of rows": (lambda y: (y, {"num_rows": 96}), "num_rows|96"),
}


@pytest.mark.slow_cases(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "change"),
    [
        ("arrays", "y of another type"),
        ("batches", "another number of rows"),
        ("batches", "y of another type"),
        ("arrays", "y as it was"),
        ("rows", "y of another type"),
        ("mapped", "y of another type"),
        ("batches", "y as it was"),
    ],
)
def test_data_of_another_type_or_number_do_not_resume(how, change, tmp_path, rng_key) -> None:
    """The same numbers in another type may have been others before they were given; how many rows there are scales the fit."""
    (x, y), (new, more) = given(), CHANGED[change][0](given()[1])
    net, likelihood = bp.nets.MLP(hidden=(3,), num_outputs=1), bp.likelihoods.Normal()
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=likelihood, input_shape=(4,))
    settings = {"batch_size": 16, "course": bp.courses.Plain(), "checkpoint": str(tmp_path / "run"), "progress": False}
    settings |= BATCHES if how == "batches" else {}
    bp.fit_svi(rng_key, bnn, as_data(how, x, y, tmp_path / "a"), num_steps=2, **settings)
    again = lambda: bp.fit_svi(rng_key, bnn, as_data(how, x, new, tmp_path / "b"), num_steps=3, **settings | more)  # noqa: E731
    if told := CHANGED[change][1]:
        with pytest.raises(ValueError, match=told):
            again()
    else:
        assert len(again().losses) == 3


def given() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(48, 4)).astype(np.float32), rng.normal(size=48).astype(np.float32)


def as_data(how: str, x: np.ndarray, y: np.ndarray, path: Any) -> Any:
    """The same rows as arrays, as batches, by number, or in a file."""
    if how == "batches":
        return [(x[n : n + 16], y[n : n + 16]) for n in (0, 16, 32)]
    if how == "rows":
        return Entries([(one, other) for one, other in zip(x, y, strict=True)])
    if how == "mapped":
        np.save(path.with_suffix(".npy"), y)
        return bp.Dataset(x, np.load(path.with_suffix(".npy"), mmap_mode="r"))
    return bp.Dataset(x, y)


@dataclass(frozen=True)
class Entries:
    """Single rows by number."""

    rows: Any

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]


def test_a_checkpoint_of_before_types_were_noted_resumes() -> None:
    _check_same(
        {"jax": jax.__version__, "seed": 1}, {"jax": jax.__version__, "seed": 1, "data types": "float32; int32"}, "runs"
    )
