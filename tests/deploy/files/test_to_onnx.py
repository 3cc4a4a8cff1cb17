"""A compact network as an ONNX model: what onnxruntime computes is what the network predicts, operation by operation too."""

import sys
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from numpyro.handlers import seed, trace

import bayesprune as bp
from bayesprune.deploy import reader
from bayesprune.deploy.files.to_onnx import export_onnx
from bayesprune.deploy.program.ops import Op, OpProgram
from bayesprune.deploy.program.packing import Packing
from bayesprune.deploy.program.run import run
from bayesprune.deploy.program.weights import Draws, Points
from bayesprune.deploy.shrinking.cost import Cost
from bayesprune.model.bnn import STATE
from tests.deploy import functions, small_trees
from tests.structure.nets import NETS

onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")


# ---- running a model
def session(path) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def exported(folder, compact, **draws) -> Any:
    """From rows to the model's means."""
    export_onnx(compact, folder / "net.onnx", **draws)
    model = session(folder / "net.onnx")
    return lambda x: model.run(["mean"], {"x": x})[0]


# ---- single operations
X = "x"  # the rows, in the place of an operand
RNG = np.random.default_rng(0)
FLOATS, POSITIVE = RNG.normal(size=(3, 4)).astype(np.float32), RNG.uniform(0.3, 2, (3, 4)).astype(np.float32)
KERNEL = RNG.normal(size=(2, 3, 2, 4)).astype(np.float32)
BOOLS, WHOLE = FLOATS > 0, np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
NHWC = {"data": [0, 3, 1, 2], "weights": [3, 2, 0, 1], "result": [0, 3, 1, 2], "groups": 1}
PLAIN = {"strides": [1, 1], "sides": [[0, 0], [0, 0]], "dilation": [1, 1]}
UNEVEN = {"strides": [2, 1], "sides": [[1, 2], [0, 2]], "dilation": [1, 2]}
POOL = {"window": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "sides": [[0, 0], [0, 1], [2, 1], [0, 0]]}
OVER_CHANNELS = {"window": [1, 1, 1, 2], "strides": [1, 2, 1, 1], "sides": [[0, 0], [0, 0], [0, 0], [1, 0]]}
ALONG = {"window": [1, 2], "strides": [1, 1], "sides": [[0, 0], [1, 0]]}
FAR = {"window": [1, 1, 2, 3], "strides": [1, 1, 1, 2], "sides": [[0, 0], [0, 0], [1, 0], [2, 2]]}
ALL_ALONG = {"window": [1, 2, 2, 2], "strides": [1, 1, 2, 1], "sides": [[0, 0]] * 4}
NOWHERE = {"window": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "sides": [[0, 0], [0, 1], [0, 0], [0, 0]]}
IMAGE, VECTORS = (5, 6, 4), (3, 4)
INEXACT = ("conv", "cos", "dot", "erfc", "logistic", "sin", "window_sum")  # sums, and no digits left near their zeros

CASES: list[tuple[str, dict[str, Any], list[Any], tuple[int, ...]]] = [
    *[(name, {}, [X], VECTORS) for name in reader.UNARY],
    *[(name, {}, operands, VECTORS) for name in reader.BINARY for operands in ([X, POSITIVE], [POSITIVE, X], [X, X])],
    *[(name, {}, [X, np.float32(0.7)], VECTORS) for name in ("add", "max", "lt", "eq", "pow")],
    *[(name, {}, [X, WHOLE[:, :1]], VECTORS) for name in ("add", "div", "pow", "ge", "ne", "and")],
    *[(name, {}, [WHOLE, X], VECTORS) for name in ("sub", "max", "mul")],
    *[(name, {}, [X, BOOLS], VECTORS) for name in ("mul", "eq", "and", "or", "min")],
    *[("integer_pow", {"y": y}, [X], VECTORS) for y in (0, 1, 2, 3, -1, -2)],
    *[("convert", {"dtype": dtype}, [X], VECTORS) for dtype in ("float32", "float64", "int32", "int64", "uint8", "bool")],
    ("select", {}, [BOOLS, X, FLOATS], VECTORS),
    ("select", {}, [BOOLS[:1], FLOATS[:, :1], X], VECTORS),
    ("select", {}, [X, WHOLE, BOOLS], VECTORS),
    ("clamp", {}, [np.float32(-0.2), X, np.float32(0.3)], VECTORS),
    ("clamp", {}, [FLOATS - 1, X, np.float32(0.3)], VECTORS),
    *[(name, {"axes": axes}, [X], VECTORS) for name in reader.REDUCE for axes in ([1], [2], [1, 2], [])],
    *[(name, how, [X], IMAGE) for name in reader.WINDOW for how in (POOL, OVER_CHANNELS, ALL_ALONG, NOWHERE)],
    *[(name, how, [X], shape) for name in reader.WINDOW for how, shape in ((ALONG, (7,)), (FAR, (4, 5, 6)))],
    ("dot", {"contract": [[2], [0]], "batch": [[], []]}, [X, FLOATS.T], VECTORS),
    ("dot", {"contract": [[2], [1]], "batch": [[], []]}, [X, FLOATS], VECTORS),
    ("dot", {"contract": [[1], [1]], "batch": [[], []]}, [FLOATS.T, X], VECTORS),
    ("dot", {"contract": [[1, 2], [0, 1]], "batch": [[], []]}, [X, FLOATS], VECTORS),
    ("dot", {"contract": [[2], [2]], "batch": [[0], [0]]}, [X, X], VECTORS),
    ("dot", {"contract": [[3], [2]], "batch": [[0, 2], [0, 1]]}, [X, X], (3, 3, 3)),
    ("dot", {"contract": [[], []], "batch": [[1], [0]]}, [X, FLOATS], VECTORS),
    ("conv", NHWC | PLAIN, [X, KERNEL.astype(np.float64)], (5, 6, 2)),
    ("conv", NHWC | UNEVEN, [X, KERNEL], (5, 6, 2)),
    ("conv", NHWC | UNEVEN | {"groups": 2}, [X, KERNEL], IMAGE),
    ("conv", NHWC | PLAIN | {"groups": 4}, [X, KERNEL[:, :, :1]], IMAGE),
    ("conv", NHWC | PLAIN | {"data": [0, 1, 2, 3], "result": [1, 0, 3, 2]}, [X, KERNEL], (2, 5, 6)),
    (
        "conv",
        {"data": [0, 2, 1], "weights": [2, 1, 0], "result": [0, 2, 1], "groups": 1}
        | {"strides": [2], "sides": [[2, 0]], "dilation": [1]},
        [X, KERNEL[0]],
        (7, 2),
    ),
    *[("lookup", {"fill": fill}, [table, X], (5, 1)) for fill in (False, True) for table in (FLOATS, FLOATS[0], KERNEL)],
    ("reshape", {"sizes": [-1, 12]}, [X], VECTORS),
    ("reshape", {"sizes": [-3, 2, 2]}, [X], VECTORS),
    ("reshape", {"sizes": [3, -4]}, [X], VECTORS),
    ("transpose", {"order": [2, 0, 1]}, [X], VECTORS),
    ("transpose", {"order": [0, 1, 2]}, [X], VECTORS),
    ("broadcast", {"sizes": [-1, 3, 1, 4], "axes": [0, 1, 3]}, [X], VECTORS),
    ("broadcast", {"sizes": [-1, 3, 5, 4], "axes": [0, 1, 3]}, [X], VECTORS),
    ("broadcast", {"sizes": [-1, 2, 3, 4], "axes": [2, 3]}, [FLOATS], VECTORS),
    ("broadcast", {"sizes": [-2, 3, 4], "axes": [1, 2]}, [FLOATS[:, :1]], VECTORS),
    ("broadcast", {"sizes": [-1, 2], "axes": []}, [np.float32(3)], VECTORS),
    ("slice", {"ranges": [[0, -1, 1], [1, 3, 1], [0, 4, 3]]}, [X], VECTORS),
    ("slice", {"ranges": [[0, -1, 1], [0, 3, 1], [0, 4, 1]]}, [X], VECTORS),
    ("slice", {"ranges": [[0, -1, 1], [1, -1, 1], [0, -1, 2]]}, [X], VECTORS),
    ("take", {"index": [3, 0, 0], "axis": 2}, [X], VECTORS),
    ("reverse", {"axes": [1, 2]}, [X], VECTORS),
    ("reverse", {"axes": []}, [X], VECTORS),
    ("concatenate", {"axis": 2}, [X, X], VECTORS),
    ("pad", {"sides": [[0, 0], [1, 0], [0, 2]]}, [X, np.float32(-1.5)], VECTORS),
    ("pad", {"sides": [[0, 0], [1, 0], [0, 2]]}, [X, np.zeros((1,), np.int32)], VECTORS),
    ("pad", {"sides": [[0, 0], [0, 0], [0, 0]]}, [X, np.float32(1)], VECTORS),
    ("trees", small_trees.HOW, [X, *small_trees.NODES], (4,)),
    ("trees", small_trees.HOW | {"turns": 1}, [X, *small_trees.NODES], (4,)),
    ("trees", small_trees.HOW, [X, *small_trees.NODES[:3], np.tile(small_trees.VALUES, (1, 3)), small_trees.ROOTS], (4,)),
]


def rows_for(name: str, rows: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that the operation is defined on, some of them integers and some tiny."""
    x = np.random.default_rng(1).normal(scale=2, size=(rows, *shape)).astype(np.float32)
    x[:, ..., 0] = np.round(x[:, ..., 0])
    if x.ndim > 2 and x.shape[2] > 1:
        x[0, 0, 1], x[0, 1, 1] = 1e-4, -1e-4
    if name in ("log", "sqrt", "rsqrt", "pow", "log1p"):
        x = np.abs(x) + (name != "log1p") * np.float32(0.1)
        x[0, -1] = -0.8 if name == "log1p" else x[0, -1]
    if name in ("acos", "asin", "atanh"):
        x = np.tanh(x / 2)
    if name == "acosh":
        x = np.abs(x) + np.float32(1.1)
    if name in ("div", "integer_pow", "rem"):
        x = np.where(np.abs(x) < 1e-3, np.float32(0.7), x)
    return np.abs(x) if name == "convert" else x


def compact_of(ops, sizes, constants, output) -> bp.Compact:
    program = OpProgram(tuple(ops), sizes, constants, {}, 0, output)
    head = OpProgram((), {1: sizes[output]}, {}, {}, 1, 1)
    rows, outputs = (Packing.of_shapes(sizes[number][1:]) for number in (0, output))
    return bp.Compact(program, Points(), head, rows, outputs, Cost(*[0] * 6))


def single(name: str, attributes: dict[str, Any], operands: list[Any], shape: tuple[int, ...]) -> bp.Compact:
    """A network of one operation."""
    inputs = tuple(0 if isinstance(operand, str) else position + 2 for position, operand in enumerate(operands))
    constants = {n: np.asarray(operand) for n, operand in zip(inputs, operands, strict=True) if n}
    one, two = (np.shape(reference(name, attributes, operands, rows_for(name, rows, shape))) for rows in (1, 2))
    sizes = {n: constant.shape for n, constant in constants.items()} | {0: (-1, *shape)}
    sizes[1] = tuple(a if a == b else a - b for a, b in zip(one, two, strict=True))
    return compact_of([Op(name, inputs, (1,), attributes)], sizes, constants, 1)


def reference(name: str, attributes: dict[str, Any], operands: list[Any], x: np.ndarray) -> np.ndarray:
    arrays = [x if isinstance(operand, str) else np.asarray(operand) for operand in operands]
    with np.errstate(all="ignore"):
        return np.asarray(reader.step(name, attributes, len(x), *arrays))


def test_every_operation_is_among_the_cases() -> None:
    assert {name for name, *_ in CASES} == reader.NAMES


@pytest.mark.fast_cases(106)
@pytest.mark.parametrize(
    "name, attributes, operands, shape", CASES, ids=[f"{position}-{name}" for position, (name, *_) in enumerate(CASES)]
)
def test_an_operation_is_that_of_the_reader(tmp_path, name, attributes, operands, shape) -> None:
    model = exported(tmp_path, single(name, attributes, operands, shape))
    for rows in (1, 5):
        x = rows_for(name, rows, shape)
        expected = reference(name, attributes, operands, x).astype(np.float32)
        assert np.isnan(expected).any() <= attributes.get("fill", False)  # what lies beyond a table
        made = model(x)
        assert made.shape == expected.shape
        np.testing.assert_allclose(made, expected, rtol=3e-6, atol=1e-6 * (name in INEXACT))


@pytest.mark.parametrize(
    "name, x",
    [
        ("cbrt", [-8e-21, 0, 8e21]),
        ("erf", [-9, 1e-6, 9]),
        ("exp2", [-30, 30]),
        ("expm1", [-200, -1e-6, 0, 1e-6, 80]),
        ("is_finite", [np.inf, -np.inf, np.nan, 3e38]),
        ("log1p", [-1, -0.999999, -1e-6, 0, 1e-6, 1e6, 1e30]),
        ("logistic", [-15, 80]),
        ("rsqrt", [1e-30, 1e30]),
        ("tanh", [-80, 1e-6, 80]),
    ],
)
def test_functions_hold_where_they_are_hard(tmp_path, name, x) -> None:
    rows = np.asarray(x, np.float32)[:, None]
    exact = reference(name, {}, [X], rows.astype(np.float64))
    made = exported(tmp_path, single(name, {}, [X], (1,)))(rows)
    np.testing.assert_allclose(made, exact, rtol=3e-6, atol=1e-7 * (name == "logistic"))


def test_integers_and_booleans_go_through(tmp_path) -> None:
    """What the rows make of other types than float32: arithmetic, comparisons, reductions and choices."""
    x, sizes = 0, {number: (-1, 4) for number in range(12)} | {12: (-1,), 20: (), 21: (1, 4)}
    constants = {20: np.asarray(3), 21: np.asarray([[True, False, True, True]])}
    ops = [
        Op("convert", (x,), (1,), {"dtype": "int32"}),
        Op("gt", (1, 20), (2,), {}),
        Op("convert", (x,), (3,), {"dtype": "int64"}),
        Op("add", (1, 2), (4,), {}),
        Op("min", (2, 21), (5,), {}),
        Op("select", (5, 4, 3), (6,), {}),
        Op("div", (6, 20), (7,), {}),
        Op("ne", (5, 2), (8,), {}),
        Op("not", (8,), (9,), {}),
        Op("concatenate", (9, 5), (10,), {"axis": 1}),
        Op("mul", (7, 9), (11,), {}),
        Op("reduce_max", (11,), (12,), {"axes": [1]}),
    ]
    rows = np.random.default_rng(3).uniform(0, 6, (5, 4)).astype(np.float32)
    for output in (4, 6, 7, 10, 11, 12):
        needed = [op for op in ops if op.outputs[0] <= output]
        expected = reader.run(needed, {x: rows, **constants}, 5)[output].astype(np.float32)
        shapes = sizes | {10: (-1, 8)}
        made = exported(tmp_path, compact_of(needed, shapes, constants, output))(rows)
        np.testing.assert_allclose(made, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["window_max", "conv"])
def test_pools_and_convolutions_of_integers_are_refused(tmp_path, name) -> None:
    attributes, operands = (POOL, [1]) if name == "window_max" else (NHWC | PLAIN, [1, 3])
    ops = [Op("convert", (0,), (1,), {"dtype": "int32"}), Op(name, tuple(operands), (2,), attributes)]
    sizes = {0: (-1, 5, 6, 2), 1: (-1, 5, 6, 2), 2: (-1, 4, 4, 4), 3: KERNEL.shape}
    with pytest.raises(ValueError, match=f"'{name}' of integers"):
        export_onnx(compact_of(ops, sizes, {3: KERNEL}, 2), tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_numbers_beyond_whole_ones_are_the_nearest_of_them(tmp_path) -> None:
    """What is far out is clipped behind: Cast alone makes the least whole number of the largest float."""
    x = np.array([[3e9, -3e9, 2.5, -0.5]], np.float32)
    program = functions.program_of(lambda w, x: jnp.clip(x.astype(jnp.int32), -9, 9).astype(jnp.float32), {}, (4,))
    small = functions.compact_of(program)
    np.testing.assert_array_equal(exported(tmp_path, small)(x), [[9.0, -9.0, 2.0, 0.0]])
    for engine in ("jax", "kernels"):
        np.testing.assert_array_equal(small.predict(x, engine=engine), [[9.0, -9.0, 2.0, 0.0]])


def test_bytes_pass_through_but_nothing_is_computed_with_them(tmp_path) -> None:
    """Their overflow is another in JAX than in int32, in which ONNX would have to compute."""
    x, sizes = np.asarray([[200, 7, 0]], np.float32), {n: (-1, 3) for n in range(3)}
    as_bytes = Op("convert", (0,), (1,), {"dtype": "uint8"})
    made = exported(tmp_path, compact_of([as_bytes, Op("reverse", (1,), (2,), {"axes": [1]})], sizes, {}, 2))(x)
    np.testing.assert_array_equal(made, x[:, ::-1])
    with pytest.raises(ValueError, match="int8 and uint8"):
        export_onnx(compact_of([as_bytes, Op("add", (1, 1), (2,), {})], sizes, {}, 2), tmp_path / "net.onnx")


def test_an_unknown_operation_is_refused_by_name(tmp_path) -> None:
    odd = compact_of([Op("fft", (0,), (1,), {})], {0: (-1, 4), 1: (-1, 4)}, {}, 1)
    with pytest.raises(ValueError, match="'fft' has no form in ONNX"):
        export_onnx(odd, tmp_path / "net.onnx")


# ---- whole networks
class Separable(linen.Module):
    """Depthwise and strided convolutions of uneven padding, pools of every kind, a split and a concatenation."""

    @linen.compact
    def __call__(self, x):
        x = linen.max_pool(jax.nn.softplus(linen.Conv(6, (3, 2))(x)), (3, 3), (2, 2), padding="SAME")
        x = linen.elu(linen.Conv(12, (3, 3), (2, 1), feature_group_count=6, kernel_dilation=(1, 2))(x))
        a, b, c = jnp.split(linen.Conv(9, (1, 1))(x), 3, axis=-1)
        x = linen.avg_pool(jnp.concatenate([jnp.tanh(a), linen.swish(b), linen.gelu(c)], axis=-1), (2, 2), padding="SAME")
        return linen.Dense(3)(x.max(axis=1).reshape(len(x), -1))


WHOLE_NETS = {
    "mlp": (lambda: bp.nets.MLP((12, 9), 3), (5,)),
    "separable": (Separable, (8, 7, 3)),
    "lenet": (lambda: bp.nets.LeNet5(10), (28, 28, 1)),
    "resnet": (lambda: bp.nets.ResNet(10, stage_sizes=(1, 1), features=8), (8, 8, 3)),
    "resnet, group": (lambda: bp.nets.ResNet(10, stage_sizes=(1, 1), features=8, norm="group"), (8, 8, 3)),
    "vit": (lambda: bp.nets.ViT(10, patch=2, features=8, num_blocks=1, num_heads=2, hidden=12, frame=0), (4, 4, 3)),
    "mixer": (lambda: bp.nets.MLPMixer(10, 2, 8, 1, 6, 7, frame=0), (4, 4, 3)),
    **{name: NETS[name] for name in ("branches", "shared", "fused", "nnx", "equinox, images", "attention", "resnet, frn")},
}


def drawn_params(bnn: bp.BNN, seed_: int = 0) -> dict[str, Any]:
    """Parameters of the guide, of points and of statistics, drawn at random: nothing is compiled."""

    def sites(key):
        with seed(rng_seed=key):
            traced = [trace(bnn.guide).get_trace(), trace(bnn.network).get_trace(jnp.zeros((1, *bnn.input_shape)))]
        found = {name: site["value"] for part in traced for name, site in part.items() if site["type"] in ("param", "mutable")}
        return {name: value for name, value in found.items() if name == STATE or isinstance(value, jax.Array)}

    rng = np.random.default_rng(seed_)
    positive = lambda leaf: rng.uniform(0.5, 1.5, leaf.shape).astype(np.float32)  # noqa: E731
    params = {}
    for name, leaf in jax.eval_shape(sites, jax.random.key(0)).items():
        if name == STATE:
            params[name] = jax.tree.map(positive, dict(leaf))
        elif name.endswith("_scale"):
            params[name] = 0.1 * positive(leaf)
        else:
            wide = np.sqrt(max(np.prod(leaf.shape[:-1]), 1))
            params[name] = (rng.normal(size=leaf.shape) / (wide if leaf.ndim > 1 else 3)).astype(np.float32)
    return params


def drawn_mask(bnn: bp.BNN) -> dict[str, np.ndarray]:
    """Six of ten weights are alive, and three of four columns of a kernel."""
    rng, mask = np.random.default_rng(1), {}
    for spec in bnn.layout:
        if spec.prunable and len(spec.shape) > 1:
            mask[str(spec.path)] = (rng.random(spec.shape) < 0.6) & (rng.random(spec.shape[-1:]) < 0.75)
    return mask


@cache
def fitted(name: str) -> tuple[bp.BNN, dict[str, Any], dict[str, Any]]:
    net, shape = WHOLE_NETS[name]
    bnn = bp.BNN(net(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=shape)
    return bnn, drawn_params(bnn), drawn_mask(bnn)


@cache
def small(name: str = "mlp", keep: str = "posterior") -> bp.Compact:
    return bp.compact(*fitted(name), keep=keep)


def rows_of(compact: bp.Compact, rows: int = 5) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(rows, *compact.input_shape)).astype(np.float32)


@pytest.mark.slow_cases(8)
@pytest.mark.parametrize("keep", ["mean", "posterior"])
@pytest.mark.parametrize("name", WHOLE_NETS)
@pytest.mark.fast_cases(2)
def test_a_network_predicts_what_its_model_does(tmp_path, name, keep) -> None:
    compact = small(name, keep)
    model, x = exported(tmp_path, compact), rows_of(compact)
    expected = compact.predict(x)
    assert np.ptp(expected, axis=0).max() > 1e-3
    np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model(x[:1]), expected[:1], rtol=1e-4, atol=1e-5)


def test_the_model_says_what_it_wants_and_gives(tmp_path) -> None:
    export_onnx(small(keep="mean"), tmp_path / "sub" / "net.onnx")
    model = onnx.load(tmp_path / "sub" / "net.onnx")
    (x,), (mean,) = (session(tmp_path / "sub" / "net.onnx").get_inputs(), session(tmp_path / "sub" / "net.onnx").get_outputs())
    assert (x.name, x.shape, x.type) == ("x", ["rows", 5], "tensor(float)")
    assert (mean.name, mean.shape, mean.type) == ("mean", ["rows", 3], "tensor(float)")
    assert {node.domain for node in model.graph.node} == {""} and model.opset_import[0].version == 18 and model.ir_version == 8


def test_means_of_real_targets_have_no_axis_of_one(tmp_path) -> None:
    bnn = bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(0.1), input_shape=(3,))
    compact = bp.compact(bnn, drawn_params(bnn))
    x = rows_of(compact)
    np.testing.assert_allclose(exported(tmp_path, compact)(x), compact.predict(x), rtol=1e-4, atol=1e-5)
    assert compact.predict(x).shape == (5,)


def test_a_network_that_reads_no_rows_gives_every_row_the_same(tmp_path) -> None:
    bnn, params, _ = fitted("mlp")
    dead = {str(spec.path): np.zeros(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    for keep in ("mean", "posterior"):
        compact = bp.compact(bnn, params, dead, keep=keep)
        x = rows_of(compact)
        np.testing.assert_allclose(exported(tmp_path, compact)(x), compact.predict(x), rtol=1e-4)


# ---- draws
def averaged(compact: bp.Compact, x: np.ndarray, rng_key: jax.Array, number: int) -> np.ndarray:
    """The mean over networks of the law, one by one."""

    @jax.jit
    def means(index, tensors):
        return run(compact.head, {}, run(compact.program, compact.law.draw(rng_key, index, tensors), x))

    return np.mean([means(index, compact.law.tensors()) for index in compact.law.chosen(number)], axis=0)


@pytest.mark.slow
def test_networks_drawn_now_are_those_of_the_key(tmp_path, rng_key) -> None:
    compact = small()
    x = rows_of(compact)
    made = exported(tmp_path, compact, rng_key=rng_key, num_draws=4)(x)
    np.testing.assert_allclose(made, averaged(compact, x, rng_key, 4), rtol=1e-5, atol=1e-6)
    assert np.abs(made - averaged(compact, x, rng_key, 3)).max() > 1e-3


def test_stored_draws_are_averaged(tmp_path, rng_key) -> None:
    """All of them without a key; with one so many, evenly over all, and never more than there are."""
    compact = small()
    values = {
        site: loc + np.float32(0.3) * np.arange(3, dtype=np.float32).reshape(3, *[1] * loc.ndim)
        for site, loc in compact.law.loc.items()
    }
    stored = replace(compact, law=Draws(values))
    x = rows_of(compact)
    for asked, number in ((None, 3), (2, 2), (9, 3)):
        draws = {} if asked is None else {"rng_key": rng_key, "num_draws": asked}
        made = exported(tmp_path, stored, **draws)(x)
        np.testing.assert_allclose(made, averaged(stored, x, rng_key, number), rtol=1e-5, atol=1e-6)


def test_one_network_is_no_matter_of_draws(tmp_path, rng_key) -> None:
    compact = small(keep="mean")
    x = rows_of(compact)
    np.testing.assert_array_equal(exported(tmp_path, compact, rng_key=rng_key, num_draws=5)(x), exported(tmp_path, compact)(x))


@pytest.mark.slow
def test_what_no_weight_reaches_is_written_once(tmp_path, rng_key) -> None:
    """Of LeNet the frame around the image; and constants, such as a pool's size, stand once for all networks."""
    compact = small("lenet")
    sizes = {}
    for number in (1, 2, 3):
        export_onnx(compact, tmp_path / "net.onnx", rng_key=rng_key, num_draws=number)
        graph = onnx.load(tmp_path / "net.onnx").graph
        sizes[number] = len(graph.initializer), sum(node.op_type == "Pad" for node in graph.node)
    assert sizes[2][0] - sizes[1][0] == sizes[3][0] - sizes[2][0] == len(compact.program.weights)
    assert sizes[3][1] == sizes[1][1] == 1


@pytest.mark.parametrize("settings", [{"num_draws": 3}, {"rng_key": jax.random.key(0)}])
def test_a_key_and_a_number_go_together(tmp_path, settings) -> None:
    with pytest.raises(ValueError, match="both rng_key= and num_draws="):
        export_onnx(small(), tmp_path / "net.onnx", **settings)


# ---- refusals
class Sorted(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(jnp.sort(linen.Dense(3)(x), axis=-1))


def test_a_network_with_an_opaque_operation_is_refused(tmp_path) -> None:
    bnn = bp.BNN(Sorted(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    with pytest.raises(ValueError, match="ONNX cannot hold sort: keep"):
        export_onnx(bp.compact(bnn, drawn_params(bnn)), tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_more_than_a_file_can_hold_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("bayesprune.deploy.files.onnx_graph.LARGEST", 100)
    with pytest.raises(ValueError, match="two gigabytes at most"):
        export_onnx(small(), tmp_path / "net.onnx")


def test_without_onnx_the_remedy_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "bayesprune\[export\]"'):
        export_onnx(small(keep="mean"), tmp_path / "net.onnx")
