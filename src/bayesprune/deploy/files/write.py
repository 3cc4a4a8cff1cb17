"""One file of a compact network, written: a safetensors file whose header holds the plan, or a file of the kind its name says.

Arrays are streams: values where they are not zero, and the places of those, whichever way is smaller. At the posterior's own
precision a scale is kept in steps of 1/8 of its logarithm and a loc in steps of half its scale: what is lost is a small part of
what the posterior does not know itself.
"""

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesprune.core.files import write_atomically
from bayesprune.core.formats import jsonable, pack_tensors
from bayesprune.deploy import reader
from bayesprune.deploy.files.promises import LONGEST, MOST_OPERATIONS, as_data, check_numbers
from bayesprune.deploy.files.to_c import export_c
from bayesprune.deploy.files.to_onnx import export_onnx
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.weights import Draws, GaussianLaw, Law

FOREIGN = (".npz", ".npy", ".pt", ".pth", ".pkl", ".pickle", ".h5", ".tflite", ".c")  # whose readers would not read ours
VALUES = ("float32", "bfloat16", "posterior")


class Coder:
    """Gathers streams, and the plan by which `reader.decode` reads them."""

    def __init__(self) -> None:
        self.streams: dict[str, np.ndarray] = {}
        self.arrays: dict[str, Any] = {}
        self.places: dict[str, Any] = {}
        self.marked: dict[str, np.ndarray] = {"": np.zeros(0, bool)}

    def mark(self, name: str, alive: np.ndarray) -> str:
        """Keep the places of an array's values, unless every place has one. Returns their name, or ""."""
        flat = np.asarray(alive, bool).reshape(-1)
        if flat.all():
            return ""
        index = np.flatnonzero(flat)
        ways = {"bits": np.packbits(flat).tobytes(), "gaps": np.diff(index, prepend=-1).astype("<u4").tobytes()}
        packed = {way: _packed(content) for way, content in ways.items()}
        coding = min(packed, key=lambda way: len(packed[way]))
        self.streams[name], self.marked[name] = packed[coding], flat
        self.places[name] = {"coding": coding, "count": len(index)}
        return name

    def plain(self, name: str, array: np.ndarray, values: str, places: str = "") -> None:
        """An array by its numbers; ``values``: "float32", or "bfloat16" for half of the bytes."""
        flat, coding = self._placed(array, places), "plain"
        if values == "bfloat16" and flat.dtype == np.float32:
            flat, coding = np.asarray(jnp.asarray(flat, jnp.bfloat16)).view(np.uint16), "bfloat16"
        self._add(name, array, flat, coding, places)

    def logarithms(self, name: str, array: np.ndarray, places: str) -> np.ndarray:
        """An array above zero, in steps of 1/8 of its logarithm. Returns it as it will be read."""
        whole = _shortest(8 * np.log(self._placed(array, places).astype(np.float64)))
        self._add(name, array, _packed(whole.tobytes()), {"of": "log", "type": whole.dtype.str}, places)
        return np.exp(whole / np.float32(8)).astype(np.float32)

    def steps(self, name: str, array: np.ndarray, step: np.ndarray, of: str, places: str) -> np.ndarray:
        """An array in steps of half of ``step``, the values of the array called ``of``. Returns it as it will be read."""
        whole = _shortest(2 * self._placed(array, places).astype(np.float64) / step)
        self._add(name, array, _packed(whole.tobytes()), {"of": "scale", "type": whole.dtype.str}, places, of)
        return (whole * step / 2).astype(np.float32)

    def _placed(self, array: np.ndarray, places: str) -> np.ndarray:
        flat = np.asarray(array).reshape(-1)
        return flat[self.marked[places]] if places else flat

    def _add(
        self, name: str, array: np.ndarray, stream: np.ndarray, coding: str | dict[str, Any], places: str, step: str = ""
    ) -> None:
        self.arrays[name] = {"shape": list(np.shape(array)), "places": places, "values": coding, "step": step}
        self.streams[f"{name}.values"] = stream


def _packed(content: bytes) -> np.ndarray:
    return np.frombuffer(zlib.compress(content, 9), np.uint8)


def _shortest(numbers: np.ndarray) -> np.ndarray:
    """The nearest whole numbers, of the smallest kind of integer that holds them."""
    numbers = np.round(numbers)
    largest = float(np.abs(numbers).max(initial=0))
    for kind in (np.int8, np.int16, np.int32):
        if largest <= np.iinfo(kind).max:
            return numbers.astype(kind)
    raise ValueError(f"a loc is {largest / 2:.3g} times its scale: keep the values as values='float32'.")


def divergence(loc: np.ndarray, scale: np.ndarray, kept_loc: np.ndarray, kept_scale: np.ndarray) -> float:
    """KL of the Gaussians that are kept from the true ones, summed, in nats.

    >>> round(divergence(np.zeros(1), np.ones(1), np.full(1, 0.25), np.ones(1)), 5)
    0.03125
    """
    mean, std, new, width = (np.asarray(array, np.float64) for array in (loc, scale, kept_loc, kept_scale))
    return float(np.sum(np.log(std / width) + (width**2 + (new - mean) ** 2) / (2 * std**2) - 0.5))


# ---- files
def save(compact: Any, path: str | os.PathLike[str], values: str, metadata: Mapping[str, Any] | None) -> None:
    """Write a `Compact` whose certificate, if it has one or can have one, holds; see `Compact.save`."""
    kind = os.path.splitext(path)[1].lower()
    if kind in FOREIGN:
        raise ValueError(f"{os.fspath(path)!r} has the name of another format: net.bayesprune, net.h and net.onnx are written.")
    if kind in (".h", ".onnx") and metadata is not None:
        raise ValueError(f"metadata go with a .bayesprune file, and {os.fspath(path)!r} has no room for them: leave them out.")
    if kind == ".onnx" and values != "float32":
        raise ValueError(f"values={values!r} goes with a .bayesprune file: an ONNX model holds float32.")
    other = kind in (".h", ".onnx") and compact.origin is None  # which asks for no certificate
    ready = compact if compact.certificate is not None or other else compact.certified()
    if ready.certificate is not None and not ready.certificate.holds:
        raise ValueError(ready.certificate.why_not())
    if kind == ".h":
        export_c(ready, path, values)
    elif kind == ".onnx":
        export_onnx(ready, path)
    else:
        write(path, ready, values, compact.metadata if metadata is None else metadata)


def write(path: str | os.PathLike[str], compact: Any, values: str, metadata: Mapping[str, Any]) -> None:
    """Write a `Compact` to ``path``, whole or not at all; see `Compact.save`."""
    if values not in VALUES:
        raise ValueError(f"values must be one of {', '.join(map(repr, VALUES))}, got {values!r}.")
    if opaque := list(compact.pinned):
        raise ValueError(
            f"the network has operations that no file can hold: {', '.join(opaque)}. Keep it in Python, or "
            "write them by sums, products and functions of single entries."
        )
    check_numbers(compact.law.tensors())
    coder = Coder()
    lost = _weights(coder, compact.law, values)
    for prefix, program in (("constant", compact.program), ("head", compact.head)):
        for number, array in program.constants.items():
            places = coder.mark(f"{prefix}/{number}.places", array != 0) if array.ndim else ""
            coder.plain(f"{prefix}/{number}", array, "float32", places)  # rounded, the least of float32 is minus infinity
    plan = _program(compact.program) | {
        "head": _program(compact.head),
        "input_shape": list(compact.inputs.row_shape),
        "output_shape": list(compact.outputs.row_shape),
        "takes": compact.takes if compact.inputs.is_one else "float32",
        "law": _law(compact.law),
        "cost": asdict(compact.cost),
        "task": compact.task,
        "noise_scale": None if compact.noise_scale is None else np.asarray(compact.noise_scale, np.float64).tolist(),
        "certificate": compact.certificate and asdict(compact.certificate),
        "choice": compact.choice and asdict(compact.choice),
        "values": values,
        "divergence": lost,
        "arrays": coder.arrays,
        "places": coder.places,
    }
    several = {"inputs": compact.inputs, "outputs": compact.outputs}
    plan |= {name: packing.as_data() for name, packing in several.items() if not packing.is_one}
    if any(of_one is not None for of_one in compact.bounds):
        plan["bounds"] = as_data(compact.bounds)
    text = json.dumps(plan, allow_nan=False, separators=(",", ":"))
    if len(text) > LONGEST or len(compact.program.ops) > MOST_OPERATIONS:
        raise ValueError(
            f"the network has {len(compact.program.ops):,} operations in {len(text):,} letters, and a file holds "
            f"{MOST_OPERATIONS:,} in {LONGEST:,}: keep it in Python."
        )
    header = {
        "format": reader.FORMAT,
        "version": reader.VERSION,
        "plan": text,
        "metadata": json.dumps(jsonable(dict(metadata), "metadata"), allow_nan=False),
    }
    write_atomically(path, pack_tensors(coder.streams, header))


def _weights(coder: Coder, law: Law, values: str) -> float:
    """The arrays of the law. Returns what their coding loses, in nats."""
    lost = 0.0
    if values == "posterior" and not isinstance(law, GaussianLaw):
        raise ValueError(
            f"values='posterior' is for independent Gaussians, got a law of {law.kind!r}: use 'float32' or 'bfloat16'."
        )
    if isinstance(law, Draws):
        for site, draws in law.values.items():
            coder.plain(f"draws/{site}", draws, values, coder.mark(f"draws/{site}.places", draws != 0))
    elif isinstance(law, GaussianLaw):
        for site, loc in law.loc.items():
            scale = law.scale[site]
            places = coder.mark(f"weight/{site}.places", (loc != 0) | (scale != 0))
            if values != "posterior":
                coder.plain(f"scale/{site}", scale, values, places)
                coder.plain(f"loc/{site}", loc, values, places)
                continue
            if ((loc != 0) & (scale == 0)).any():
                raise ValueError(f"{site} has weights without spread, and so no precision of their own: use values='float32'.")
            width = coder.logarithms(f"scale/{site}", scale, places)
            mean = coder.steps(f"loc/{site}", loc, width, f"scale/{site}", places)
            lost += divergence(loc[scale > 0], scale[scale > 0], mean, width)
    return lost


def _law(law: Law) -> dict[str, Any]:
    if isinstance(law, GaussianLaw):
        return {"kind": law.kind, "shared": dict(law.shared), "log": {name: list(pair) for name, pair in law.log.items()}}
    return {"kind": law.kind, "shared": {}, "log": {}}


def _program(program: OpProgram) -> dict[str, Any]:
    return {
        "ops": [[op.name, list(op.inputs), list(op.outputs), dict(op.attributes)] for op in program.ops],
        "sizes": {str(number): list(sizes) for number, sizes in program.sizes.items()},
        "constants": list(program.constants),
        "weights": dict(program.weights),
        "rows": program.rows,
        "output": program.output,
    }
