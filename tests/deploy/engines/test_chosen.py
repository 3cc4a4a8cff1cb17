"""Which engine predicts, and that all of them predict the same."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.deploy import Certificate, evaluate_by_kernels
from bayesprune.deploy.engines.chosen import Engines
from bayesprune.deploy.engines.draws_engine import DrawsEngine
from bayesprune.deploy.program.packing import how_many
from bayesprune.deploy.program.weights import GaussianLaw
from bayesprune.deploy.sparse.kernels import has_numba
from tests.deploy.fits import DATA, fitted, regression
from tests.deploy.functions import FUNCTIONS, compact_of, numbers, program_of, rows

KEY = jax.random.key(3)
NUMBA = pytest.mark.skipif(not has_numba(), reason="numba is not installed")


def net(name: str, density: float = 1.0):
    """A compact network with a law of its own."""
    function, shapes, shape = FUNCTIONS[name]
    program, rng = program_of(function, shapes, shape).single(), np.random.default_rng(0)
    loc = numbers(program, rng, density)
    scale = {site: np.where(array != 0, 0.1, 0).astype(np.float32) for site, array in loc.items()}
    return compact_of(program, GaussianLaw(loc, scale, {}, {})), rows(rng, 5, *shape)


@pytest.mark.slow
def test_engines_by_name_are_the_same_network() -> None:
    small, x = net("images")
    np.testing.assert_allclose(small.predict(x, engine="kernels"), small.predict(x, engine="jax"), rtol=1e-4, atol=1e-5)
    assert Engines(small, None).at_mean("jax", 5) is None
    assert Engines(small, None).of_draws("jax") is None


@NUMBA
def test_many_rows_of_a_dense_network_are_left_to_jax() -> None:
    """Few rows are over before JAX has begun; draws are by kernels for any number of rows, so that a key means one thing,
    but where only their mean is asked."""
    small, _ = net("dense")
    engines, sparse = Engines(small, None), Engines(net("dense", 0.1)[0], None)
    assert engines.at_mean("auto", 1) is not None and engines.of_draws("auto") is not None
    assert engines.at_mean("auto", 100) is None and engines.of_draws("auto", 100) is None
    assert sparse.at_mean("auto", 1_000) is not None and sparse.of_draws("auto", 1_000) is not None
    assert small.by_kernels


def test_rows_are_counted_as_they_are_given() -> None:
    small, x = net("dense")
    for given in (x, x.tolist(), jax.numpy.asarray(x)):
        assert how_many(small.inputs, given) == len(x) == 5
    assert how_many(small.inputs, 3.0) == 1  # no row, which is refused by what predicts


def test_branches_that_meet_are_left_to_jax(monkeypatch) -> None:
    monkeypatch.setattr("bayesprune.deploy.engines.chosen.has_numba", lambda: True)
    small, _ = net("branches", 0.1)
    assert Engines(small, None).at_mean("auto", 1) is None
    assert Engines(small, None).of_draws("auto") is None


@pytest.mark.slow
@NUMBA
def test_what_is_done_to_the_rows_before_any_weight_is_no_branch() -> None:
    """LeNet-5 frames images of 28 x 28 by their first pixel: JAX took five times as long as kernels there."""
    small, x = net("framed", 0.5)
    assert Engines(small, None).at_mean("auto", 1) is not None
    assert Engines(small, None).of_draws("auto") is not None
    np.testing.assert_allclose(small.predict(x, engine="kernels"), small.predict(x, engine="jax"), rtol=1e-4, atol=1e-5)


@NUMBA
def test_a_sparse_network_goes_by_kernels_and_none_without_numba(monkeypatch) -> None:
    small, x = net("dense", density=0.1)
    assert Engines(small, None).at_mean("auto", 1) is not None
    assert small.by_kernels
    together = small.predict_draws(KEY, x, 7)
    np.testing.assert_array_equal(together[:, :2], small.predict_draws(KEY, x[:2], 7))
    monkeypatch.setattr("bayesprune.deploy.engines.chosen.has_numba", lambda: False)
    assert Engines(small, None).at_mean("auto", 1) is None
    assert not net("dense", density=0.1)[0].by_kernels


@pytest.mark.slow
@NUMBA
def test_one_key_means_the_same_networks_whatever_the_rows() -> None:
    """Few rows and many, which go by other kernels, of a sparse network and a dense one; few networks and many."""
    for density in (0.1, 1.0):
        small, _ = net("dense", density)
        x = rows(np.random.default_rng(1), 200, 5)
        for number in (3, 40):
            whole = small.predict_draws(KEY, x, number, engine="kernels")
            for count in (1, 15, 16, 100):
                part = small.predict_draws(KEY, x[:count], number, engine="kernels")
                np.testing.assert_allclose(part, whole[:, :count], rtol=2e-5, atol=1e-6)


@pytest.mark.slow
@NUMBA
def test_the_mean_of_each_row_has_one_law_whatever_the_rows() -> None:
    """By sums of its own for few rows, by networks for many: 20 means of 3,000 draws each within 4.5 of their standard errors,
    so one of 5,000 keys fails by chance."""
    small, _ = net("dense", 1.0)
    x, number = rows(np.random.default_rng(1), 5, 5), 3_000
    engine = DrawsEngine(small)
    alone, together = (
        np.asarray(engine.predict(key, x, number, noise))
        for key, noise in zip(jax.random.split(KEY), ("local", "weights"), strict=True)
    )
    error = engine.predict_draws(KEY, x, number).std(0).reshape(alone.shape) * np.sqrt(2 / number) + 1e-6
    assert (np.abs(alone - together) <= 4.5 * error).all()
    assert np.abs(alone - together).max() > 0


def test_sums_are_drawn_for_few_rows_of_a_network_that_allows_it() -> None:
    """A matrix of 100 x 100 has 100 numbers for each sum; of many rows, or where tokens share it, its weights are drawn."""
    shapes, rng = {"a": (100, 100)}, np.random.default_rng(0)
    loc = {"a": rng.standard_normal((100, 100)).astype(np.float32)}
    law = GaussianLaw(loc, {"a": np.ones((100, 100), np.float32)}, {}, {})
    by = {
        kind: DrawsEngine(compact_of(program_of(lambda w, x: x @ w["a"], shapes, shape), law), "csr")
        for kind, shape in (("rows", (100,)), ("tokens", (3, 100)))
    }
    assert by["rows"].local_pays(1, 100)
    assert not by["rows"].local_pays(1, 1)  # a call that is over before it begins
    assert not by["rows"].local_pays(100, 100)
    assert not by["tokens"].local_pays(1, 100)
    x = rows(rng, 2, 100)
    ours, local = (by["rows"].predict(KEY, x, 50, noise) for noise in ("auto", "local"))
    np.testing.assert_array_equal(ours, local)


def test_an_unknown_engine_is_refused() -> None:
    small, x = net("dense")
    with pytest.raises(ValueError, match="unknown engine 'tpu'"):
        small.predict(x, engine="tpu")
    with pytest.raises(ValueError, match="unknown engine 'tpu'"):
        small.predict_draws(KEY, x, 2, engine="tpu")


def test_a_measurement_goes_through_a_file(tmp_path) -> None:
    small, x = net("dense", density=0.5)
    quick = replace(
        small.measured((1, 4), kernels=("dense", "csr"), num_repeats=1),
        certificate=Certificate(131071, 3, 1, 0, True, 0.0, 0.0),
    )
    quick.save(tmp_path / "net.bayesprune")
    again = bp.load(tmp_path / "net.bayesprune")
    assert again.choice == quick.choice
    np.testing.assert_allclose(again.predict(x), small.predict(x, engine="jax"), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="is empty"):
        again.predict(x[:0])


def test_a_measurement_that_names_no_kernel_of_ours_is_refused() -> None:
    for table in ({"1": {"engine": "cloud"}}, {"1": {"engine": "jax", "0": "blas"}}, {"0": {"engine": "jax"}}):
        with pytest.raises(ValueError, match="names no engine or kernel"):
            bp.deploy.Choice.read({"table": table, "machine": "here"})


# ---- evaluation while training
@pytest.mark.slow
@NUMBA
def test_figures_by_kernels_are_those_of_the_posterior(monkeypatch) -> None:
    """100 draws each: the mean log probability of 90 rows has a Monte Carlo error of about .01, a tenth of the tolerance."""
    for module in ("engines.chosen", "held_out"):
        monkeypatch.setattr(f"bayesprune.deploy.{module}.DENSE", 2.0)  # no matrix is dense
    bnn, params, mask = fitted("flat")
    ours, theirs = (f(KEY, bnn, params, DATA, mask=mask, num_samples=100) for f in (evaluate_by_kernels, bp.evaluate))
    assert set(ours) == set(theirs)
    assert ours != theirs  # other draws: it did go by kernels
    assert abs(ours["nll"] - theirs["nll"]) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("why", ["no numba", "dense", "drawn"])
def test_figures_are_those_of_evaluate_where_kernels_do_not_pay(why, monkeypatch) -> None:
    if why == "no numba":
        monkeypatch.setattr("bayesprune.deploy.held_out.has_numba", lambda: False)
    bnn, params, data = regression()
    if why == "drawn":
        monkeypatch.setattr("bayesprune.deploy.held_out.factorised", lambda *_: False)
    ours, theirs = (f(KEY, bnn, params, data, num_samples=5) for f in (evaluate_by_kernels, bp.evaluate))
    assert ours == theirs


@pytest.mark.slow
def test_a_fit_is_evaluated_by_the_function_it_is_given() -> None:
    bnn = fitted("flat")[0]
    seen = lambda rng_key, program, params, data, *, mask, num_samples: {"rows": float(len(data.y) * num_samples)}  # noqa: E731
    fit = bp.fit_svi(
        jax.random.key(0), bnn, DATA, num_steps=2, batch_size=30, eval_data=DATA, eval_every=1, eval_samples=3, evaluator=seen
    )
    assert set(fit.history["eval/rows"]) == {3.0 * len(DATA.y)}
    with pytest.raises(TypeError, match="evaluator must be a function"):
        bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1, eval_data=DATA, evaluator="kernels")
