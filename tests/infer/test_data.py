"""A fit of data that are read as they are needed: the bits of a fit in memory, killed or not; and what is refused."""

import warnings

import grain
import jax
import numpy as np
import optax
import pytest

import bayesprune as bp
from bayesprune.train.batches import Rows, order_key
from tests.infer import programs

DATA, BNN, KEY = programs.classes(), programs.small_bnn(), jax.random.key(0)
SETTINGS = {"num_steps": 12, "batch_size": 16, "sparsifier": bp.methods.BMR(), "every": 5, "progress": False}


def mapped(folder) -> bp.Dataset:
    for name, array in (("x", DATA.x), ("y", DATA.y)):
        if not (folder / f"{name}.npy").exists():
            np.save(folder / f"{name}.npy", array)
    return bp.Dataset(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in "xy"))


class Pairs:
    def __len__(self) -> int:
        return len(DATA.y)

    def __getitem__(self, row: int):
        return DATA.x[row], DATA.y[row]


def in_the_order_of_a_fit() -> list[bp.Dataset]:
    rows = Rows(order_key(KEY), len(DATA.y), 16)
    return [bp.Dataset(DATA.x[rows(number)], DATA.y[rows(number)]) for number in range(SETTINGS["num_steps"])]


def same_fit(one, other) -> bool:
    parts = [(fit.losses, fit.params, fit.mask) for fit in (one, other)]
    return programs.same_bits(*parts)


@pytest.mark.slow
def test_a_file_in_mapped_memory_gives_the_bits_of_a_fit_in_memory(tmp_path) -> None:
    assert same_fit(bp.fit_svi(KEY, BNN, mapped(tmp_path), **SETTINGS), bp.fit_svi(KEY, BNN, DATA, **SETTINGS))


@pytest.mark.slow
def test_examples_and_batches_in_the_same_order_give_the_bits_of_a_fit_in_memory() -> None:
    whole = bp.fit_svi(KEY, BNN, DATA, **SETTINGS)
    assert same_fit(bp.fit_svi(KEY, BNN, Pairs(), **SETTINGS), whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # twelve batches are more than the sixty rows
        assert same_fit(bp.fit_svi(KEY, BNN, in_the_order_of_a_fit(), num_rows=60, **SETTINGS), whole)


SPECIAL = {
    "gradients of several batches": {
        "sparsifier": bp.methods.SSVI(density=0.3, addition="mean_gradient"),
        "estimator": "local",
    },
    "alive weights alone": {"sparsifier": bp.methods.SSVI(density=0.3), "storage": "active"},
    "augmentation": {"augment": lambda key, x: x + 0.1 * jax.random.normal(key, x.shape)},
    "all rows at once": {"batch_size": None},
}


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("case", SPECIAL)
def test_what_else_depends_on_the_batches_has_the_same_bits(case: str, tmp_path) -> None:
    settings = SETTINGS | SPECIAL[case]
    assert same_fit(bp.fit_svi(KEY, BNN, mapped(tmp_path), **settings), bp.fit_svi(KEY, BNN, DATA, **settings))


@pytest.mark.slow
def test_a_fit_that_goes_on_reads_on(tmp_path) -> None:
    settings = SETTINGS | {"num_steps": 5, "augment": lambda key, x: x + 0.1 * jax.random.normal(key, x.shape)}
    whole, read = ([bp.fit_svi(KEY, BNN, data, **settings)] for data in (DATA, mapped(tmp_path)))
    for fits, data in ((whole, DATA), (read, mapped(tmp_path))):
        fits.append(bp.fit_svi(KEY, BNN, data, init=fits[0], **settings))
    assert all(same_fit(*pair) for pair in zip(whole, read, strict=True))
    assert not np.array_equal(whole[0].losses, whole[1].losses)


@pytest.mark.slow
def test_a_hand_written_program_is_fed_as_well(tmp_path) -> None:
    data, _ = programs.line()
    np.save(tmp_path / "x.npy", data.x)
    stream = bp.Dataset(np.load(tmp_path / "x.npy", mmap_mode="r"), data.y)
    fits = [bp.fit_svi(KEY, programs.linear_program(), each, num_steps=5, batch_size=10) for each in (data, stream)]
    assert same_fit(*fits)


@pytest.mark.slow
def test_a_second_fit_of_a_stream_compiles_nothing(tmp_path) -> None:
    net, marks = programs.count_traces(bp.nets.MLP((8, 6), 3))
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    plain = bp.courses.Plain()  # one that is laid out over the steps is another one for other steps
    bp.fit_svi(KEY, bnn, mapped(tmp_path), num_steps=7, batch_size=16, course=plain)
    before = len(marks)
    bp.fit_svi(KEY, bnn, mapped(tmp_path), num_steps=9, batch_size=16, course=plain)
    assert len(marks) == before > 0


def grain_batches():
    rows = grain.MapDataset.source(np.arange(60)).seed(1).shuffle().map(lambda row: (DATA.x[row], DATA.y[row]))
    return rows.repeat(None, reseed_each_epoch=True).batch(9)


def listed():
    return [(DATA.x[first : first + 9], DATA.y[first : first + 9]) for first in range(0, 60, 9)]


RESUMED = {"grain": grain_batches, "file": None, "list": listed}


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_a_killed_fit_of_a_stream_goes_on_with_the_same_bits(name: str, tmp_path) -> None:
    def fit(**more):
        data = mapped(tmp_path) if name == "file" else RESUMED[name]()
        rows = {} if name == "file" else {"num_rows": 60}
        return bp.fit_svi(KEY, BNN, data, **SETTINGS, **rows, **more)

    class KilledError(Exception):
        pass

    def kill(moment) -> None:
        if moment.step >= 8:
            raise KilledError

    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 7}
    with pytest.raises(KilledError):
        fit(callbacks=[kill], callback_every=8, **kept)
    assert same_fit(fit(**kept), fit())


def generator():
    yield DATA.x, DATA.y


REFUSED = {
    "generator": (generator(), {"num_rows": 60}, TypeError, r"can be read only once, got generator: give a function that"),
    "no num_rows": (generator, {}, ValueError, r"num_rows= is missing, and batches from a function do not say it"),
    "list without num_rows": ([(DATA.x, DATA.y)], {}, TypeError, r"bp.Dataset\(x, y\), or say num_rows= of a list of batches"),
    "wrong num_rows": (DATA, {"num_rows": 59}, ValueError, r"num_rows=59, but data has 60 rows: leave num_rows out"),
    "num_rows of nothing": (DATA, {"num_rows": 0}, ValueError, r"num_rows must be an integer of at least 1, got 0"),
    "a number": (3, {"num_rows": 60}, TypeError, r"data must give batches \(x, y\) where num_rows= is said, got int"),
    "batch beyond the rows": ([DATA], {"num_rows": 60, "batch_size": 61}, ValueError, "batch_size=61 is larger than the data"),
    "rows of another shape": ([DATA], {}, TypeError, "must have fields x and y, got list"),
    "labels": ([(DATA.x, DATA.y + 1)], {"num_rows": 60}, ValueError, r"labels from 1 to 3"),
    "NaN later": ([DATA, (DATA.x * np.nan, DATA.y)], {"num_rows": 120, "num_steps": 2}, ValueError, r"data\.x holds 240 value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_fed_is_refused_with_the_remedy(case: str) -> None:
    data, settings, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        bp.fit_svi(KEY, BNN, data, **({"num_steps": 1, "optimizer": optax.adam(1e-3)} | settings))


def test_a_file_without_rows_or_of_other_rows_is_refused(tmp_path) -> None:
    data = mapped(tmp_path)
    with pytest.raises(ValueError, match=r"data is empty"):
        bp.fit_svi(KEY, BNN, bp.Dataset(data.x[:0], data.y[:0]), num_steps=1)
    with pytest.raises(ValueError, match=r"got \(9, 4\) and \(60,\)"):
        bp.fit_svi(KEY, BNN, bp.Dataset(data.x[:9], data.y), num_steps=1)
    with pytest.raises(ValueError, match=r"shape \(rows, 4\), got \(60, 3\)"):
        bp.fit_svi(KEY, BNN, bp.Dataset(data.x[:, :3], data.y), num_steps=1)
