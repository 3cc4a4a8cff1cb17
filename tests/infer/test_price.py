"""What a fit costs: counts against the fit itself, bytes against files and arrays; of seconds only that they add up."""

import inspect
import sys
import types

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.infer.pricing import curvature, fits, predictions
from bayesprune.infer.pricing.record import Price
from tests.infer import programs

SETTINGS = {"num_steps": 40, "batch_size": 20, "eval_every": 10, "eval_samples": 2}


@pytest.mark.slow
def test_counts_and_bytes_are_those_of_the_fit(rng_key, tmp_path) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    settings = SETTINGS | {"sparsifier": bp.methods.SNR(0.5), "every": 7, "eval_data": data}
    told = bp.price(rng_key, bnn, data, probe_seconds=1e-3, **settings)
    fit = bp.fit_svi(rng_key, bnn, data, **settings)
    assert told.acts == len(fit.history["prune/step"]) and told.evaluations == len(fit.history["eval/nll"]) == 4
    fit.save(tmp_path / "fit")  # whose history of acts and evaluations is most of so small a file
    assert abs(told.file_bytes / (tmp_path / "fit").stat().st_size - 1) < 0.1
    arrays = sum(leaf.nbytes for leaf in jax.tree.leaves((fit.params, fit.state.optim_state)))
    assert told.data_bytes == data.x.nbytes + data.y.nbytes < told.memory_bytes
    assert told.memory_bytes > arrays
    parts = told.compile_seconds + told.start_seconds + 40 * told.step_seconds + told.acts * told.act_seconds
    np.testing.assert_allclose(told.seconds, parts + 4 * told.eval_seconds)
    assert told.step_seconds > 0 and told.eval_seconds > 0


@pytest.mark.slow
def test_nothing_is_called_or_written(rng_key, tmp_path) -> None:
    def never(moment):
        raise AssertionError

    folder = tmp_path / "checkpoints"
    told = bp.price(rng_key, programs.small_bnn(), programs.classes(), num_steps=3, callbacks=never, checkpoint=folder)
    assert told.acts == told.evaluations == 0 and not folder.exists()


@pytest.mark.slow
def test_twice_the_net_is_more_memory(rng_key) -> None:
    data = programs.classes()
    bnn = lambda width: bp.BNN(  # noqa: E731
        bp.nets.MLP((width,), 3), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,)
    )
    one, two = (bp.price(rng_key, bnn(width), data, num_steps=5, probe_seconds=1e-3) for width in (500, 1_000))
    assert 1.6 < (two.memory_bytes - two.data_bytes) / (one.memory_bytes - one.data_bytes) < 2.4
    assert 1.8 < two.file_bytes / one.file_bytes < 2.2


@pytest.mark.slow
def test_an_evaluation_holds_a_block_of_rows(rng_key) -> None:
    """Of many held-out rows that is more than a step holds; of few it is not, and the loop's is said."""
    data = programs.classes()
    many = bp.Dataset(np.tile(data.x, (500, 1)), np.tile(data.y, 500))
    told = lambda **seen: bp.price(rng_key, programs.small_bnn(), data, num_steps=5, probe_seconds=1e-3, **seen)  # noqa: E731
    alone = told()
    few, more = (told(eval_data=held, eval_every=2, eval_samples=2) for held in (data, many))
    assert few.memory_bytes <= alone.memory_bytes + 4 * data.x.nbytes
    assert more.memory_bytes > max(alone.memory_bytes, many.x.nbytes + alone.data_bytes)


@pytest.mark.slow
@pytest.mark.parametrize(("num_steps", "every"), [(2, 1), (8, 2)])
def test_acts_of_short_fits_are_tried(rng_key, monkeypatch, num_steps: int, every: int) -> None:
    """By a made-up clock: a second for each step of a fit, ten for each act."""

    def timed(call):
        made = call()
        if not isinstance(made, bp.FitResult):
            return 1.0, made
        return len(made.losses) + 10.0 * len(made.history.get("prune/step", ())), made

    monkeypatch.setattr(fits, "timed", timed)
    bnn, data = programs.small_bnn(prior=bp.priors.Gaussian()), programs.classes()
    settings = {"num_steps": num_steps, "every": every, "sparsifier": bp.methods.BMR()}
    told = bp.price(rng_key, bnn, data, probe_seconds=1e-3, **settings)
    assert told.acts == (num_steps - 1) // every and told.act_seconds == 10.0
    assert f"{told.acts} act{'s' if told.acts > 1 else ''} of 10 s" in repr(told)


@pytest.mark.parametrize("few", [2, 3, 4, 5, 8, 9])
def test_acts_are_tried_in_however_few_steps(monkeypatch, few: int) -> None:
    def fit(laid, num_steps, every=0):
        acts = np.array([step for step in range(1, num_steps) if every and step % every == 0])
        return types.SimpleNamespace(history={"prune/step": acts})

    monkeypatch.setattr(fits, "_fit", fit)
    monkeypatch.setattr(fits, "timed", lambda call: (few + 10.0 * len((made := call()).history["prune/step"]), made))
    laid = types.SimpleNamespace(periods=types.SimpleNamespace(num_acts=7))
    told = fits._acts(laid, few, warm=float(few))
    assert told.seconds == 10.0 and told.number == 7 and told.file_bytes == 8 * 7


def test_it_is_read_in_a_line() -> None:
    told = Price(6.0, 0.5, 0.012, 8_000, 0.1, 77, 0.0, 0, 310_000_000, 47_000_000, 4_200_000)
    assert repr(told) == (
        "Price(1.8e+02 s, 310 MB at once, 4.2 MB on disk: compiling 6 s, 8,000 steps of 12 ms, 77 acts of 100 ms)"
    ).replace("1.8e+02 s", "110 s")


def test_what_a_fit_refuses_is_refused(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    with pytest.raises(TypeError, match="stepz"):
        bp.price(rng_key, bnn, data, num_steps=3, stepz=1)
    with pytest.raises(ValueError, match="num_steps"):
        bp.price(rng_key, bnn, data, num_steps=0)
    with pytest.raises(ValueError, match="probe_seconds"):
        bp.price(rng_key, bnn, data, num_steps=3, probe_seconds=0)


@pytest.mark.slow
def test_chains_and_the_networks_that_they_keep_are_priced(rng_key, tmp_path) -> None:
    bnn = bp.BNN(bp.nets.MLP((300,), 3), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    data, settings = programs.classes(), {"num_steps": 40, "batch_size": 20, "num_samples": 5, "num_chains": 3}
    told = bp.price(rng_key, bnn, data, of=bp.fit_sgmcmc, probe_seconds=1e-3, **settings)
    fit = bp.fit_sgmcmc(rng_key, bnn, data, progress=False, **settings)
    assert told.steps == fit.losses.size == 120 and told.acts == told.evaluations == 0 and told.step_seconds > 0
    fit.save(tmp_path / "fit")
    assert abs(told.file_bytes / (tmp_path / "fit").stat().st_size - 1) < 0.1
    samples = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(fit.params))
    alone = bp.price(rng_key, bnn, data, of=bp.fit_sgmcmc, probe_seconds=1e-3, **settings | {"num_chains": 1})
    np.testing.assert_allclose(told.memory_bytes - alone.memory_bytes, samples * 2 / 3, rtol=0.1)


def test_other_calls_have_no_price(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    with pytest.raises(ValueError, match=r"of must be bp\.fit_svi, .* or bp\.predict_draws, got"):
        bp.price(rng_key, bnn, {}, data, of=bp.evaluate)
    with pytest.raises(ValueError, match="chains one after another"):
        bp.price(rng_key, bnn, data, of=bp.fit_sgmcmc, num_steps=4, num_chains=2, chain_method="vectorized")
    with pytest.raises(TypeError, match="estimator"):
        bp.price(rng_key, bnn, data, of=bp.fit_sgmcmc, num_steps=4, estimator="weight")


LAPLACES = (
    {},
    {"curvature": "kron", "num_draws": 1},
    {"curvature": "full"},
    {"structure": "exact"},
    {"curvature": "last_layer", "structure": "empirical", "excess": None},
)


@pytest.mark.slow
@pytest.mark.slow_cases(2)
@pytest.mark.parametrize("settings", LAPLACES, ids=str)
def test_laplace_is_priced_by_a_few_chunks_of_rows(rng_key, tmp_path, settings) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    many = bp.Dataset(np.tile(data.x, (10, 1)), np.tile(data.y, 10))  # rows of several chunks, the last one not full
    fit = bp.fit_svi(rng_key, bnn, many, num_steps=20, batch_size=20, progress=False)
    told = bp.price(rng_key, bnn, fit, many, of=bp.laplace, probe_seconds=1e-9, **settings)
    bp.laplace(rng_key, bnn, fit, many, **settings).save(tmp_path / "fit")
    assert told.steps == -(-len(many.x) // 128) and told.acts == 1 and told.evaluations == 0
    assert abs(told.file_bytes / (tmp_path / "fit").stat().st_size - 1) < 0.02
    assert told.memory_bytes > sum(leaf.nbytes for leaf in jax.tree.leaves(fit.params)) / 2 and told.data_bytes > 0
    assert min(told.compile_seconds, told.start_seconds, told.step_seconds, told.act_seconds) > 0
    assert "1 act of" in repr(told)


@pytest.mark.slow
def test_the_curvature_of_some_rows_stands_for_that_of_all(rng_key) -> None:
    """Of rows that repeat, any chunk has the curvature of every other: what is settled is what `laplace` returns."""
    bnn, data = programs.small_bnn(), programs.classes()
    same = bp.Dataset(np.tile(data.x[:8], (64, 1)), np.tile(data.y[:8], 64))
    fit = bp.fit_svi(rng_key, bnn, same, num_steps=20, batch_size=32, progress=False)
    _, over_rows = curvature._laid_out(_bound(bp.laplace, rng_key, bnn, fit, same))
    few = curvature._few(over_rows, 1e-9)
    whole = over_rows.total()
    for found, wanted in zip(jax.tree.leaves(few.sums), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.slow
def test_predictions_are_priced_by_a_block(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=2, batch_size=20, progress=False)
    rows = np.tile(data.x, (20, 1))
    told = bp.price(rng_key, bnn, fit.params, rows, of=bp.predict, num_samples=7, probe_seconds=1e-9)
    assert told.steps == 7 * -(-len(rows) // 125) and told.file_bytes == told.acts == 0 and "on disk" not in repr(told)
    assert told.step_seconds > 0 and told.memory_bytes > rows.nbytes
    drawn = bp.price(rng_key, bnn, fit.params, rows, of=bp.predict_draws, num_samples=7, probe_seconds=1e-9)
    returned = bp.predict_draws(rng_key, bnn, fit.params, rows, num_samples=7).nbytes
    # Of all networks' outputs, and of those of a block, which is all, two times more; a mean keeps those of one network twice.
    assert drawn.memory_bytes - told.memory_bytes == 3 * returned - 2 * returned // 7


def test_predictions_of_many_blocks(rng_key, monkeypatch) -> None:
    """By a made-up clock: a second for each network on a chunk of rows, ten for each block."""
    monkeypatch.setattr(sys.modules[bp.predict.__module__], "_CHUNKS", 2)
    bnn = programs.small_bnn()

    def call(num_samples, x, **_):
        return np.zeros((len(x), 3), np.float32), num_samples, len(x)

    def timed(do):
        made, number, rows = do()
        chunks = -(-rows // 125)
        return number * chunks + 10.0, made

    monkeypatch.setattr(predictions, "predict", call)
    monkeypatch.setattr(predictions, "timed", timed)
    fit = bp.fit_svi(rng_key, bnn, programs.classes(), num_steps=1, batch_size=20, progress=False)
    arguments = _bound(bp.predict, rng_key, bnn, fit.params, np.zeros((700, 4), np.float32), num_samples=9)
    told = predictions.of_predict(arguments, 1e9)
    assert told.steps == 9 * 6 and told.step_seconds == 1.0
    np.testing.assert_allclose(told.start_seconds, 28.0)  # 700 rows are 2.8 blocks of two chunks


def test_what_has_no_price_of_predictions(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=1, batch_size=20, progress=False)
    with pytest.raises(ValueError, match="compact network"):
        bp.price(rng_key, bp.compact(bnn, fit.params), None, data.x, of=bp.predict)
    with pytest.raises(ValueError, match="x must have shape"):
        bp.price(rng_key, bnn, fit.params, data.x[:, :2], of=bp.predict)


@pytest.mark.slow
def test_a_fit_of_a_stream_is_priced_with_its_reading(rng_key) -> None:
    data = programs.classes()
    stream = lambda: (bp.Dataset(data.x[:20], data.y[:20]) for _ in range(5))  # noqa: E731
    told = bp.price(rng_key, programs.small_bnn(), stream, num_rows=100, num_steps=30, batch_size=20, probe_seconds=1e-3)
    assert told.steps == 30 and told.step_seconds > 0 and told.data_bytes > 0


def _bound(of, *arguments, **named):
    bound = inspect.signature(of).bind(*arguments, **named)
    bound.apply_defaults()
    return bound.arguments
