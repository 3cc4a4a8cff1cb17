"""Moments of outputs against sums by hand, quadrature and drawn networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import bayesprune as bp
from bayesprune.deploy.engines.moments import FUNCTIONS, LayerMoments, MomentEngine, activated
from bayesprune.deploy.program.weights import GaussianLaw, Points
from tests.deploy.fits import DATA, fitted, regression
from tests.deploy.functions import compact_of, images, program_of, rows

KEY = jax.random.key(7)


def engine_of(function, shapes, shape, spread=0.3, log=None, shared=None) -> MomentEngine:
    rng = np.random.default_rng(0)
    loc = {site: rng.normal(size=size).astype(np.float32) for site, size in shapes.items()}
    scale = {site: (spread * rng.random(size)).astype(np.float32) for site, size in shapes.items()}
    return MomentEngine(
        compact_of(program_of(function, shapes, shape).single(), GaussianLaw(loc, scale, shared or {}, log or {}))
    )


def linear(w, x):
    return x @ w["a"] + w["b"]


LINEAR = (linear, {"a": (5, 3), "b": (3,)}, (5,))


@pytest.mark.parametrize("together", [True, False])
def test_of_a_linear_network_they_are_exact(together) -> None:
    """y = s (x a + b), or s x a + t b, by the laws of total expectation and variance, term by term."""
    log = {"s": (0.2, 0.4), "t": (-0.1, 0.3)}
    engine = engine_of(*LINEAR, log=log, shared={"a": "s", "b": "s" if together else "t"})
    x, law = rows(np.random.default_rng(1), 4, 5), engine.law
    first = {name: np.exp(m + s**2 / 2) for name, (m, s) in log.items()}
    second = {name: np.exp(2 * m + 2 * s**2) for name, (m, s) in log.items()}
    mean = {"a": x @ law.loc["a"], "b": np.broadcast_to(law.loc["b"], (4, 3))}
    inner = {"a": x**2 @ law.scale["a"] ** 2, "b": np.broadcast_to(law.scale["b"] ** 2, (4, 3))}
    if together:
        expected = first["s"] * (mean["a"] + mean["b"])
        variance = second["s"] * (inner["a"] + inner["b"]) + (second["s"] - first["s"] ** 2) * (mean["a"] + mean["b"]) ** 2
    else:
        expected = first["s"] * mean["a"] + first["t"] * mean["b"]
        pairs = (("a", "s"), ("b", "t"))
        variance = sum(second[k] * inner[site] + (second[k] - first[k] ** 2) * mean[site] ** 2 for site, k in pairs)
    made = engine.outputs(x)
    np.testing.assert_allclose(made.mean, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made.variance, variance, rtol=1e-5)


@pytest.mark.parametrize("act", ["relu", *FUNCTIONS])
@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (-2.0, 0.5), (3.0, 1.5), (0.4, 0.0), (-0.4, 0.0)])
def test_moments_of_an_activation(act, mean, deviation) -> None:
    function = {"relu": lambda a: np.maximum(a, 0.0), **FUNCTIONS}[act]
    if deviation:
        expect = lambda f: integrate.quad(  # noqa: E731
            lambda t: f(function(mean + deviation * t)) * stats.norm.pdf(t), -12, 12, points=[-mean / deviation], limit=200
        )[0]
        first, second = expect(lambda v: v), expect(np.square)
    else:
        first, second = float(function(mean)), float(function(mean)) ** 2
    made = activated(LayerMoments(np.array([mean]), np.array([deviation**2])), act)
    np.testing.assert_allclose(made.mean, first, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made.variance, second - first**2, rtol=3e-4, atol=1e-6)


def test_without_spread_it_is_the_network_itself() -> None:
    shapes = {"a": (3, 3, 2, 4), "b": (4,), "c": (4, 3)}

    def net(w, x):
        x = jnp.tanh(
            jax.lax.conv_general_dilated(x, w["a"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + w["b"]
        )
        return x.mean((1, 2)) @ w["c"]

    engine = engine_of(net, shapes, (6, 6, 2), spread=0.0)
    x = rows(np.random.default_rng(2), 3, 6, 6, 2)
    made = engine.outputs(x)
    np.testing.assert_allclose(made.mean, net(engine.law.loc, x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.variance, 0.0, atol=1e-12)


@pytest.mark.parametrize(("depth", "most"), [(0, 0.0), (1, 0.1), (2, 0.25)])
def test_their_error_is_measured(depth, most) -> None:
    """4,000 networks: their own errors are .016 of a deviation in the mean and .011 in the deviation; three of them stand
    for noise, ``most`` for what the approximation may cost on these networks."""
    shapes = {f"w{i}": (6, 6) for i in range(depth + 1)}

    def net(w, x):
        for i in range(depth):
            x = jax.nn.relu(x @ w[f"w{i}"])
        return x @ w[f"w{depth}"]

    engine = engine_of(net, shapes, (6,))
    error = engine.error(KEY, rows(np.random.default_rng(3), 20, 6), 4000)
    assert error["mean"] < 3 * 0.016 + most
    assert error["std"] < 3 * 0.011 + most


@pytest.mark.slow
def test_its_predictions_are_near_those_of_drawn_networks() -> None:
    bnn, params, mask = fitted("flat")
    small = bp.compact(bnn, params, mask)
    ours = MomentEngine(small).predict(KEY, DATA.x, 400)
    theirs = small.predict(DATA.x, rng_key=KEY, num_samples=400, engine="jax")
    assert ours.shape == theirs.shape
    assert np.abs(ours.sum(1) - 1).max() < 1e-5
    assert np.abs(ours - theirs).max() < 0.1  # an error of 400 draws is below .025; the rest is the approximation's


@pytest.mark.slow
def test_of_a_regression_the_mean_needs_no_draws() -> None:
    bnn, params, data = regression()
    small = bp.compact(bnn, params)
    engine = MomentEngine(small)
    made = engine.predict(KEY, data.x)
    assert made.shape == small.predict(data.x).shape
    np.testing.assert_array_equal(made, engine.predict(jax.random.key(8), data.x, 3))


def test_rows_in_the_place_of_the_key_are_refused() -> None:
    engine = engine_of(*LINEAR)
    for call in (engine.predict, engine.error):
        with pytest.raises(TypeError, match="rng_key must be a JAX random key, got ndarray"):
            call(np.zeros((2, 5), np.float32), KEY)


def test_what_moments_do_not_go_through_is_refused() -> None:
    shapes = {"a": (3, 3, 2, 4), "b": (4,), "c": (2, 2, 2, 4), "d": (4, 3)}
    with pytest.raises(ValueError, match="moments do not go through window_max"):
        engine_of(images, shapes, (6, 6, 2))
    with pytest.raises(ValueError, match="moments do not go through softmax"):
        engine_of(lambda w, x: jax.nn.softmax(x @ w["a"], -1), {"a": (5, 3)}, (5,))
    with pytest.raises(ValueError, match="moments do not go through add"):
        engine_of(lambda w, x: x + x @ w["a"], {"a": (5, 5)}, (5,))
    with pytest.raises(ValueError, match="independent Gaussian weights, got a law of 'mean'"):
        MomentEngine(compact_of(program_of(*LINEAR), Points()))


def test_inputs_that_are_repeated_before_a_layer_keep_every_weights_variance() -> None:
    engine = engine_of(lambda w, x: jnp.repeat(x[:, None], 8, 1).reshape(len(x), 16) @ w["a"], {"a": (16, 3)}, (2,))
    x = np.random.default_rng(1).standard_normal((5, 2)).astype(np.float32)
    made, many = engine.outputs(x), np.tile(x, (1, 8))
    np.testing.assert_allclose(made.mean, many @ engine.law.loc["a"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.variance, np.square(many) @ np.square(engine.law.scale["a"]), rtol=1e-4)


def test_weights_that_two_layers_share_are_refused() -> None:
    with pytest.raises(ValueError, match="two layers have the same weights"):
        engine_of(lambda w, x: x @ w["a"] @ w["a"], {"a": (3, 3)}, (3,))


PADS = {
    "inputs": (
        lambda w, x: jnp.pad(x, ((0, 0), (0, 1)), constant_values=1.0) @ w["a"],
        lambda x: np.insert(x, 3, 1.0, 1),
        (4, 2),
    ),
    "below zero": (lambda w, x: jnp.pad(x @ w["a"], ((0, 0), (0, 1)), constant_values=-2.0), np.asarray, (3, 2)),
}


@pytest.mark.parametrize("name", PADS)
def test_a_constant_that_a_pad_writes_has_no_variance(name) -> None:
    """By sums: of the weights that a column of ones has, and of none for a logit that is fixed."""
    net, inputs, shape = PADS[name]
    engine, x = engine_of(net, {"a": shape}, (3,)), rows(np.random.default_rng(4), 5, 3)
    made, given = engine.outputs(x), inputs(x)
    mean, variance = given @ engine.law.loc["a"], given**2 @ engine.law.scale["a"] ** 2
    if name == "below zero":
        mean, variance = np.insert(mean, 2, -2.0, 1), np.insert(variance, 2, 0.0, 1)
    np.testing.assert_allclose(made.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.variance, variance, rtol=1e-4, atol=1e-7)


DIMS = ("NHC", "HIO", "NHC")
TWICE = {
    "repeated": (lambda w, x: x @ jnp.repeat(w["a"], 2, 0), (3, 2), (6,)),
    "symmetric": (lambda w, x: x @ w["a"][jnp.array([0, 1, 2, 2, 1, 0])], (3, 2), (6,)),
    "one for all inputs": (lambda w, x: x @ jnp.broadcast_to(w["a"], (6, 2)), (1, 2), (6,)),
    "a kernel of one number": (
        lambda w, x: jax.lax.conv_general_dilated(x, jnp.broadcast_to(w["a"], (3, 1, 2)), (1,), "VALID", None, None, DIMS),
        (1, 1, 2),
        (6, 1),
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_weight_that_enters_one_sum_twice_is_refused(name) -> None:
    net, shape, inputs = TWICE[name]
    with pytest.raises(ValueError, match=r"a weight enters one sum several times.*draw networks"):
        engine_of(net, {"a": shape}, inputs)


def test_a_weight_that_several_sums_have_keeps_the_variance_of_each() -> None:
    engine = engine_of(lambda w, x: x @ jnp.repeat(w["a"], 2, 1), {"a": (3, 2)}, (3,))
    x = rows(np.random.default_rng(5), 4, 3)
    expected = np.repeat(x**2 @ engine.law.scale["a"] ** 2, 2, 1)
    np.testing.assert_allclose(engine.outputs(x).variance, expected, rtol=1e-4)


ONE = jnp.arange(3.0)
TURNED = {
    "tokens in one axis": lambda w, x: (x.reshape(-1, 3) @ w["a"]).reshape(-1, 5, 2),
    "tokens first": lambda w, x: (x.transpose(1, 0, 2).reshape(-1, 3) @ w["a"]).reshape(5, -1, 2).transpose(1, 0, 2),
    "one input for all rows": lambda w, x: jnp.broadcast_to(ONE, (len(x), 5, 3)) @ w["a"],
}


@pytest.mark.parametrize("name", TURNED)
def test_rows_may_be_along_any_axis(name) -> None:
    engine, x = engine_of(TURNED[name], {"a": (3, 2)}, (5, 3)), rows(np.random.default_rng(6), 4, 5, 3)
    given = np.broadcast_to(ONE, x.shape) if name == "one input for all rows" else x
    made = engine.outputs(x)
    np.testing.assert_allclose(made.mean, given @ engine.law.loc["a"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.variance, given**2 @ engine.law.scale["a"] ** 2, rtol=1e-4, atol=1e-7)


def test_outputs_that_are_fixed_have_no_part_in_the_error() -> None:
    """4,000 networks as above; beside them a logit of -1.3, or nothing else."""
    x = rows(np.random.default_rng(7), 20, 3)
    padded = lambda w, x: jnp.pad(x @ w["a"], ((0, 0), (0, 1)), constant_values=-1.3)  # noqa: E731
    error = engine_of(padded, {"a": (3, 2)}, (3,)).error(KEY, x, 4000)
    assert 0 < error["mean"] < 3 * 0.016
    assert 0 < error["std"] < 3 * 0.011
    assert engine_of(padded, {"a": (3, 2)}, (3,), spread=0.0).error(KEY, x, 10) == {"mean": 0.0, "std": 0.0}
