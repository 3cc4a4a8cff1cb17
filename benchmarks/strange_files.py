"""Files of a stranger: networks whose plan was changed at random, with a checksum that is right. What becomes of them?

    python benchmarks/strange_files.py --tries 2000

Each is refused by `bp.load` with its name, or is a network that predicts, by JAX and by NumPy alone: never an error later on,
never more than two seconds, never twice the memory of the honest file and its arrays (beside what JSON and Python take for any
file, 8 MB). Prints a table in markdown.
"""

import argparse
import json
import tempfile
import time
import tracemalloc
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import safe_open

import bayesprune as bp
from bayesprune.cells import table
from bayesprune.core.files import DamagedFileError
from bayesprune.core.formats import pack_tensors
from bayesprune.deploy import reader

FLOOR = 8e6
ODD: tuple[Any, ...] = (
    -1, 0, 1, 2, 3, 7, 1 << 20, 1 << 31, 10**12, 10**40, -(10**12), 0.5, -1.5, 1e300, float("nan"), float("inf"), None,
    True, False, "", "tanh", "dot", "take", "slice", "lookup", "float32", "object", "U99999999", "draws", "mean", [], [[]], {},
)  # fmt: skip
NUMBERS = (-1.0, float("nan"), float("inf"), 1e30, 0.0)


def network(kind: str) -> bp.Compact:
    """A small net after a few steps, with dead weights and units."""
    rng = np.random.default_rng(0)
    data = bp.Dataset(rng.normal(size=(60, 6, 6, 1)).astype(np.float32), np.arange(60) % 3)
    net = bp.nets.MLP((8, 6), 3) if kind != "images" else bp.nets.LeNet5(num_outputs=3)
    shape = (6, 6, 1) if kind != "images" else (32, 32, 1)
    x = data.x if kind != "images" else rng.normal(size=(60, *shape)).astype(np.float32)
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=shape)
    fit = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(x, data.y), num_steps=3, batch_size=30, progress=False)
    mask = {name: np.asarray(alive) & (rng.random(np.shape(alive)) < 0.4) for name, alive in fit.mask.items()}
    how = {"draws": {"rng_key": jax.random.key(1), "num_draws": 3}, "mean": {"keep": "mean"}}
    return bp.compact(bnn, fit.params, mask, **how.get(kind, {}))


def changed(value: Any, rng: np.random.Generator) -> Any:
    """The same JSON with one entry, somewhere, that is another, gone, or there twice."""
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key = list(value)[int(rng.integers(len(value)))]
        if rng.random() < 0.05:
            return {name: one for name, one in value.items() if name != key}
        return value | {key: changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.95:
        place, how = int(rng.integers(len(value))), rng.random()
        inner = [value[place]] * 2 if how < 0.05 else [] if how < 0.1 else [changed(value[place], rng)]
        return [*value[:place], *inner, *value[place + 1 :]]
    if type(value) is int and rng.random() < 0.4:
        return value + int(rng.integers(-2, 3))
    return ODD[int(rng.integers(len(ODD)))]


def forged(header: dict[str, str], streams: dict[str, np.ndarray], rng: np.random.Generator) -> bytes:
    """The file with one to three changes of its plan, or one of its numbers, or of what they unpack to."""
    plan, arrays, how = json.loads(header["plan"]), dict(streams), rng.random()
    if how < 0.7:
        for _ in range(int(rng.integers(1, 4))):
            plan = changed(plan, rng)
    elif how < 0.85:
        name = list(arrays)[int(rng.integers(len(arrays)))]
        arrays[name] = arrays[name].copy()
        flat = arrays[name].reshape(-1)
        if flat.size and flat.dtype.kind == "f":
            flat[int(rng.integers(flat.size))] = NUMBERS[int(rng.integers(len(NUMBERS)))]
        elif flat.size:
            flat[int(rng.integers(flat.size))] ^= int(rng.integers(1, 128))
    else:
        name = list(arrays)[int(rng.integers(len(arrays)))]
        arrays[name] = np.frombuffer(zlib.compress(b"\xff" * int(rng.integers(1, 1 << 24)), 9), np.uint8)
        if name in plan["places"] and rng.random() < 0.7:
            plan["places"][name]["count"] = int(rng.integers(1, 1 << 28))
            for one in plan["arrays"].values():
                one["shape"] = [1 << 27] if one["places"] == name else one["shape"]
    texts = {name: header[name] for name in ("format", "version", "metadata")} | {"plan": json.dumps(plan)}
    return pack_tensors(arrays, texts)


def verdict(path: Path, x: np.ndarray) -> str:
    """What becomes of a file."""
    try:
        small = bp.load(path)
    except DamagedFileError as error:
        return "refused" if str(path) in str(error) else "refused without its name"
    except Exception as error:
        return f"bare {type(error).__name__}"
    try:
        assert isinstance(small, bp.Compact)
        rows = x.reshape(2, *small.input_shape)
        one, other = small.predict(rows, engine="jax"), reader.predict(*reader.load(path), rows)
    except Exception as error:
        return f"accepted, then {type(error).__name__}: {str(error)[:80]}"
    return "a network" if one.shape == other.shape else "two networks"


def main() -> None:
    """Forge, load and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, lines = np.random.default_rng(asked.seed), []
    kinds = {
        "posterior": "float32",
        "posterior, coded": "posterior",
        "draws": "float32",
        "mean": "bfloat16",
        "images": "posterior",
    }
    for kind, values in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            good, bad = Path(folder, "net.bayesprune"), Path(folder, "bad.bayesprune")
            network(kind.split(",")[0]).save(good, values)
            with safe_open(good, framework="np") as file:
                header, streams = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            arrays = reader.decode(json.loads(header["plan"]), streams)
            honest = good.stat().st_size + sum(array.nbytes for array in arrays.values())
            found, slowest, peak = Counter[str](), 0.0, 0
            size = int(np.prod(json.loads(header["plan"])["input_shape"]))
            for _ in range(asked.tries // len(kinds)):
                bad.write_bytes(forged(header, streams, rng))
                tracemalloc.start()
                begin = time.perf_counter()
                try:
                    bp.load(bad)
                except Exception:
                    slowest = max(slowest, time.perf_counter() - begin)
                    peak = max(peak, tracemalloc.get_traced_memory()[1] - bad.stat().st_size)
                tracemalloc.stop()
                found[verdict(bad, np.zeros(2 * size, np.float32))] += 1
        others = (
            "; ".join(f"{name}: {count}" for name, count in found.items() if name not in ("refused", "a network")) or "none"
        )
        room = (peak - FLOOR) / honest
        lines.append([kind, str(found["refused"]), str(found["a network"]), others, f"{slowest:.2f}", f"{max(room, 0):.2f}"])
        print(lines[-1], flush=True)
    print(
        table(
            ["file", "refused", "a network", "anything else", "slowest refusal, s", "peak beyond 8 MB / honest"],
            lines,
            "lrrlrr",
        )
    )


if __name__ == "__main__":
    main()
