"""One file of a compact network: the same network back, by this library and by NumPy alone; damaged files are refused."""

import json
import re
import subprocess
import sys
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from scipy import integrate

import bayesprune as bp
from bayesprune.core.files import DamagedFileError
from bayesprune.core.formats import pack_tensors
from bayesprune.deploy import reader
from bayesprune.deploy.engines.measure import machine
from bayesprune.deploy.files.write import Coder, divergence
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


class Framed(nn.Module):
    """Numbers of its own beside the weights: of rows far from zero, and the least of float32, as masks of attention have it."""

    @nn.compact
    def __call__(self, x, train: bool = False):
        near = (x - jnp.asarray([1000.5, -20.25])) / jnp.asarray([1.0009765625, 0.5])
        return nn.Dense(2)(jnp.where(near > 0.0, near, jnp.full(2, jnp.finfo(jnp.float32).min)).max(axis=1, keepdims=True))


@pytest.mark.parametrize("values", ["float32", "bfloat16", "posterior"])
def test_what_is_no_weight_is_kept_whole(values, tmp_path) -> None:
    """With weights that are kept exactly the file predicts what the network does, to rounding."""
    bnn = bp.BNN(Framed(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(), input_shape=(2,))
    loc = {"Dense_0.kernel": np.array([[0.5, -1.5]]), "Dense_0.bias": np.array([1.0, 2.0])}
    data = bp.Dataset(np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32))
    params = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1, progress=False).params
    params = dict(params) | {f"{site}_dense_loc": array.astype(np.float32) for site, array in loc.items()}
    params |= {f"{site}_dense_scale": np.ones(array.shape, np.float32) for site, array in loc.items()}
    small = bp.compact(bnn, params)
    small.save(tmp_path / "net.bayesprune", values)
    x = np.float32([1000.5, -20.25]) + np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32)
    x[:, 0] = 1000.5 + np.abs(x[:, 0] - 1000.5)
    wanted = small.predict(x)
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(reader.predict(*reader.load(tmp_path / "net.bayesprune"), x), wanted, rtol=1e-6)


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


def forged(small: bp.Compact, folder: Path, change: Any) -> tuple[Path, Path]:
    """A network's file, and one after ``change`` of its plan, and perhaps its streams, with a checksum that is right."""
    small.save(folder / "net.bayesprune")
    with safe_open(folder / "net.bayesprune", framework="np") as file:
        header, streams = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    plan = json.loads(header["plan"])
    change(plan, streams) if change.__code__.co_argcount == 2 else change(plan)
    header = {name: header[name] for name in ("format", "version", "metadata")} | {"plan": json.dumps(plan)}
    (folder / "bad.bayesprune").write_bytes(pack_tensors(streams, header))
    return folder / "net.bayesprune", folder / "bad.bayesprune"


def refuses(path: Path) -> str:
    """Why a file is refused, by name and before more is made than a net of this size needs."""
    tracemalloc.start()
    try:
        with pytest.raises(DamagedFileError) as refusal:
            bp.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30e6
    assert str(path) in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize("what", BAD)
def test_a_stranger_s_plan_is_refused(what, tmp_path) -> None:
    """With a checksum that is right: what a plan says is checked before it is believed."""
    refuses(forged(compacted("posterior"), tmp_path, BAD[what])[1])


def put(name: str, value: float) -> Any:
    """Change one number of every stream of a kind."""

    def change(plan, streams) -> None:
        for stream in [stream for stream in streams if stream.startswith(f"{name}/") and stream.endswith(".values")]:
            streams[stream] = streams[stream].copy()
            streams[stream][0] = value

    return change


def gaps_before_the_first(plan, streams) -> None:
    name = next(iter(plan["places"]))
    plan["places"][name]["coding"], count = "gaps", plan["places"][name]["count"]
    streams[name] = np.frombuffer(zlib.compress(np.arange(count).astype("<u4").tobytes()), np.uint8)


def bomb(plan, streams) -> None:
    """Places, and values, that unpack to gigabytes, of shapes that agree with one another but not with the program."""
    name = next(iter(plan["arrays"]))
    places, size = plan["arrays"][name]["places"], 1 << 26
    for how in plan["arrays"].values():
        if how["places"] == places:
            how["shape"] = [size]
    plan["places"][places] = {"coding": "bits", "count": size}
    streams[places] = np.frombuffer(zlib.compress(b"\xff" * (size // 8), 9), np.uint8)


def many_operations(plan) -> None:
    """One after the other, each of them right."""
    last, first = plan["output"], 10**6
    sizes = plan["sizes"][str(last)]
    for number in range(first, first + 10**5):
        plan["ops"].append(["tanh", [last], [number], {}])
        plan["sizes"][str(number)], last = sizes, number
    plan["output"] = last


def a_wide_result(plan) -> None:
    """Sums of columns and rows, 2^40 numbers between them."""
    plan["ops"].append(["reduce_max", [plan["output"]], [10**7], {"axes": [1]}])
    plan["sizes"][str(10**7)] = [-1]
    for number, sizes in ((10**6, [-1, 1 << 20, 1]), (10**6 + 1, [-1, 1, 1 << 20])):
        plan["ops"].append(["broadcast", [10**7], [number], {"sizes": sizes, "axes": [0]}])
        plan["sizes"][str(number)] = sizes
    plan["ops"].append(["add", [10**6, 10**6 + 1], [10**6 + 2], {}])
    plan["sizes"][str(10**6 + 2)] = [-1, 1 << 20, 1 << 20]


FORGED = {
    "a scale below zero": (put("scale", -1.0), "scales below zero"),
    "a scale that is no number": (put("scale", np.nan), "not finite"),
    "a scale without end": (put("scale", np.inf), "not finite"),
    "a loc that is no number": (put("loc", np.nan), "not finite"),
    "a shared spread below zero": (lambda plan: [log.append(-log.pop()) for log in plan["law"]["log"].values()], "below zero"),
    "places before the first": (gaps_before_the_first, "places"),
    "gigabytes": (bomb, "the program has"),
    "more values than the file has": (lambda plan: [how.update(count=5) for how in plan["places"].values()], "not coded"),
    "a hundred thousand operations": (many_operations, "more than"),
    "a slice beyond the end": (lambda plan: added(plan, "slice", {"ranges": [[0, -1, 1], [0, 10**12, 1]]}), "slice|numbers"),
    "a slice from the end": (lambda plan: added(plan, "slice", {"ranges": [[0, -1, 1], [-5, 3, 1]]}), "numbers"),
    "a step of none": (lambda plan: added(plan, "slice", {"ranges": [[0, -1, 1], [0, 3, 0]]}), "slice"),
    "a power without end": (lambda plan: added(plan, "integer_pow", {"y": 10**300}), "numbers"),
    "texts for numbers": (lambda plan: added(plan, "convert", {"dtype": "U1000000"}), "type"),
    "more than there is room for": (a_wide_result, "more than"),
    "a look-up in its own last row": (lambda plan: added(plan, "take", {"index": [0, 3], "axis": 1}), "indices beyond"),
    "an argument for NumPy": (lambda plan: added(plan, "tanh", {"casting": "unsafe"}), "no operation"),
    "numbers below none": (lambda plan: plan["cost"].update(numbers=-3), "that are none"),
    "numbers beyond any": (lambda plan: plan["cost"].update(dense=10**400), "that are none"),
    "a loss in words": (lambda plan: plan.update(divergence="little"), "divergence"),
    "a loss below none": (lambda plan: plan.update(divergence=-1.0), "divergence"),
    "a certificate over another field": (lambda plan: plan["certificate"].update(prime=2), "certificate"),
    "a certificate that is no number": (lambda plan: plan["certificate"].update(float64=float("nan")), "certificate"),
    "noise below zero": (lambda plan: plan.update(noise_scale=-1.0), "noise"),
    "noise in words": (lambda plan: plan.update(noise_scale="0.5"), "noise"),
    "noise that is a truth": (lambda plan: plan.update(noise_scale=True), "noise"),
    "noise of more outputs than there are": (lambda plan: plan.update(noise_scale=[[[1.0] * 7]]), "noise"),
    "noise of networks that are not there": (lambda plan: plan.update(noise_scale=[1.0] * 7), "noise"),
    "another task": (lambda plan: plan.update(task="pickle"), "pickle"),
    "a measurement of nothing": (
        lambda plan: plan.update(choice={"table": {"1": {"engine": "kernels", "77": "csr"}}, "machine": machine()}),
        "not there",
    ),
    "a stream of no array": (lambda plan, streams: streams.update(more=np.zeros(3, np.uint8)), "of no array"),
    "weights that are whole": (
        lambda plan, streams: streams.update({n: a.astype(np.int32) for n, a in streams.items() if n.startswith("loc")}),
        "no real numbers",
    ),
    "rows that are weights": (lambda plan: plan["weights"].update(dict.fromkeys(plan["weights"], plan["rows"])), "shape"),
    "an array of two meanings": (lambda plan: plan["weights"].update(dict.fromkeys(plan["weights"], 1)), "shape"),
    "sizes without end": (lambda plan: plan["sizes"].update({"77": [10**30]}), "sizes"),
}  # fmt: skip


def added(plan, name: str, attributes: dict[str, Any]) -> None:
    """One more operation, on what the program gives."""
    plan["ops"].append([name, [plan["output"]], [10**6], attributes])
    plan["sizes"][str(10**6)] = plan["sizes"][str(plan["output"])]


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_file_is_refused_with_its_reason(what, tmp_path) -> None:
    change, told = FORGED[what]
    good, bad = forged(compacted("posterior"), tmp_path, change)
    assert re.search(told, refuses(bad))
    assert isinstance(bp.load(good), bp.Compact)


def test_steps_that_unpack_to_more_than_they_promise_are_refused(tmp_path) -> None:
    """A stream of whole numbers that is longer than its array, and one of steps of itself."""
    small = compacted("posterior")
    small.save(tmp_path / "net.bayesprune", "posterior")
    plan = plan_of(tmp_path / "net.bayesprune")
    long = np.frombuffer(zlib.compress(b"\x01" * 10**8, 9), np.uint8)
    name = next(name for name in plan["arrays"] if name.startswith("loc"))
    for change in (
        lambda plan, streams: streams.update({f"{name}.values": long}),
        lambda plan, streams: plan["arrays"][name].update(step=name),
        lambda plan, streams: plan["arrays"].update({name: plan["arrays"].pop(name), "loc": {}}),
    ):
        with safe_open(tmp_path / "net.bayesprune", framework="np") as file:
            header, streams = file.metadata(), {one: file.get_tensor(one) for one in file.keys()}  # noqa: SIM118
        plan = json.loads(header["plan"])
        change(plan, streams)
        header = {one: header[one] for one in ("format", "version", "metadata")} | {"plan": json.dumps(plan)}
        (tmp_path / "bad.bayesprune").write_bytes(pack_tensors(streams, header))
        refuses(tmp_path / "bad.bayesprune")


@pytest.mark.parametrize("many", [16, 4000])
def test_a_small_file_unpacks_to_little_unless_it_is_allowed(many, tmp_path, monkeypatch) -> None:
    """Zeros but for one weight of each unit: refused by what they would take, before they are made."""
    monkeypatch.setattr(reader, "ROOM", 1 << 16)
    one = np.zeros((8, many), np.float32)
    one[np.arange(many) % 8, np.arange(many)] = 1.0
    streams, arrays, places = (coder := Coder()).streams, coder.arrays, coder.places
    coder.plain("constant/1", one, "bfloat16", coder.mark("constant/1.places", one != 0))
    plan = {"arrays": arrays, "places": places}
    if many == 16:
        return reader.check_size(plan, streams)
    stored = sum(stream.nbytes for stream in streams.values())
    monkeypatch.setattr(reader, "TIMES", 4)
    with pytest.raises(ValueError, match=rf"{stored:,} bytes unpack to 128,000: .* load\(path, max_bytes=128000\)"):
        reader.check_size(plan, streams)
    reader.check_size(plan, streams, 128_000)


def test_what_is_refused_for_its_size_is_read_where_it_is_allowed(tmp_path, monkeypatch) -> None:
    path = tmp_path / "net.bayesprune"
    compacted("posterior").save(path, "posterior")
    monkeypatch.setattr(reader, "ROOM", 100)
    monkeypatch.setattr(reader, "TIMES", 0)
    for read in (bp.load, reader.load):
        with pytest.raises(ValueError, match=r"net\.bayesprune.* bytes unpack to [\d,]+: .*max_bytes=(\d+)") as told:
            read(path)
        needed = int(re.search(r"max_bytes=(\d+)", str(told.value))[1])
        read(path, max_bytes=needed)
        with pytest.raises(ValueError, match="max_bytes"):
            read(path, max_bytes=needed - 1)
    with pytest.raises(ValueError, match="max_bytes must be an integer"):
        bp.load(path, max_bytes=0)


@pytest.mark.parametrize("values", ["float32", "posterior"])
def test_a_large_array_is_read_within_twice_its_size(values, monkeypatch) -> None:
    """Whatever its coding: file and arrays together, for the reader that unpacks both."""
    monkeypatch.setattr(reader, "CHUNK", 1 << 14)
    rng, size = np.random.default_rng(0), 200_000
    alive = rng.random(size) < 0.7
    scale = np.where(alive, np.exp(rng.normal(-3, 0.5, size)), 0).astype(np.float32)
    loc = (scale * rng.normal(0, 5, size)).astype(np.float32)
    coder = Coder()
    places = coder.mark("places", alive)
    if values == "posterior":
        coder.steps("loc", loc, coder.logarithms("scale", scale, places), "scale", places)
    else:
        coder.plain("scale", scale, values, places)
        coder.plain("loc", loc, values, places)
    held = sum(stream.nbytes for stream in coder.streams.values()) + 8 * size
    tracemalloc.start()
    back = reader.decode({"arrays": coder.arrays, "places": coder.places}, coder.streams)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(back["scale"] > 0, alive) and peak < 2 * held, peak / held


def test_a_network_of_no_numbers_is_not_saved(tmp_path) -> None:
    small = compacted("posterior")
    loc = {site: np.full_like(array, np.nan) for site, array in small.law.loc.items()}
    with pytest.raises(ValueError, match="not finite"):
        replace(small, law=replace(small.law, loc=loc)).save(tmp_path / "net.bayesprune")
    assert not (tmp_path / "net.bayesprune").exists()


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
