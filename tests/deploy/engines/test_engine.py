"""The engine gives what JAX gives, by every kernel, for any network, any number of rows, and any pattern of zeros."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesprune as bp
from bayesprune.deploy import reader
from bayesprune.deploy.engines.chosen import Engines
from bayesprune.deploy.engines.engine import Engine
from bayesprune.deploy.engines.measure import Choice, measure
from bayesprune.deploy.program.weights import Points
from bayesprune.deploy.sparse.kernels import available
from bayesprune.deploy.sparse.threads import in_parts
from tests.deploy.functions import FUNCTIONS, chained, compact_of, identity, numbers, program_of, rows, sparse
from tests.deploy.programs import plan_of, weights_of
from tests.deploy.shrinking.test_shrink import APART
from tests.deploy.test_random_nets import nets
from tests.structure.nets import case

SLOW = pytest.mark.slow  # numba compiles at its first use
BY = [name if name != "numba" else pytest.param(name, marks=SLOW) for name in available()]


@pytest.fixture
def without_numba(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)


@cache
def small(name: str):
    """A smaller program, its weights, rows and outputs."""
    weights = weights_of(name, 0, 0.7, 0.3)
    _, made = plan_of(name, weights, "posterior")
    mine = {site: np.where(made.alive[site], weights[site][np.ix_(*made.places[site])], 0) for site in made.program.weights}
    program = made.program.single()
    values = {**program.constants, **{program.weights[site]: value.astype(np.float32) for site, value in mine.items()}}
    x = np.asarray(case(name).drawn(0)[1])
    if program.one_by_one:
        return program, mine, x, None
    return program, mine, x, reader.run(program.ops, {**values, program.rows: x}, len(x))[program.output]


@pytest.mark.parametrize("kernel", BY)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_kernel_gives_the_outputs(name, kernel) -> None:
    program, rng = program_of(*FUNCTIONS[name]), np.random.default_rng(0)
    weights, x = numbers(program, rng), rows(rng, 40, *FUNCTIONS[name][2])
    values = {**program.constants, **{program.weights[site]: value for site, value in weights.items()}, program.rows: x}
    expected = reader.run(program.ops, values, 40)[program.output]
    engine = Engine(program, identity(program), weights, kernel)
    assert set(engine.kernels.values()) == {kernel}
    for count in (1, 40):
        np.testing.assert_allclose(engine(x[:count]), expected[:count], rtol=1e-4, atol=1e-5)


GROWING = {
    "a rectifier beside zeros": lambda w, x: jnp.maximum(x @ w["one"], jnp.zeros(6)),
    "a bias of more numbers": lambda w, x: jnp.tanh(x @ w["one"] + w["bias"]),
    "a softmax and its logits": lambda w, x: (lambda a: jax.nn.softmax(a) * (a - 1.0))(x @ w["some"]),
}


@pytest.mark.parametrize("kernel", BY)
@pytest.mark.parametrize("name", GROWING)
def test_only_what_belongs_to_a_layer_is_taken_into_it(name, kernel) -> None:
    """JAX leaves it to an operation to repeat an axis of one number; the logits of a softmax may be needed beside it."""
    shapes, x = {"one": (5, 1), "bias": (6,), "some": (5, 3)}, rows(np.random.default_rng(1), 4, 5)
    program = program_of(GROWING[name], shapes, (5,))
    weights = numbers(program, np.random.default_rng(0))
    made = Engine(program, identity(program), weights, kernel)(x)
    np.testing.assert_allclose(made, GROWING[name](weights, x), rtol=1e-4, atol=1e-5)


@SLOW
@pytest.mark.parametrize("kernel", available())
@pytest.mark.parametrize("name", APART)
def test_every_network_gives_its_outputs(name, kernel) -> None:
    program, weights, x, expected = small(name)
    if program.one_by_one:
        with pytest.raises(ValueError, match="can be run by JAX only"):
            Engine(program, identity(program), weights, kernel)
        return
    engine = Engine(program, identity(program), weights, kernel)
    for count in (len(x), 1):
        outputs = engine(x[:count])
        assert outputs.dtype == np.float32
        np.testing.assert_allclose(outputs, expected[:count], rtol=2e-4, atol=2e-5)


@pytest.mark.slow_cases(1)
@SLOW
@pytest.mark.parametrize("kernel", available())
@settings(max_examples=60, deadline=None, derandomize=True)
@given(drawn=nets(), seed=st.integers(0, 2**31), density=st.floats(0.1, 1.0))
def test_random_networks_give_their_outputs(kernel, drawn, seed, density) -> None:
    net, shape = drawn
    rng, function = np.random.default_rng(seed), chained(net.steps)
    program = program_of(function, net.shapes, shape).single()
    weights, x = numbers(program, rng, density), rows(rng, 8, *shape)
    engine, expected = Engine(program, identity(program), weights, kernel), np.asarray(function(weights, x))
    for count in (1, 3, 8):
        np.testing.assert_allclose(engine(x[:count]), expected[:count], rtol=1e-3, atol=1e-4)


def random_mask(bnn, density=0.3):
    rng = np.random.default_rng(1)
    return {str(spec.path): rng.random(spec.shape) < density for spec in bnn.layout if spec.bayesian and len(spec.shape) > 1}


@pytest.mark.slow_cases(2)
@SLOW
@pytest.mark.parametrize("keep", ["mean", "posterior"])
@pytest.mark.parametrize("name", ["mlp", "lenet5", "resnet"])
def test_fitted_networks_give_their_predictions(name, keep) -> None:
    net, shape = {
        "mlp": (bp.nets.MLP((30, 20), 10), (8, 8, 1)),
        "lenet5": (bp.nets.LeNet5(10), (28, 28, 1)),
        "resnet": (bp.nets.ResNet(10, stage_sizes=(1, 1), features=4), (8, 8, 3)),
    }[name]
    settings = {"prior": bp.priors.Gaussian(), "likelihood": bp.likelihoods.Categorical(), "input_shape": shape}
    bnn, rng = bp.BNN(net, **settings), np.random.default_rng(0)
    train = bp.Dataset(rows(rng, 40, *shape), rng.integers(0, 10, 40).astype(np.int32))
    fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=1, batch_size=20, progress=False)
    compact = bp.compact(bnn, fit.params, random_mask(bnn), keep)
    expected = compact.predict(train.x)
    for kernel in (*available(), "auto"):
        outputs = Engine(compact.program, compact.head, compact.law.mean(), kernel)(train.x)
        np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


# ---- patterns of zeros
MLP = program_of(
    lambda w, x: jax.nn.softmax(jax.nn.silu(x @ w["a"] + w["b"]) @ w["c"], -1), {"a": (5, 4), "b": (4,), "c": (4, 3)}, (5,)
)


def weights_with(**changes):
    rng = np.random.default_rng(0)
    return {"a": sparse(rng, (5, 4)), "b": rows(rng, 4), "c": sparse(rng, (4, 3), 0.8)} | changes


PATTERNS = {
    "sparse": weights_with(),
    "nothing": {site: np.zeros(MLP.shapes[number], np.float32) for site, number in MLP.weights.items()},
    "first layer dead": weights_with(a=np.zeros((5, 4), np.float32)),
    "last layer dead": weights_with(c=np.zeros((4, 3), np.float32)),
    "empty outputs": weights_with(a=np.diag(np.arange(5.0, dtype=np.float32))[:, :4]),
    "dense": weights_with(a=np.ones((5, 4), np.float32)),
}


@pytest.mark.parametrize("kernel", BY)
@pytest.mark.parametrize("name", PATTERNS)
def test_any_pattern_of_zeros(name, kernel) -> None:
    weights = PATTERNS[name]
    engine = Engine(MLP, identity(MLP), weights, kernel)
    for count in (1, 2, 31, 32, 33, 64, 70):
        x = rows(np.random.default_rng(count), count, 5)
        hidden = x @ weights["a"] + weights["b"]
        logits = hidden / (1 + np.exp(-hidden)) @ weights["c"]
        expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        np.testing.assert_allclose(engine(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", BY)
def test_one_unit_and_one_input(kernel) -> None:
    program = program_of(lambda w, x: jnp.tanh(x @ w["a"]), {"a": (1, 1)}, (1,))
    for value in (0.0, -2.0):
        engine = Engine(program, identity(program), {"a": np.full((1, 1), value, np.float32)}, kernel)
        np.testing.assert_allclose(engine(np.full((3, 1), 0.4)), np.full((3, 1), np.tanh(0.4 * value)), rtol=1e-6)


@pytest.mark.parametrize("kernel", BY)
def test_more_rows_than_fit_at_a_time_are_the_same(kernel, monkeypatch) -> None:
    engine, x = Engine(MLP, identity(MLP), weights_with(), kernel), rows(np.random.default_rng(0), 100, 5)
    whole = engine(x)
    monkeypatch.setattr("bayesprune.deploy.engines.engine.ROWS", 30)
    monkeypatch.setattr("bayesprune.deploy.sparse.threads.MUCH", 1)
    np.testing.assert_allclose(engine(x), whole, rtol=1e-6)


# ---- what is refused, and what is not there
def test_bad_input_is_refused() -> None:
    head, weights = identity(MLP), weights_with()
    with pytest.raises(ValueError, match=r"weights\['a'\] must have shape \(5, 4\), got none"):
        Engine(MLP, head)
    with pytest.raises(ValueError, match=r"weights\['c'\] must have shape \(4, 3\), got \(1, 3\)"):
        Engine(MLP, head, weights | {"c": np.zeros((1, 3))})
    with pytest.raises(ValueError, match="unknown kernel 'dnse'"):
        Engine(MLP, head, weights, "dnse")
    with pytest.raises(ValueError, match="unknown kernel 'auto'"):  # of one operation it is no choice
        Engine(MLP, head, weights, dict.fromkeys(Engine(MLP, head, weights).kernels, "auto"))
    with pytest.raises(ValueError, match="unknown operation in kernels '99'"):
        Engine(MLP, head, weights, {99: "csr"})
    engine = Engine(MLP, head, weights, "csr")
    for bad, why in ((np.zeros((2, 4)), "must have shape"), (np.zeros((0, 5)), "is empty"), (np.full((1, 5), np.nan), "NaN")):
        with pytest.raises(ValueError, match=why):
            engine(bad)
    assert engine(np.zeros((2, 5), np.uint8)).dtype == np.float32


def test_kernels_can_be_chosen_one_by_one() -> None:
    engine = Engine(MLP, identity(MLP), weights_with(), "dense")
    first, second = engine.segments
    mixed = Engine(MLP, identity(MLP), weights_with(), {first: "csr", second: "dense"})
    assert mixed.kernels == {first: "csr", second: "dense"}
    x = rows(np.random.default_rng(0), 4, 5)
    np.testing.assert_allclose(mixed(x), engine(x), rtol=1e-5, atol=1e-6)


def test_without_numba_the_others_serve(without_numba) -> None:
    assert available() == ("dense", "csr")
    engine = Engine(MLP, identity(MLP), weights_with(), "auto")
    assert set(engine.kernels.values()) <= {"dense", "csr"}
    with pytest.raises(ImportError, match=r'pip install "bayesprune\[fast\]"'):
        Engine(MLP, identity(MLP), weights_with(), "numba")
    x = rows(np.random.default_rng(0), 4, 5)
    np.testing.assert_allclose(engine(x), Engine(MLP, identity(MLP), weights_with(), "dense")(x), rtol=1e-5, atol=1e-6)


@SLOW
def test_importing_does_not_import_numba() -> None:
    engines = "bayesprune.deploy.engines.engine, bayesprune.deploy.engines.measure"
    code = f"import sys, bayesprune, {engines}; assert 'numba' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- parts
@pytest.mark.parametrize(("size", "grain", "most"), [(1, 32, 4), (100, 32, 2), (100, 32, 9), (64, 32, 2), (97, 1, 3)])
def test_parts_cover_everything_once(size, grain, most) -> None:
    parts: list[tuple[int, int]] = []
    in_parts(lambda begin, end: parts.append((begin, end)), size, grain, most)
    assert len(parts) <= most
    assert all(begin % grain == 0 for begin, _ in parts)
    assert sorted(i for begin, end in parts for i in range(begin, end)) == list(range(size))


# ---- choosing by measurement
def compact():
    weights = weights_with()
    program = program_of(lambda _, x: jax.nn.silu(x @ weights["a"] + weights["b"]) @ weights["c"], {}, (5,))
    return compact_of(program.single(), Points())


@pytest.mark.parametrize("kernels", [("dense", "csr"), pytest.param(None, marks=SLOW)])
def test_what_is_measured_is_chosen(kernels) -> None:
    net = compact()
    choice = measure(net, (1, 40), kernels=kernels, num_repeats=2)
    assert Choice.read(json.loads(json.dumps(asdict(choice)))) == choice
    for size in ("1", "40"):
        line = choice.table[size]
        seconds = line["seconds"]
        assert {"kernels", "jax", "all dense", "all csr"} <= set(seconds)
        assert line["engine"] == min({"kernels", "jax", "bcsr"} & set(seconds), key=seconds.__getitem__)
        assert seconds["kernels"] <= min(seconds["all dense"], seconds["all csr"])
        for index, kernel in choice.kernels(int(size)).items():
            assert kernel in seconds[str(index)]
    x = rows(np.random.default_rng(0), 7, 5)
    expected = Engine(net.program, net.head, {}, "dense")(x)
    np.testing.assert_allclose(replace(net, choice=choice).predict(x), expected, rtol=1e-4, atol=1e-5)
    for engine in ("kernels", "jax", "bcsr"):
        forced = Choice({size: {**line, "engine": engine} for size, line in choice.table.items()})
        found = Engines(net, forced).at_mean("auto", 7)
        assert (found is None) == (engine == "jax")
        if engine == "kernels":
            assert found.kernels == choice.kernels(7)
        np.testing.assert_allclose(replace(net, choice=forced).predict(x), expected, rtol=1e-4, atol=1e-5)


def test_a_measurement_of_another_machine_is_not_used() -> None:
    line = {"engine": "kernels", "0": "csr"}
    assert Choice({"1": line}).holds_here()
    assert not Choice({"1": line}, "a machine with 1,000 processors").holds_here()
    assert Engines(compact(), Choice({"1": line}, "another")).choice is None


def test_a_measurement_needs_sizes_and_kernels() -> None:
    with pytest.raises(ValueError, match="batch_sizes must be a list of numbers of rows"):
        measure(compact(), ())
    with pytest.raises(ValueError, match="batch_sizes must be an integer of at least 1"):
        measure(compact(), (0,))
    with pytest.raises(ValueError, match="unknown kernel 'blas'"):
        measure(compact(), kernels=("blas",))
