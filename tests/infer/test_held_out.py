"""Evaluations of held-out rows that are read as they are needed: the figures of arrays, to the bit."""

import functools

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.infer import predict as prediction
from bayesprune.infer.data import held_out
from bayesprune.infer.evaluate import evaluate
from bayesprune.train.stopping import NeverStop
from tests.infer import programs
from tests.infer.test_data import BNN, DATA, KEY, Pairs, mapped

HELD = programs.classes(rows=300, seed=1)


def batches():
    for first in range(0, 300, 70):
        yield HELD.x[first : first + 70], HELD.y[first : first + 70]


@functools.cache
def fitted() -> bp.FitResult:
    return bp.fit_svi(KEY, BNN, DATA, num_steps=2, batch_size=16, progress=False)


def a_file(folder, data) -> bp.Dataset:
    np.save(folder / "held.npy", data.x)
    return data._replace(x=np.load(folder / "held.npy", mmap_mode="r"))


@pytest.mark.slow
def test_figures_of_what_is_read_in_blocks_are_those_of_arrays(tmp_path, monkeypatch) -> None:
    """Blocks of one chunk of 125 rows."""
    monkeypatch.setattr(prediction, "_BYTES", 125 * 16)
    wanted = evaluate(KEY, BNN, fitted().params, HELD, num_samples=2)
    for data in (a_file(tmp_path, HELD), batches, list(batches())):
        read = held_out(BNN, data, NeverStop())
        assert evaluate(KEY, BNN, fitted().params, read, num_samples=2) == wanted
        assert evaluate(KEY, BNN, fitted().params, read, num_samples=2) == wanted


LIKELIHOODS = {
    "numbers": bp.likelihoods.Normal(),
    "gaussian": bp.likelihoods.Normal("predicted"),
    "values": bp.likelihoods.Poisson(),
}


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_figures_of_every_kind_of_targets(kind, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(prediction, "_BYTES", 125 * 16)
    bnn = bp.BNN(
        bp.nets.MLP((3,), 2 if kind == "gaussian" else 1),
        prior=bp.priors.Flat(),
        likelihood=LIKELIHOODS[kind],
        input_shape=(4,),
    )
    y = np.arange(300) % 5 if kind == "values" else HELD.x[:, 0]
    data = bp.Dataset(HELD.x, y)
    fit = bp.fit_svi(KEY, bnn, data, num_steps=2, batch_size=16, progress=False)
    wanted = evaluate(KEY, bnn, fit.params, data, num_samples=2)
    assert evaluate(KEY, bnn, fit.params, held_out(bnn, a_file(tmp_path, data), NeverStop()), num_samples=2) == wanted


@pytest.mark.slow
def test_a_fit_evaluated_on_a_stream_is_resumed_with_the_same_bits(tmp_path) -> None:
    settings = {"num_steps": 8, "batch_size": 16, "eval_every": 4, "eval_samples": 2, "progress": False}
    wanted = bp.fit_svi(KEY, BNN, mapped(tmp_path), eval_data=HELD, **settings)
    folder = {"checkpoint": tmp_path / "run", "checkpoint_every": 4, "eval_data": batches}
    stop = bp.fit_svi(KEY, BNN, mapped(tmp_path), callbacks=[lambda moment: moment.step == 4], **settings | folder)
    assert len(stop.losses) == 4
    fit = bp.fit_svi(KEY, BNN, mapped(tmp_path), **settings | folder)
    np.testing.assert_array_equal(fit.history["eval/nll"], wanted.history["eval/nll"])
    with pytest.raises(ValueError, match="eval_data"):
        bp.fit_svi(KEY, BNN, mapped(tmp_path), **settings | folder | {"eval_data": Pairs()})


REFUSED = {
    "a generator": (batches(), TypeError, "eval_data can be read only once, got generator"),
    "a number": (3, TypeError, "eval_data must have fields x and y, or give rows or batches"),
    "a pair": ((DATA.x, DATA.y), TypeError, "eval_data must have fields x and y"),
    "labels": ([(HELD.x, HELD.y + 1)], ValueError, "labels"),
    "NaN": ([(HELD.x * np.nan, HELD.y)], ValueError, r"eval_data\.x holds 1200 value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_nothing_can_be_evaluated_on_is_refused(case) -> None:
    data, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        held_out(BNN, data, NeverStop())


SAMPLING = {"num_steps": 12, "num_samples": 2, "sample_every": 3, "batch_size": 16, "progress": False}


def sample(data, **more) -> bp.FitResult:
    return bp.fit_sgmcmc(KEY, BNN, data, **SAMPLING | {"kernel": bp.kernels.SGHMC(step_size=0.01)} | more)


@pytest.mark.slow
def test_a_chain_of_a_file_has_the_bits_of_one_in_memory(tmp_path) -> None:
    whole, read = sample(DATA), sample(mapped(tmp_path))
    assert programs.same_bits((whole.params, whole.losses), (read.params, read.losses))
    with pytest.raises(ValueError, match="chain_method='vectorized' and 'parallel' take arrays"):
        sample(mapped(tmp_path), chain_method="vectorized")


@pytest.mark.every
@pytest.mark.slow
def test_chains_of_rows_and_of_batches_are_resumed_with_the_same_bits(tmp_path) -> None:
    chains = {"num_chains": 2, "sparsifier": bp.methods.Magnitude(0.5), "every": 5}
    in_memory = sample(DATA, **chains)
    assert programs.same_bits(in_memory.params, sample(Pairs(), **chains).params)
    listed = [(DATA.x[n : n + 9], DATA.y[n : n + 9]) for n in range(0, 60, 9)]
    whole = sample(listed, num_rows=60, **chains)

    class KilledError(Exception):
        pass

    seen = []

    def kill(moment) -> None:
        seen.append(moment.step)
        if len(seen) == 3:
            raise KilledError

    kept = chains | {"checkpoint": tmp_path / "run", "checkpoint_every": 4, "num_rows": 60}
    with pytest.raises(KilledError):
        sample(listed, callbacks=[kill], callback_every=6, **kept)
    again = sample(listed, **kept)
    assert programs.same_bits((whole.params, whole.losses), (again.params, again.losses))


def test_replicates_of_a_stream_are_refused_with_the_remedy() -> None:
    with pytest.raises(TypeError, match=r"arrays \(replications, rows, \.\.\.\), got list.*one after another by bp\.fit_svi"):
        bp.fit_replicates(jax.random.key(0), BNN, list(batches()), num_steps=1)
