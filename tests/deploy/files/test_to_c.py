"""A compact network as a C99 header: what gcc makes of it is what NumPy's reader computes, operation by operation too."""

import ctypes
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.deploy import reader
from bayesprune.deploy.files.c_source import CSource
from bayesprune.deploy.files.to_c import export_c, prepared
from bayesprune.deploy.program.ops import Op
from bayesprune.deploy.program.packing import Packing
from bayesprune.deploy.program.weights import Draws, GaussianLaw
from tests.deploy.files.test_to_onnx import CASES, INEXACT, compact_of, reference, rows_for, single
from tests.deploy.fits import fitted
from tests.deploy.functions import FUNCTIONS, numbers, program_of, rows
from tests.deploy.functions import compact_of as network_of

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name}")) for name in ("gcc", "clang")
]
STRICT = ["-Wall", "-Wextra", "-std=c99", "-pedantic", "-Werror", "-O1", "-fPIC", "-shared"]
REFUSED = [("convert", "uint8")]


def compiled(folder: Path, names: list[str], compiler: str = "gcc"):
    """From the name of a header to a function of rows; all of them in one library."""
    lines = ["#include <stdio.h>"]
    for name in names:
        lines += [f'#include "{name}.h"', f"void run_{name}(const void *x, float *y);"]
        lines += [
            f"void run_{name}(const void *x, float *y) {{",
            f"  static float work[{name.upper()}_WORK]; {name}_predict(x, y, work); }}",
        ]
    (folder / "all.c").write_text("\n".join(lines) + "\n")
    done = subprocess.run([compiler, *STRICT, "all.c", "-o", "all.so", "-lm"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    library = ctypes.CDLL(str(folder / "all.so"))

    def function(name: str, shape: tuple[int, ...]):
        def outputs(x: np.ndarray) -> np.ndarray:
            made = np.full((len(x), *shape), np.nan, np.float32)
            for row, y in zip(np.ascontiguousarray(x), made, strict=True):
                getattr(library, f"run_{name}")(row.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))
            return made

        return outputs

    return function


def by_reader(network, x: np.ndarray) -> np.ndarray:
    """Row by row, by NumPy."""
    made = [
        reader.run(network.program.ops, {**network.known, network.program.rows: row[None].astype(np.float32)}, 1) for row in x
    ]
    return np.concatenate([values[network.program.output].astype(np.float32) for values in made])


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_operation_is_that_of_the_reader(tmp_path, compiler) -> None:
    written, refused = {}, set()
    for position, (name, attributes, operands, shape) in enumerate(CASES):
        try:
            export_c(single(name, attributes, operands, shape), tmp_path / f"case_{position}.h")
            written[position] = (name, attributes, operands, shape)
        except ValueError as error:
            refused.add((name, attributes.get("dtype", ""), str(error)))
    assert {case[:2] for case in refused} == {*REFUSED}
    assert all("has no form in a C header" in why for *_, why in refused)
    function = compiled(tmp_path, [f"case_{position}" for position in written], compiler)
    for position, (name, attributes, operands, shape) in written.items():
        for row in rows_for(name, 5, shape):
            expected = reference(name, attributes, operands, row[None]).astype(np.float32)
            made = function(f"case_{position}", expected.shape)(row[None])[0]
            message = f"{position} {name}"
            np.testing.assert_allclose(made, expected, rtol=4e-6, atol=2e-6 * (name in INEXACT), err_msg=message)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_between_bounds_that_are_no_numbers_there_is_none(tmp_path) -> None:
    net = lambda _, x: jax.lax.clamp(x[:, :1] / x[:, 1:2], x[:, 2:3], x[:, 3:4] / x[:, 4:])  # noqa: E731
    x = np.array([[1, 1, 2, 3, 1], [0, 0, 2, 3, 1], [1, 1, 2, 0, 0], [3, 1, 2, 4, 1]], np.float32)
    export_c(network_of(program_of(net, {}, (5,)).single()), tmp_path / "bounds.h")
    np.testing.assert_array_equal(compiled(tmp_path, ["bounds"])("bounds", (1,))(x).ravel(), [2, np.nan, np.nan, 3])


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_whole_networks_are_those_of_the_reader(tmp_path, compiler) -> None:
    """Densities at which matrices stand whole and as CSR; weights in float and in eight bits."""
    networks = {}
    for function, shapes, shape in FUNCTIONS.values():
        program, rng = program_of(function, shapes, shape).single(), np.random.default_rng(0)
        for density in (1.0, 0.2):
            loc = numbers(program, rng, density)
            law = GaussianLaw(loc, {site: (0.1 * (array != 0)).astype(np.float32) for site, array in loc.items()}, {}, {})
            for values in ("float32", "posterior"):
                networks[f"net_{len(networks)}"] = network_of(program, law), values, shape
    for name, (compact, values, _) in networks.items():
        export_c(compact, tmp_path / f"{name}.h", values)
    function, rng = compiled(tmp_path, list(networks), compiler), np.random.default_rng(1)
    for name, (compact, values, shape) in networks.items():
        x = rows(rng, 4, *shape)
        expected = by_reader(prepared(compact, values), x)
        np.testing.assert_allclose(function(name, expected.shape[1:])(x), expected, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["posterior", "mean"])
def test_a_fit_is_saved_as_a_header_that_predicts(tmp_path, keep) -> None:
    """One row by itself; certified, as every file is."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    bnn, params, mask = fitted("flat")
    small, x = (
        bp.compact(bnn, params, mask, keep),
        np.random.default_rng(0).standard_normal((6, *bnn.input_shape)).astype(np.float32),
    )
    small.save(tmp_path / "net.h")
    np.testing.assert_allclose(
        compiled(tmp_path, ["net"])("net", small.output_shape)(x), small.predict(x, engine="jax"), atol=1e-5
    )
    if keep == "posterior":
        small.save(tmp_path / "short.h", values="posterior")
        assert _constants(tmp_path / "short.h") < 0.7 * _constants(tmp_path / "net.h")


def _constants(path: Path) -> int:
    """What the header says that its constants take."""
    return int(path.read_text().split(" bytes of constants")[0].split()[-1])


@pytest.mark.slow
def test_bytes_stay_bytes(tmp_path) -> None:
    data = bp.Dataset((np.arange(40 * 6).reshape(40, 6) % 251).astype(np.uint8), np.arange(40) % 3)
    bnn = bp.BNN(
        bp.nets.MLP((5,), 3), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(6,),
        scaling=bp.data.Scaling(0.0, 255.0),
    )  # fmt: skip
    fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1, batch_size=40, progress=False)
    small = bp.compact(bnn, fit.params)
    export_c(small, tmp_path / "net.h")
    assert "net_predict(const uint8_t *x, float *y, float *work)" in (tmp_path / "net.h").read_text()
    if shutil.which("gcc"):
        made = compiled(tmp_path, ["net"])("net", (3,))(data.x[:4])
        np.testing.assert_allclose(made, small.predict(data.x[:4], engine="jax"), rtol=1e-5, atol=1e-6)


# ---- what can be said without a compiler
def test_memory_is_shared_by_what_is_not_needed_at_once() -> None:
    source = CSource("net")
    first = source.buffer((10,))
    source.step = 1
    source.used(first)
    second = source.buffer((4,))
    source.step = 2
    source.used(second)
    source.buffer((10,))
    places, size = source.placed()
    assert size == 14
    assert places["b0"] == places["b2"] == 0
    assert places["b1"] == 10


def test_equal_constants_and_equal_entries_stand_once() -> None:
    source = CSource("net")
    wide = source.constant(np.broadcast_to(np.asarray([1, 2, 3], np.float32), (5, 4, 3)))
    again = source.constant(np.asarray([1, 2, 3], np.float32))
    assert (wide.name, source.bytes, len(source.data)) == (again.name, 12, 1)
    assert wide.at(["i0", "i1", "i2"]) == f"{wide.name}[i2]"
    assert source.constant(np.full((7, 7), 0.5, np.float32)).at(["a", "b"]) == "0.5f"


def test_a_name_of_an_input_is_no_code(tmp_path) -> None:
    """A key of a dictionary may come from a stranger's file, and would end the comment that it stands in."""
    key = "*/ int evil(void) { return 1; } /* \n#define y 0 \\"
    bnn, params, mask = fitted("flat")
    small = bp.compact(bnn, params, mask, keep="mean")
    stranger = replace(small, inputs=Packing.of_shapes({key: small.inputs.row_shape}))
    stranger.save(tmp_path / "net.bayesprune")
    bp.load(tmp_path / "net.bayesprune").save(tmp_path / "net.h")
    comment, code = (tmp_path / "net.h").read_text().split("*/", 1)
    assert "evil" in comment and "evil" not in code and not set("#\\{}") & set(comment)


def test_what_a_header_cannot_say_is_refused_before_it_is_written(tmp_path) -> None:
    program = program_of(*FUNCTIONS["dense"])
    loc = numbers(program, np.random.default_rng(0))
    plain = GaussianLaw(loc, {site: np.ones_like(array) for site, array in loc.items()}, {}, {})
    small = network_of(program, plain)
    draws = network_of(program, Draws({site: np.stack([array, array]) for site, array in loc.items()}))
    sure = network_of(program, GaussianLaw(loc, {site: np.zeros_like(array) for site, array in loc.items()}, {}, {}))
    bits = compact_of([Op("convert", (0,), (1,), {"dtype": "uint8"})], {0: (-1, 3), 1: (-1, 3)}, {}, 1)
    for network, how, why in (
        (small, {"values": "bfloat16"}, "values must be one of 'float32', 'posterior' in a C header"),
        (draws, {}, "a C header is of one network, and 2 are stored here"),
        (sure, {"values": "posterior"}, "weights without spread"),
        (bits, {}, "operation 'convert to uint8' has no form in a C header"),
    ):
        with pytest.raises(ValueError, match=why):
            export_c(network, tmp_path / "net.h", **how)
    with pytest.raises(ValueError, match="path must be named by letters"):
        export_c(small, tmp_path / "a-net.h")
    with pytest.raises(ValueError, match="metadata go with"):
        small.save(tmp_path / "net.h", metadata={"by": "me"})
    with pytest.raises(ValueError, match="an ONNX model holds float32"):
        small.save(tmp_path / "net.onnx", values="posterior")
    assert not list(tmp_path.iterdir())


def test_eight_bits_lose_little_of_what_the_posterior_knows() -> None:
    """A step of at most half a scale is off by at most a quarter: 1/32 nat for each weight."""
    program = program_of(*FUNCTIONS["dense"])
    rng = np.random.default_rng(0)
    loc = numbers(program, rng)
    law = GaussianLaw(loc, {site: np.full_like(array, 0.2) * (array != 0) for site, array in loc.items()}, {}, {})
    network = prepared(network_of(program, law), "posterior")
    assert network.coded
    for number, one in network.coded.items():
        assert one.numbers.dtype == np.int8
        assert 0 < one.lost <= np.count_nonzero(network.known[number]) / 32 + 1


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_matrix_of_more_than_65535_living_weights_compiles_without_a_warning(compiler: str, tmp_path: Path) -> None:
    """Its places need 32 bits, whose signs C compares with care."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((420, 400)).astype(np.float32) * (rng.random((420, 400)) < 0.42)
    assert np.count_nonzero(a) > 65_535
    program = program_of(lambda w, x: x @ w["a"], {"a": a.shape}, (420,)).single()
    network = network_of(program, GaussianLaw({"a": a}, {"a": np.zeros_like(a)}, {}, {}))
    export_c(network, tmp_path / "net.h")
    x = rng.standard_normal((3, 420)).astype(np.float32)
    np.testing.assert_allclose(compiled(tmp_path, ["net"], compiler)("net", (400,))(x), x @ a, rtol=1e-4, atol=1e-4)
