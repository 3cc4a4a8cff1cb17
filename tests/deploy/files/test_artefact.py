"""One file of a compact network: the same network back, by this library and by NumPy alone; damaged files are refused."""

import json
import subprocess
import sys
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from scipy import integrate

import bayesprune as bp
from bayesprune.core.files import DamagedFileError
from bayesprune.deploy import reader
from bayesprune.deploy.files.coding import Coder, divergence
from bayesprune.deploy.program.weights import Draws
from tests.deploy.fits import DATA, fitted, regression

READER = Path(reader.__file__)
KEEPS = {"posterior": {}, "mean": {"keep": "mean"}, "draws": {"rng_key": jax.random.key(7), "num_draws": 5}}


def compacted(kind: str) -> bp.Compact:
    bnn, params, mask = fitted("flat")
    return bp.compact(bnn, params, mask, **KEEPS[kind])


def plan_of(path) -> dict:
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["plan"])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", KEEPS)
def test_the_same_network_comes_back(kind, tmp_path) -> None:
    small = compacted(kind)
    small.save(tmp_path / "net.bayesprune", metadata={"data": "toy"})
    back = bp.load(tmp_path / "net.bayesprune")
    np.testing.assert_array_equal(back.predict(DATA.x), small.predict(DATA.x))
    np.testing.assert_array_equal(
        back.predict_draws(jax.random.key(0), DATA.x, 2), small.predict_draws(jax.random.key(0), DATA.x, 2)
    )
    assert back.certify() == small.certify()
    assert (back.metadata, back.cost) == ({"data": "toy"}, small.cost)
    np.testing.assert_allclose(
        reader.predict(*reader.load(tmp_path / "net.bayesprune"), DATA.x), small.predict(DATA.x), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("kind", KEEPS)
def test_rows_in_portions_are_the_rows(kind, tmp_path, monkeypatch) -> None:
    compacted(kind).save(tmp_path / "net.bayesprune")
    read = reader.load(tmp_path / "net.bayesprune")
    together = reader.predict(*read, DATA.x)
    monkeypatch.setattr(reader, "ROWS", 40)
    assert len(DATA.x) % 40
    np.testing.assert_allclose(reader.predict(*read, DATA.x), together, rtol=1e-5, atol=1e-7)
    assert reader.predict(*read, DATA.x[:0]).shape == (0, 3)


def test_numpy_alone_reads_it(tmp_path) -> None:
    """In a process in which JAX and this library cannot be imported."""
    small = compacted("posterior")
    small.save(tmp_path / "net.bayesprune")
    np.save(tmp_path / "rows.npy", DATA.x)
    code = f"""
import sys, runpy
for name in ("jax", "bayesprune", "safetensors", "scipy"):
    sys.modules[name] = None
reader = runpy.run_path({str(READER)!r})
import numpy as np
np.save("predicted.npy", reader["predict"](*reader["load"]("net.bayesprune"), np.load("rows.npy")))
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "predicted.npy"), small.predict(DATA.x), rtol=1e-4, atol=1e-6)
    made = subprocess.run([sys.executable, READER, "net.bayesprune", "rows.npy"], cwd=tmp_path, check=True, capture_output=True)
    np.testing.assert_allclose(np.array(made.stdout.split(), float).reshape(-1, 3), small.predict(DATA.x), atol=1e-5)


@pytest.mark.parametrize("values", ["bfloat16", "posterior"])
def test_fewer_bytes_for_values(values, tmp_path) -> None:
    """Half of the bytes of each value, or the posterior's own precision: what is lost is stated, and small."""
    small = compacted("posterior")
    small.save(tmp_path / "net.bayesprune", values)
    back = bp.load(tmp_path / "net.bayesprune")
    stated = plan_of(tmp_path / "net.bayesprune")["divergence"]
    nats = 0.0
    for site, loc in small.law.loc.items():
        alive = small.law.scale[site] > 0
        pairs = (loc, small.law.scale[site], back.law.loc[site], back.law.scale[site])
        nats += sum(_kl(*numbers) for numbers in zip(*(array[alive].astype(float) for array in pairs), strict=True))
        np.testing.assert_array_equal(back.law.loc[site] == 0, (loc == 0) | (back.law.loc[site] == 0))
        np.testing.assert_array_equal(back.law.scale[site] > 0, alive)
    if values == "posterior":
        assert stated == pytest.approx(nats, rel=1e-4)
        assert 0 < stated < 0.03 * small.cost.alive
    else:
        assert stated == 0 < nats < 0.03 * small.cost.alive
    assert max(np.abs(back.predict(DATA.x) - small.predict(DATA.x)).max(), 1e-9) < 0.05


def test_the_posterior_s_precision_takes_a_third_of_the_bytes() -> None:
    """Of 4,000 weights of which a tenth is alive, places counted."""
    rng = np.random.default_rng(0)
    alive = rng.random(4000) < 0.1
    scale = np.where(alive, np.exp(rng.normal(-3, 0.5, 4000)), 0).astype(np.float32)
    loc = (scale * rng.normal(0, 5, 4000)).astype(np.float32)
    exact, short = Coder(), Coder()
    for name, array in (("loc", loc), ("scale", scale)):
        exact.plain(name, array, "float32", exact.mark("places", alive))
    width = short.logarithms("scale", scale, short.mark("places", alive))
    short.steps("loc", loc, width, "scale", "places")
    sizes = [sum(stream.nbytes for stream in coder.streams.values()) for coder in (exact, short)]
    assert sizes[1] < 0.37 * sizes[0]
    back = reader.decode({"arrays": short.arrays, "places": short.places}, short.streams)
    assert (np.abs(back["loc"] - loc)[alive] <= 0.2505 * back["scale"][alive]).all()
    assert (np.abs(np.log(back["scale"][alive] / scale[alive])) <= 1 / 16 + 1e-5).all()


def _kl(mean: float, std: float, new: float, width: float) -> float:
    """KL of the new Gaussian from the old one, by the formula."""
    return float(np.log(std / width) + (width**2 + (new - mean) ** 2) / (2 * std**2) - 0.5)


def test_the_divergence_is_that_of_the_densities() -> None:
    """By quadrature of q' log(q' / q)."""
    old, new = (0.3, 0.5), (0.4, 0.45)

    def log_density(x, mean, std):
        return -0.5 * ((x - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))

    integrand = lambda x: np.exp(log_density(x, *new)) * (log_density(x, *new) - log_density(x, *old))  # noqa: E731
    expected = integrate.quad(integrand, -8, 8)[0]
    assert divergence(*map(np.array, (old[0], old[1], new[0], new[1]))) == pytest.approx(expected, rel=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.0, 1.0), st.sampled_from([1, 7, 64, 1000]))
def test_places_come_back(seed, density, size) -> None:
    rng = np.random.default_rng(seed)
    array = np.where(rng.random(size) < density, rng.normal(size=size), 0).astype(np.float32)
    coder = Coder()
    coder.plain("a", array, "float32", coder.mark("a.places", array != 0))
    plan = {"arrays": coder.arrays, "places": coder.places}
    np.testing.assert_array_equal(reader.decode(plan, coder.streams)["a"], array)


def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path) -> None:
    """Every hundredth byte, and every length that a file may be cut to."""
    path = tmp_path / "net.bayesprune"
    compacted("mean").save(path)
    content = path.read_bytes()
    for place in range(0, len(content), 101):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x15]) + content[place + 1 :])
        with pytest.raises((ValueError, OSError)):
            bp.load(path)
        path.write_bytes(content[:place])
        with pytest.raises((ValueError, OSError)):
            bp.load(path)


def window(side: int) -> dict[str, Any]:
    return {"window": [1, 1], "strides": [1, 1], "sides": [[0, 0], [side, side]]}


BAD = {
    "a huge shape": lambda plan: next(iter(plan["arrays"].values())).update(shape=[1 << 40]),
    "a negative shape": lambda plan: next(iter(plan["arrays"].values())).update(shape=[-1]),
    "an unknown operation": lambda plan: plan["ops"][0].__setitem__(0, "system"),
    "an opaque operation": lambda plan: plan["ops"][0].__setitem__(0, "opaque"),
    "a number from nowhere": lambda plan: plan["ops"][0].__setitem__(1, [987654]),
    "another output": lambda plan: plan.update(output=987654),
    "an unknown law": lambda plan: plan["law"].update(kind="pickle"),
    "places before the first": lambda plan: None,
    "too large in all": lambda plan: [how.update(shape=[1 << 27]) for how in plan["arrays"].values()],
    "another kind of steps": lambda plan: [how.update(values={"of": "log", "type": "<c16"}) for how in plan["arrays"].values()],
    "a scale that is no number": lambda plan: plan["law"].update(log={"Dense_0.precision": ["0", "nan"]}),
    "a scale without a mean": lambda plan: plan["law"].update(log={name: [800.0, 1.0] for name in plan["law"]["log"]}),
    "a scale of another shape": lambda plan: [how["shape"].append(1) for n, how in plan["arrays"].items() if "scale/" in n],
    "one operand too many": lambda plan: plan["ops"][0][1].append(plan["rows"]),
    "half a row": lambda plan: plan["ops"].append(["broadcast", [plan["rows"]], [10**6], {"sizes": [-1, 2.5], "axes": [0, 1]}]),
    "outputs of another shape": lambda plan: plan.update(output_shape=[5]),
    "a certificate of words": lambda plan: plan["certificate"].update(float64="small"),
    "a cost of words": lambda plan: plan["cost"].update(numbers="few"),
    "a missing array": lambda plan: plan["arrays"].pop(next(iter(plan["arrays"]))),
    "a certificate that does not hold": lambda plan: plan["certificate"].update(mismatches=5),
    "edges below zero": lambda plan: plan["ops"].append(["window_sum", [plan["rows"]], [10**6], window(-1)]),
    "edges without end": lambda plan: plan["ops"].append(["window_sum", [plan["rows"]], [10**6], window(10**9)]),
    "a slice that is not there": lambda plan: plan["ops"].append(["take", [plan["rows"]], [10**6], {"index": [99], "axis": 1}]),
    "less than no values": lambda plan: [how.update(count=-1) for how in plan["places"].values()],
    "values without end": lambda plan: [how.update(count=3 * 10**8) for how in plan["places"].values()],
    "shapes that cancel": lambda plan: [how.update(shape=[(-1) ** n * 10**9]) for n, how in enumerate(plan["arrays"].values())],
    "a shape that is no number": lambda plan: [how.update(shape=[float("nan")]) for how in plan["arrays"].values()],
    "a size that is another one": lambda plan: plan["sizes"][str(plan["ops"][0][2][0])].append(1),
    "more values than places": lambda plan: next(iter(plan["places"].values())).update(count=1),
}


@pytest.mark.parametrize("what", BAD)
def test_a_stranger_s_plan_is_refused(what, tmp_path) -> None:
    """With a checksum that is right: what a plan says is checked before it is believed."""
    from bayesprune.core.formats import pack_tensors

    small = compacted("posterior")
    small.save(tmp_path / "net.bayesprune")
    with safe_open(tmp_path / "net.bayesprune", framework="np") as file:
        header, streams = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    plan = json.loads(header["plan"])
    BAD[what](plan)
    if what == "places before the first":
        name = next(name for name, how in plan["places"].items())
        count = plan["places"][name]["count"]
        plan["places"][name]["coding"] = "gaps"
        streams[name] = np.frombuffer(zlib.compress(np.arange(count).astype("<u4").tobytes()), np.uint8)
    header = {name: header[name] for name in ("format", "version", "metadata")} | {"plan": json.dumps(plan)}
    (tmp_path / "bad.bayesprune").write_bytes(pack_tensors(streams, header))
    tracemalloc.start()
    with pytest.raises((ValueError, OSError)):
        bp.load(tmp_path / "bad.bayesprune")
    assert tracemalloc.get_traced_memory()[1] < 30e6  # refused before it is made
    tracemalloc.stop()


def test_draws_of_another_number_at_one_site_are_refused(tmp_path) -> None:
    small = compacted("draws")
    values = dict(small.law.values)
    for short in (2, 0):
        values["Dense_0.kernel"] = values["Dense_0.kernel"][:short]
        replace(small, law=Draws(values)).save(tmp_path / "net.bayesprune")
        with pytest.raises(DamagedFileError, match="draws"):
            bp.load(tmp_path / "net.bayesprune")


def test_what_no_file_can_hold_is_refused(tmp_path) -> None:
    small = compacted("mean")
    with pytest.raises(ValueError, match="values must be one of"):
        small.save(tmp_path / "net", "float16")
    with pytest.raises(ValueError, match="independent Gaussians"):
        small.save(tmp_path / "net", "posterior")
    with pytest.raises(ValueError, match="not the same function"):
        replace(small, certificate=replace(small.certify(), mismatches=3)).save(tmp_path / "net")
    assert not (tmp_path / "net").exists()


@pytest.mark.slow
def test_a_posterior_is_read_too(tmp_path) -> None:
    bnn, params, _ = regression()
    bp.report.save_posterior(tmp_path / "p.safetensors", bnn.posterior(params), {}, {"seed": 1})
    assert bp.load(tmp_path / "p.safetensors").metadata == {"seed": 1}


def test_every_byte_of_the_header_is_covered(tmp_path) -> None:
    """The checksum's own name too: a file without one is none of ours."""
    path = tmp_path / "net.bayesprune"
    compacted("mean").save(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"checksum"', b'"checksun"'))
    with pytest.raises((ValueError, OSError)):
        bp.load(path)
