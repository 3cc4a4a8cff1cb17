"""Many networks at once: each is the network that its weights make, and their law is the posterior's."""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesprune as bp
from bayesprune.deploy import reader
from bayesprune.deploy.engines.draws_engine import DrawsEngine
from bayesprune.deploy.program.run import run
from bayesprune.deploy.program.weights import Draws, GaussianLaw, Points
from bayesprune.deploy.sparse.kernels import available
from tests.deploy.engines.test_engine import random_mask, small
from tests.deploy.functions import FUNCTIONS, chained, compact_of, numbers, program_of, rows, sparse
from tests.deploy.shrinking.test_shrink import APART
from tests.deploy.test_random_nets import nets

SLOW = pytest.mark.slow  # numba compiles at its first use
SPARSE = available()[1:]
BY = ["csr", *(pytest.param(name, marks=SLOW) for name in SPARSE[1:])]
KEY = jax.random.key(0)


@pytest.fixture
def without_numba(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)


def outputs_of(compact, weights, x):
    """By JAX, of the network with these weights."""
    return np.asarray(run(compact.head, {}, run(compact.program, weights, x)))


def check(compact, x, kernel: str) -> None:
    """Every stored draw against NumPy's reading of the program."""
    engine, program = DrawsEngine(compact, kernel), compact.program
    networks = engine.draw(KEY, 9)
    assert networks.size == compact.law.num_draws
    for count in (len(x), 1):
        made = engine.outputs(networks, x[:count])
        assert made.dtype == np.float32
        for index in range(networks.size):
            values = {program.weights[site]: draws[index] for site, draws in compact.law.values.items()}
            expected = reader.run(program.ops, {**program.constants, **values, program.rows: x[:count]}, count)[program.output]
            np.testing.assert_allclose(made[index].reshape(expected.shape), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kernel", BY)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_stored_draws_are_run_as_they_are(name, kernel) -> None:
    program, rng = program_of(*FUNCTIONS[name]), np.random.default_rng(0)
    draws = [numbers(program, rng) for _ in range(5)]
    law = Draws({site: np.stack([draw[site] for draw in draws]) for site in program.weights})
    check(compact_of(program, law), rows(rng, 20, *FUNCTIONS[name][2]), kernel)


@pytest.mark.slow_cases(8)
@SLOW
@pytest.mark.parametrize("kernel", SPARSE)
@pytest.mark.parametrize("name", APART)
def test_stored_draws_of_every_network_are_run_as_they_are(name, kernel) -> None:
    program, weights, x, _ = small(name)
    rng = np.random.default_rng(1)
    draws = {site: ((w != 0) * rng.standard_normal((5, *w.shape)) / 2).astype(np.float32) for site, w in weights.items()}
    compact = compact_of(program, Draws(draws))
    if program.one_by_one:
        with pytest.raises(ValueError, match="can be run by JAX only"):
            DrawsEngine(compact, kernel)
    else:
        check(compact, x, kernel)


@pytest.mark.slow_cases(1)
@SLOW
@pytest.mark.parametrize("kernel", SPARSE)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(drawn=nets(), seed=st.integers(0, 2**31), density=st.floats(0.1, 1.0))
def test_stored_draws_of_random_networks_are_run_as_they_are(kernel, drawn, seed, density) -> None:
    net, shape = drawn
    rng, function = np.random.default_rng(seed), chained(net.steps)
    program = program_of(function, net.shapes, shape).single()
    law = Draws({site: np.stack([sparse(rng, size, density) for _ in range(3)]) for site, size in net.shapes.items()})
    compact, x = compact_of(program, law), rows(rng, 4, *shape)
    made = DrawsEngine(compact, kernel).predict_draws(KEY, x)
    expected = [function({site: draws[i] for site, draws in law.values.items()}, x) for i in range(3)]
    np.testing.assert_allclose(made, np.stack(expected), rtol=1e-3, atol=1e-4)


# ---- the law
SHAPES = {"a": (5, 4), "b": (4,), "c": (4, 3), "d": (3,)}
LINEAR = program_of(lambda w, x: x @ w["a"] + w["b"], {"a": (5, 4), "b": (4,)}, (5,))
DEEP = program_of(lambda w, x: jnp.tanh(x @ w["a"] + w["b"]) @ w["c"] + w["d"], SHAPES, (5,))


def gaussian(program, shared=("a", "b")):
    rng = np.random.default_rng(0)
    shapes = {site: program.shapes[number] for site, number in program.weights.items()}
    loc = {site: sparse(rng, shape, 0.7) for site, shape in shapes.items()}
    scale = {
        site: (np.abs(sparse(rng, shape, 0.7)) * (loc[site] != 0) / 2).astype(np.float32) for site, shape in shapes.items()
    }
    return GaussianLaw(loc, scale, dict.fromkeys(shared, "s"), {"s": (0.1, 0.3)} if shared else {})


@pytest.mark.parametrize("kernel", BY)
@pytest.mark.parametrize("shared", [("a",), ()])
def test_mean_and_variance_of_a_linear_network(shared, kernel) -> None:
    """12 outputs, their means within 4.5 standard errors and variances within 6: by chance one fails in 10,000 keys."""
    law, x, number = gaussian(LINEAR, shared), rows(np.random.default_rng(1), 3, 5), 4000
    draws = DrawsEngine(compact_of(LINEAR, law), kernel).predict_draws(jax.random.key(3), x, number).astype(float)
    mean, square = (np.exp(0.1 * k + 0.3**2 * k**2 / 2) if shared else 1.0 for k in (1, 2))
    inner, noise = x @ law.loc["a"], x**2 @ law.scale["a"] ** 2
    expected = mean * inner + law.loc["b"]
    variance = square * (inner**2 + noise) - (mean * inner) ** 2 + law.scale["b"] ** 2
    assert (np.abs(draws.mean(0) - expected) <= 4.5 * np.sqrt(variance / number) + 1e-5).all()
    kurtosis = ((draws - draws.mean(0)) ** 4).mean(0) - draws.var(0) ** 2
    assert (np.abs(draws.var(0) - variance) <= 6 * np.sqrt(kurtosis / number) + 1e-5).all()


@pytest.mark.parametrize("kernel", BY)
def test_drawn_networks_are_those_of_their_weights(kernel) -> None:
    """At the edges of a block of lanes, for few rows and for many."""
    law = gaussian(DEEP)
    compact = compact_of(DEEP, law)
    engine = DrawsEngine(compact, kernel)
    for number in (1, 31, 32, 33):
        networks = engine.draw(KEY, number)
        weights = {site: engine.table.array(networks, site) for site in SHAPES}
        assert all(((law.loc[site] != 0) | (array == 0)).all() for site, array in weights.items())
        for count in (1, 3, 40):
            x = rows(np.random.default_rng(count), count, 5)
            made = engine.outputs(networks, x)
            assert made.shape == (number, count, 3)
            for i in {0, number - 1}:
                one = {site: array[i] for site, array in weights.items()}
                np.testing.assert_allclose(made[i], outputs_of(compact, one, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", BY)
def test_a_key_says_which_networks(kernel) -> None:
    engine, x = DrawsEngine(compact_of(DEEP, gaussian(DEEP)), kernel), rows(np.random.default_rng(0), 3, 5)
    one, same, other = (engine.predict_draws(jax.random.key(k), x, 9) for k in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert (np.ptp(one, 0) > 0).all(), "all networks are one"
    np.testing.assert_allclose(engine.predict(jax.random.key(1), x, 9), one.mean(0), rtol=1e-5)
    rng = np.random.default_rng(5)
    first, second = engine.predict(rng, x, 9), engine.predict(rng, x, 9)
    assert (first != second).any()


def test_a_mean_is_one_network() -> None:
    weights = {site: sparse(np.random.default_rng(0), shape) for site, shape in SHAPES.items()}
    program = program_of(lambda _, x: jnp.tanh(x @ weights["a"] + weights["b"]) @ weights["c"], {}, (5,))
    engine, x = DrawsEngine(compact_of(program.single(), Points()), "csr"), rows(np.random.default_rng(0), 3, 5)
    assert engine.predict_draws(KEY, x, 7).shape == (1, 3, 3)
    np.testing.assert_allclose(engine.predict(KEY, x, 7), outputs_of(engine.compact, {}, x), rtol=1e-5, atol=1e-6)


# ---- noise on sums
@pytest.mark.parametrize("kernel", BY)
def test_local_noise_has_the_law_of_each_row(kernel) -> None:
    """Means over 4000 samples of a linear and a deep network, with shared scales: 21 differences within 4.5 standard errors."""
    for program in (LINEAR, DEEP):
        compact, x, number = compact_of(program, gaussian(program)), rows(np.random.default_rng(1), 3, 5), 4000
        engine = DrawsEngine(compact, kernel)
        draws = engine.predict_draws(jax.random.key(4), x, number)
        local = engine.predict(jax.random.key(5), x, number, noise="local")
        assert local.shape == draws.shape[1:]
        error = draws.std(0) * np.sqrt(2 / number) + 1e-6
        assert (np.abs(local - draws.mean(0)) <= 4.5 * error).all()


def test_local_noise_spreads_as_the_networks_do() -> None:
    """E[y²] of a linear network, by a head that squares: the variance is right, not the mean alone."""
    law, x, number = gaussian(LINEAR, ()), rows(np.random.default_rng(1), 3, 5), 4000
    squared = program_of(lambda w, x: (x @ w["a"] + w["b"]) ** 2, {"a": (5, 4), "b": (4,)}, (5,))
    made = DrawsEngine(compact_of(squared, law), "csr").predict(jax.random.key(5), x, number, noise="local")
    mean, variance = x @ law.loc["a"] + law.loc["b"], x**2 @ law.scale["a"] ** 2 + law.scale["b"] ** 2
    error = np.sqrt((2 * variance**2 + 4 * mean**2 * variance) / number) + 1e-5
    assert (np.abs(made - mean**2 - variance) <= 4.5 * error).all()


def test_local_noise_gives_every_row_its_own() -> None:
    """Equal rows of one sample differ; with weights they do not."""
    engine, x = DrawsEngine(compact_of(DEEP, gaussian(DEEP)), "csr"), np.ones((2, 5), np.float32)
    apart, together = (engine.predict(KEY, x, 1, noise=noise) for noise in ("local", "weights"))
    assert (apart[0] != apart[1]).any()
    np.testing.assert_allclose(together[0], together[1], rtol=1e-6)


REFUSED = {
    "by tokens": (lambda w, x: (x @ w["a"]).sum(1), {"a": (5, 4)}, (2, 5)),
    "twice": (lambda w, x: jnp.tanh(x @ w["a"]) @ w["a"], {"a": (5, 5)}, (5,)),
    "entry by entry": (lambda w, x: jnp.tanh(x) * w["b"], {"b": (5,)}, (5,)),
    "windows": (lambda w, x: x[:, :4] @ w["a"] + x[:, 1:] @ w["a"], {"a": (4, 2)}, (5,)),
    "one bias for all": (lambda w, x: x @ w["a"] + w["b"], {"a": (5, 4), "b": (1,)}, (5,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_local_noise_is_refused_where_sums_are_not_independent(name) -> None:
    function, shapes, shape = REFUSED[name]
    program = program_of(function, shapes, shape)
    engine = DrawsEngine(compact_of(program, gaussian(program, ())), "csr")
    with pytest.raises(ValueError, match="needs every random weight to enter one sum"):
        engine.predict(KEY, rows(np.random.default_rng(0), 2, *shape), 3, noise="local")


def test_bad_input_is_refused() -> None:
    compact, x = compact_of(DEEP, gaussian(DEEP)), np.zeros((2, 5))
    engine = DrawsEngine(compact, "csr")
    with pytest.raises(ValueError, match="unknown kernel 'dense'"):
        DrawsEngine(compact, "dense")
    with pytest.raises(ValueError, match="unknown noise 'loud'"):
        engine.predict(KEY, x, noise="loud")
    with pytest.raises(ValueError, match="num_samples must be an integer"):
        engine.draw(KEY, 0)
    with pytest.raises(TypeError, match="rng_key must be a JAX random key"):
        engine.draw(7)
    with pytest.raises(ValueError, match="x must have shape"):
        engine.predict(KEY, np.zeros((2, 4)))
    draws = Draws({site: np.ones((2, *shape), np.float32) for site, shape in SHAPES.items()})
    for each in (engine, DrawsEngine(compact_of(DEEP, draws), "csr")):  # of stored draws too, though nothing is drawn
        with pytest.raises(TypeError, match="rng_key must be a JAX random key, got ndarray"):
            each.predict(x, KEY)
    with pytest.raises(ValueError, match="noise='local' needs independent Gaussian weights, got draws"):
        DrawsEngine(compact_of(DEEP, draws), "csr").predict(KEY, x, noise="local")


def test_without_numba_scipy_serves(without_numba) -> None:
    compact = compact_of(DEEP, gaussian(DEEP))
    assert DrawsEngine(compact).kernel == "csr"
    with pytest.raises(ImportError, match=r'pip install "bayesprune\[fast\]"'):
        DrawsEngine(compact, "numba")


def test_rows_in_parts_are_the_same(monkeypatch) -> None:
    engine, x = DrawsEngine(compact_of(DEEP, gaussian(DEEP)), "csr"), rows(np.random.default_rng(0), 80, 5)
    networks = engine.draw(KEY, 6)
    whole = engine.outputs(networks, x)
    monkeypatch.setattr("bayesprune.deploy.engines.draws_engine.LARGEST", 1000)
    np.testing.assert_allclose(engine.outputs(networks, x), whole, rtol=1e-6)


@pytest.mark.slow_cases(1)
@SLOW
@pytest.mark.parametrize("name", ["mlp", "lenet5"])
def test_fitted_networks_have_the_law_of_predict_draws(name) -> None:
    """Predictive means over 300 draws, here and by JAX: 50 differences within 4.5 standard errors."""
    net, shape = {"mlp": (bp.nets.MLP((30, 20), 10), (8, 8, 1)), "lenet5": (bp.nets.LeNet5(10), (28, 28, 1))}[name]
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=shape)
    rng = np.random.default_rng(0)
    train = bp.Dataset(rows(rng, 20, *shape), rng.integers(0, 10, 20).astype(np.int32))
    fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=1, batch_size=20, progress=False)
    compact = bp.compact(bnn, fit.params, random_mask(bnn))
    assert isinstance(compact.law, GaussianLaw)
    law = replace(compact.law, scale={site: scale * 3 for site, scale in compact.law.scale.items()})
    compact = replace(compact, law=law)
    theirs = compact.predict_draws(jax.random.key(1), train.x[:5], 300)
    for kernel in SPARSE:
        ours = DrawsEngine(compact, kernel).predict_draws(jax.random.key(2), train.x[:5], 300)
        error = np.sqrt((ours.var(0) + theirs.var(0)) / 300) + 1e-6
        assert (np.abs(ours.mean(0) - theirs.mean(0)) <= 4.5 * error).all()
        assert (np.ptp(ours, 0) > 0).any()
