"""Linear operations as sparse matrices, products in one form, and what is taken into a segment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from bayesprune.deploy import reader
from bayesprune.deploy.engines.engine import Engine
from bayesprune.deploy.program.linear import pattern
from bayesprune.deploy.program.normal import normal
from bayesprune.deploy.program.ops import Op
from bayesprune.deploy.sparse.kernels import LayerKernels, activate
from bayesprune.deploy.sparse.layouts import runs
from bayesprune.deploy.sparse.segments import Finder, folded
from tests.deploy.functions import FUNCTIONS, identity, numbers, program_of, rows, sparse

LAST = {"data": [0, 3, 1, 2], "weights": [3, 2, 0, 1], "result": [0, 3, 1, 2]}
FIRST = {"data": [0, 1, 2, 3], "weights": [0, 1, 2, 3], "result": [0, 1, 2, 3]}
PLAIN = {"strides": [1, 1], "sides": [[0, 0], [0, 0]], "dilation": [1, 1], "groups": 1}
CONVOLUTIONS = {
    "valid": (LAST, {}, (5, 6, 2), (3, 2, 2, 3)),
    "padded": (LAST, {"sides": [[1, 2], [0, 1]]}, (5, 6, 2), (3, 2, 2, 3)),
    "strides": (LAST, {"strides": [2, 3], "sides": [[1, 1], [1, 1]]}, (5, 6, 2), (3, 2, 2, 3)),
    "dilated": (LAST, {"dilation": [2, 1]}, (6, 5, 2), (3, 2, 2, 3)),
    "groups": (LAST, {"groups": 2}, (5, 6, 4), (3, 2, 2, 6)),
    "depthwise": (LAST, {"groups": 4, "sides": [[1, 1], [1, 1]]}, (5, 6, 4), (3, 3, 1, 4)),
    "channels first": (FIRST, {"strides": [2, 1], "sides": [[1, 0], [0, 1]]}, (2, 5, 6), (3, 2, 2, 2)),
    "mixed": ({"data": [0, 2, 3, 1], "weights": [1, 3, 0, 2], "result": [0, 2, 1, 3]}, {}, (6, 2, 5), (2, 3, 3, 2)),
    "line": ({"data": [0, 2, 1], "weights": [2, 1, 0], "result": [0, 2, 1]}, {"line": True}, (7, 2), (3, 2, 4)),
}
PADDED = (
    lambda w, x: jnp.tanh(jax.lax.conv_general_dilated(x, w["a"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))),
    {"a": (3, 3, 2, 3)},
    (8, 9, 2),
)


def matrix(op, shape, result, weights, where=None, width=None):
    where = np.arange(np.prod(shape)).reshape(shape) if where is None else where
    found = pattern(op, shape, result, weights != 0, where, width or int(np.prod(shape)))
    assert found is not None
    assert {found.ptr.dtype, found.columns.dtype, found.places.dtype} == {np.dtype(np.int32)}
    return csr_matrix((weights.reshape(-1)[found.places], found.columns, found.ptr), (found.height, found.width))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_its_matrix(name) -> None:
    axes, changes, shape, kernel = CONVOLUTIONS[name]
    attributes = {**axes, **PLAIN, **changes}
    if attributes.pop("line", False):
        attributes |= {"strides": [2], "sides": [[1, 1]], "dilation": [1]}
    rng = np.random.default_rng(0)
    x, weights = rows(rng, 3, *shape), sparse(rng, kernel)
    expected = reader.convolve(x, weights, **attributes)
    made = matrix(Op("conv", (0, 1), (2,), attributes), shape, expected.shape[1:], weights) @ x.reshape(3, -1).T
    np.testing.assert_allclose(made.T.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("window_sum", {"window": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "sides": [[0, 0]] * 4}),
        ("window_sum", {"window": [1, 3, 1, 2], "strides": [1, 1, 2, 1], "sides": [[0, 0], [1, 2], [0, 0], [0, 1]]}),
        ("reduce_sum", {"axes": [1, 2]}),
        ("reduce_sum", {"axes": [3]}),
        ("reduce_sum", {"axes": [2, 1]}),
    ],
)
def test_a_sum_is_its_matrix(name, attributes) -> None:
    x = rows(np.random.default_rng(0), 3, 4, 5, 2)
    expected = reader.step(name, attributes, 3, x)
    made = matrix(Op(name, (0,), (1,), attributes), x.shape[1:], expected.shape[1:], np.ones(1)) @ x.reshape(3, -1).T
    np.testing.assert_allclose(made.T.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


def test_a_matrix_reads_what_was_moved_from_where_it_was() -> None:
    """Places below zero are zeros: they have no entries."""
    rng = np.random.default_rng(0)
    x, weights, where = rows(rng, 3, 6), sparse(rng, (4, 2), 0.8), np.array([5, -1, 0, 2])
    op = Op("dot", (0, 1), (2,), {"contract": [[1], [0]], "batch": [[], []]})
    moved = np.where(where >= 0, x[:, where], 0)
    np.testing.assert_allclose((matrix(op, (4,), (2,), weights, where, 6) @ x.T).T, moved @ weights, rtol=1e-5)


def test_too_large_a_matrix_is_not_made(monkeypatch) -> None:
    monkeypatch.setattr("bayesprune.deploy.program.linear.LARGEST", 10)
    axes, _, shape, kernel = CONVOLUTIONS["valid"]
    op = Op("conv", (0, 1), (2,), {**axes, **PLAIN})
    assert pattern(op, shape, (3, 5, 3), np.ones(kernel, bool), np.arange(60).reshape(shape), 60) is None


# ---- runs
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", ["images", "padded image", "two taps", "dense"])
def test_runs_are_the_matrices(name, gaps) -> None:
    """What a kernel for one row does, by NumPy. With one tap a channel, beyond the end of a line there is nothing to add."""
    function, shapes, shape = ({"padded image": PADDED, "two taps": PADDED} | FUNCTIONS)[name]
    program, rng = program_of(function, shapes, shape), np.random.default_rng(0)
    weights, x = numbers(program, rng, 0.8), rows(rng, 1, *shape)
    if name == "two taps":
        weights["a"] = np.where(np.arange(3)[:, None, None] == np.array([0, 2, 0]), 1, 0) + np.zeros((3, 3, 2, 3), np.float32)
    engine = Engine(program, identity(program), weights, "dense")
    segments = list(engine.segments.values())
    linked = [one for i, one in enumerate(segments) if i == 0 or segments[i - 1].output == one.source]
    layers = LayerKernels(linked, gaps)
    entries, begin = layers.numbers([segment.weights for segment in linked])
    inputs, outputs, heights, *_ = layers.structure
    found, starts = runs(layers.patterns, entries, layers.gaps), np.cumsum([0, *heights])
    now, count = x.reshape(-1)[inputs], 0
    for i, (form, values, segment) in enumerate(zip(layers.patterns, entries, linked, strict=True)):
        made = begin[starts[i] : starts[i + 1]].copy()
        lines = slice(*found.ptr[i : i + 2])
        for (row, column, length), value in zip(found.places[lines], found.values[lines], strict=True):
            made[row : row + length] += value * now[column : column + found.strides[i] * length : found.strides[i]]
            count += 1
        if lines.start == lines.stop:
            made += csr_matrix((values, form.columns, form.ptr), (form.height, form.width)) @ now
        now = activate(made, segment.act, 0)
    expected = engine.values(x)[linked[-1].output].reshape(-1)
    np.testing.assert_allclose(now[outputs], expected, rtol=1e-4, atol=1e-5)
    assert not gaps or (count > 0) == (name != "dense")


# ---- products in one form
FORMS = {
    "W x": lambda w, x: jnp.tanh(w["w"] @ x.T + w["b"][:, None]).T @ w["v"],
    "x W": lambda w, x: jnp.tanh(x @ w["w"].T + w["b"]) @ w["v"],
    "by row": lambda w, x: jax.vmap(lambda row: w["v"].T @ jnp.tanh(w["w"] @ row + w["b"]))(x),
    "W last": lambda w, x: jax.lax.dot_general(w["v"], jnp.tanh(w["w"] @ x.T + w["b"][:, None]), (((0,), (0,)), ((), ()))).T,
    "products": lambda w, x: ((w["w"] @ x.T) * (w["w"] @ x.T) + 1.0).T @ w["v"],
}
SHAPES = {"w": (6, 4), "b": (6,), "v": (6, 3)}


@pytest.mark.parametrize("name", FORMS)
def test_one_form_is_the_same_function(name) -> None:
    rng = np.random.default_rng(0)
    program, x = program_of(FORMS[name], SHAPES, (4,)), rows(rng, 5, 4)
    weights = {site: sparse(rng, shape, 0.8) for site, shape in SHAPES.items()}
    changed = normal(program, program.weights.values())
    dots = [op for op in changed.ops if op.name == "dot"]
    assert [op.attributes["contract"] for op in dots] == [[[1], [0]]] * len(dots)
    assert not any(op.name == "transpose" and -1 in changed.sizes[op.inputs[0]] for op in changed.ops)
    values = {**program.constants, **{program.weights[site]: value for site, value in weights.items()}, program.rows: x}
    made = reader.run(changed.ops, dict(values), 5)[changed.output]
    np.testing.assert_allclose(made, FORMS[name](weights, x), rtol=1e-4, atol=1e-5)


def test_tokens_that_are_mixed_stay_in_place() -> None:
    """A product over an axis that is not the last: the rest keeps its order."""
    mixed = lambda w, x: jnp.einsum("rtc,ts->rsc", x, w["w"])  # noqa: E731
    rng = np.random.default_rng(0)
    program, x, weight = program_of(mixed, {"w": (3, 4)}, (3, 2)), rows(rng, 5, 3, 2), sparse(rng, (3, 4), 0.9)
    changed = normal(program, program.weights.values())
    values = {**program.constants, program.weights["w"]: weight, program.rows: x}
    np.testing.assert_allclose(
        reader.run(changed.ops, values, 5)[changed.output], mixed({"w": weight}, x), rtol=1e-4, atol=1e-5
    )


# ---- what is taken in
TAKEN = {
    "relu": (lambda y: jax.nn.relu(y + 1.0), "relu", 0),
    "tanh": (lambda y: jnp.tanh((y - 0.5) * 2.0), "tanh", 0),
    "logistic": (lambda y: jax.nn.sigmoid(3.0 - y), "logistic", 0),
    "silu": (lambda y: jax.nn.silu(y / 4.0), "silu", 0),
    "softmax": (lambda y: jax.nn.softmax(y, -1), "softmax", 0),
    "none": (lambda y: y * jnp.arange(1.0, 4.0), "none", 0),
    "all products are zero": (lambda y: jnp.tanh(y * 0.0), "tanh", 0),
    "read twice": (lambda y: jnp.tanh(y) + y, "none", 2),
    "another gate": (lambda y: y * jax.nn.sigmoid(2.0 * y), "none", 3),
    "not zero": (lambda y: jnp.maximum(y, 0.1), "none", 1),
    "one over": (lambda y: 1.0 / (y + 9.0), "none", 1),
    "not finite": (lambda y: jnp.minimum(y * 1e30 * 1e30, 1.0), "none", 2),
    "softmax and more": (lambda y: jax.nn.softmax(y, -1) + y, "none", 9),
    "softmax of fewer": (lambda y: jnp.exp(y - y.max(-1, keepdims=True)) / 2.0, "none", 5),
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", TAKEN)
def test_what_follows_a_product_is_taken_in(name) -> None:
    """``left``: operations on rows that are not; the function is the same by every kernel that needs no compiling."""
    function, act, left = TAKEN[name]
    program = program_of(lambda w, x: function(x @ w["w"]), {"w": (4, 3)}, (4,))
    weight = sparse(np.random.default_rng(0), (4, 3), 0.8)
    known = folded(program, {**program.constants, program.weights["w"]: weight})
    segment = Finder(program, known, {}, {}).segments()[0]
    others = [index for index, op in enumerate(program.ops) if op.outputs[0] not in known and index not in segment.taken]
    assert (segment.act, len(others) - 1) == (act, left)
    assert (segment.output == program.output) == (left == 0)
    x = rows(np.random.default_rng(1), 5, 4)
    for kernel in ("dense", "csr"):
        outputs = Engine(program, identity(program), {"w": weight}, kernel)(x)
        np.testing.assert_allclose(outputs, function(x @ weight), rtol=1e-5, atol=1e-6)


def test_whole_numbers_are_left_to_numpy() -> None:
    """A sum of integers is one of integers, beyond what float32 counts."""
    counted = lambda w, x: jnp.sum((x > 0).astype(jnp.int32) * 16_777_217, -1, keepdims=True)  # noqa: E731
    program, x = program_of(counted, {}, (3,)), rows(np.random.default_rng(0), 6, 3)
    assert Finder(program, folded(program, program.constants), {}, {}).segments() == []
    np.testing.assert_array_equal(Engine(program, identity(program), {}, "csr")(x), counted({}, x))
