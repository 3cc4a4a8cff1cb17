"""What a fit costs: counts against the fit itself, bytes against files and arrays; of seconds only that they add up."""

import sys
import types

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.infer.price import Price
from tests.infer import programs

module = sys.modules[Price.__module__]  # whose name the function has taken
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

    monkeypatch.setattr(module, "_timed", timed)
    bnn, data = programs.small_bnn(prior=bp.priors.Gaussian()), programs.classes()
    settings = {"num_steps": num_steps, "every": every, "sparsifier": bp.methods.BMR()}
    told = bp.price(rng_key, bnn, data, probe_seconds=1e-3, **settings)
    assert told.acts == (num_steps - 1) // every and told.act_seconds == 10.0
    assert "acts of 10 s" in repr(told)


@pytest.mark.parametrize("few", [2, 3, 4, 5, 8, 9])
def test_acts_are_tried_in_however_few_steps(monkeypatch, few: int) -> None:
    def fit(laid, num_steps, every=0):
        acts = np.array([step for step in range(1, num_steps) if every and step % every == 0])
        return types.SimpleNamespace(history={"prune/step": acts})

    monkeypatch.setattr(module, "_fit", fit)
    monkeypatch.setattr(module, "_timed", lambda call: (few + 10.0 * len((made := call()).history["prune/step"]), made))
    laid = types.SimpleNamespace(periods=types.SimpleNamespace(num_acts=7))
    told = module._acts(laid, few, warm=float(few))
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
    with pytest.raises(ValueError, match=r"of must be bp\.fit_svi or bp\.fit_sgmcmc"):
        bp.price(rng_key, bnn, data, of=bp.predict)
    with pytest.raises(ValueError, match="chains one after another"):
        bp.price(rng_key, bnn, data, of=bp.fit_sgmcmc, num_steps=4, num_chains=2, chain_method="vectorized")
    with pytest.raises(TypeError, match="estimator"):
        bp.price(rng_key, bnn, data, of=bp.fit_sgmcmc, num_steps=4, estimator="weight")
