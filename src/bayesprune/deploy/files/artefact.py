"""One file of a compact network: a safetensors file whose header holds the plan, readable by `reader` with NumPy alone."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_type_hints

import numpy as np

from bayesprune.core.files import reading, write_atomically
from bayesprune.core.formats import jsonable, pack_tensors, read_tensors
from bayesprune.deploy import reader
from bayesprune.deploy.engines.measure import Choice
from bayesprune.deploy.files.coding import VALUES, Coder, divergence
from bayesprune.deploy.program.ops import Op, Program
from bayesprune.deploy.program.packing import Packing
from bayesprune.deploy.program.run import check_shapes
from bayesprune.deploy.program.weights import Draws, Gaussian, Law, Points
from bayesprune.deploy.shrinking.certificate import Certificate
from bayesprune.deploy.shrinking.cost import Cost

WHAT, REMEDY = "file of a compact network", "Copy it, or save it, again."


def write(path: str | os.PathLike[str], compact: Any, values: str, metadata: Mapping[str, Any]) -> None:
    """Write a `Compact` to ``path``, whole or not at all; see `Compact.save`."""
    if values not in VALUES:
        raise ValueError(f"values must be one of {', '.join(map(repr, VALUES))}, got {values!r}.")
    if opaque := list(compact.pinned):
        raise ValueError(
            f"the network has operations that no file can hold: {', '.join(opaque)}. Keep it in Python, or "
            "write them by sums, products and functions of single entries."
        )
    coder = Coder()
    lost = _weights(coder, compact.law, values)
    for prefix, program in (("constant", compact.program), ("head", compact.head)):
        for number, array in program.constants.items():
            places = coder.mark(f"{prefix}/{number}.places", array != 0) if array.ndim else ""
            coder.plain(f"{prefix}/{number}", array, "float32" if values == "posterior" else values, places)
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
    header = {
        "format": reader.FORMAT,
        "version": reader.VERSION,
        "plan": json.dumps(plan, allow_nan=False, separators=(",", ":")),
        "metadata": json.dumps(jsonable(dict(metadata), "metadata"), allow_nan=False),
    }
    write_atomically(path, pack_tensors(coder.streams, header))


def read(path: str) -> dict[str, Any]:
    """The fields of a `Compact`. Errors as of `bayesprune.load`."""
    streams, header = read_tensors(path, WHAT, REMEDY)
    if header.get("format") != reader.FORMAT or header.get("version") != reader.VERSION:
        raise ValueError(
            f"{path} is no compact network of version {reader.VERSION}, its header says format {header.get('format')!r}, "
            f"version {header.get('version')!r}: read it with the release that wrote it."
        )
    with reading(path, WHAT, REMEDY):
        plan = json.loads(header["plan"])
        arrays = reader.decode(plan, streams)
        program, head, law = _read(plan, arrays, "constant"), _read(plan["head"], arrays, "head"), _read_law(plan, arrays)
        inputs, outputs = _read_rows(plan)
        check_shapes(program, law.shapes, inputs.row_shape, outputs.row_shape)
        check_shapes(head, {}, outputs.row_shape)
        return {
            "program": program,
            "law": law,
            "head": head,
            "inputs": inputs,
            "outputs": outputs,
            "cost": Cost(**{name: int(value) for name, value in plan["cost"].items()}),
            "task": str(plan["task"]),
            "noise_scale": None if plan["noise_scale"] is None else np.asarray(plan["noise_scale"], np.float64),
            "certificate": _read_certificate(plan["certificate"]),
            "choice": Choice.read(plan["choice"]) if plan.get("choice") else None,
            "metadata": json.loads(header["metadata"]),
        }


def _read_rows(plan: Mapping[str, Any]) -> tuple[Packing, Packing]:
    """The arrays of a row, and of its outputs."""
    one = {"inputs": ("input_shape", plan.get("takes", "float32")), "outputs": ("output_shape", "float32")}
    found = []
    for name, (shape, kind) in one.items():
        found.append(Packing.of_data(plan.get(name, [{"path": [], "shape": plan[shape], "takes": kind}])))
        if found[-1].row_shape != tuple(plan[shape]):
            raise ValueError(f"{name} of {found[-1].row_shape} numbers in a program of {plan[shape]}")
    return found[0], found[1]


def _weights(coder: Coder, law: Law, values: str) -> float:
    """The arrays of the law. Returns what their coding loses, in nats."""
    lost = 0.0
    if values == "posterior" and not isinstance(law, Gaussian):
        raise ValueError(
            f"values='posterior' is for independent Gaussians, got a law of {law.kind!r}: use 'float32' or 'bfloat16'."
        )
    if isinstance(law, Draws):
        for site, draws in law.values.items():
            coder.plain(f"draws/{site}", draws, values, coder.mark(f"draws/{site}.places", draws != 0))
    elif isinstance(law, Gaussian):
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
    if isinstance(law, Gaussian):
        return {"kind": law.kind, "shared": dict(law.shared), "log": {name: list(pair) for name, pair in law.log.items()}}
    return {"kind": law.kind, "shared": {}, "log": {}}


def _read_law(plan: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Law:
    kind, sites = plan["law"]["kind"], list(plan["weights"])
    if kind == Points.kind and not sites:
        return Points()
    if kind == Draws.kind:
        draws = {site: arrays[f"draws/{site}"] for site in sites}
        numbers = {len(values) for values in draws.values()}
        if len(numbers) > 1 or 0 in numbers:
            raise ValueError(f"draws of different numbers, or none: {', '.join(map(str, sorted(numbers)))}")
        return Draws(draws)
    if kind != Gaussian.kind:
        raise ValueError(f"unknown law {kind!r}")
    loc, scale = ({site: arrays[f"{name}/{site}"] for site in sites} for name in ("loc", "scale"))
    log = {str(name): (float(mean), float(std)) for name, (mean, std) in plan["law"]["log"].items()}
    if any(loc[site].shape != scale[site].shape for site in sites):
        raise ValueError("loc and scale are of different shapes")
    if not np.isfinite([number for mean, std in log.values() for number in (mean, std, math.exp(mean + 0.5 * std**2))]).all():
        raise ValueError("a shared scale is not finite")
    shared = {site: log[name] and name for site, name in plan["law"]["shared"].items()}
    return Gaussian(loc, scale, shared, log)


def _read_certificate(stated: Mapping[str, Any] | None) -> Certificate | None:
    """What the file says of itself, in its types."""
    if not stated:
        return None
    kinds = get_type_hints(Certificate)
    certificate = Certificate(**{name: kinds[name](value) for name, value in stated.items()})
    if not certificate.holds:
        raise ValueError(f"by its own certificate it is not the network that it was made from, {certificate}")
    return certificate


def _program(program: Program) -> dict[str, Any]:
    return {
        "ops": [[op.name, list(op.inputs), list(op.outputs), dict(op.attributes)] for op in program.ops],
        "sizes": {str(number): list(sizes) for number, sizes in program.sizes.items()},
        "constants": list(program.constants),
        "weights": dict(program.weights),
        "rows": program.rows,
        "output": program.output,
    }


def _check_attributes(name: str, attributes: Mapping[str, Any], sizes: Sequence[Sequence[int]]) -> None:
    """Refuse what JAX and NumPy do otherwise, and edges that make an array too large on the way."""
    if name == "take" and not all(0 <= i < sizes[0][attributes["axis"]] for i in attributes["index"]):
        raise ValueError(f"indices beyond the {sizes[0][attributes['axis']]} slices of an axis")
    if name in ("pad", "conv", *reader.WINDOW):
        sides = attributes["sides"]
        wide = math.prod(abs(n) for n in sizes[0]) * math.prod(1 + low + high for low, high in sides)
        if any(type(n) is not int or n < 0 for side in sides for n in side) or wide > reader.LARGEST:
            raise ValueError(f"edges {sides} about an array of {sizes[0]}")


def _read(plan: Mapping[str, Any], arrays: Mapping[str, np.ndarray], prefix: str) -> Program:
    """A program, every number of it defined before it is used."""
    sizes = {int(number): tuple(map(int, s)) for number, s in plan["sizes"].items()}
    constants = {int(number): arrays[f"{prefix}/{number}"] for number in plan["constants"]}
    weights = {str(site): int(number) for site, number in plan["weights"].items()}
    rows, output = int(plan["rows"]), int(plan["output"])
    known = {rows, *constants, *weights.values()}
    ops = []
    for name, inputs, outputs, attributes in plan["ops"]:
        takes = reader.TAKES.get(name, 1) if name != "concatenate" else max(1, len(inputs))
        if name not in reader.NAMES or len(inputs) != takes or len(outputs) != 1 or not set(inputs) <= known:
            raise ValueError(f"operation {name!r} of {inputs} is unknown or comes before what it reads")
        _check_attributes(name, attributes, [sizes.get(number, ()) for number in inputs])
        known.update(outputs)
        ops.append(Op(str(name), tuple(map(int, inputs)), tuple(map(int, outputs)), dict(attributes)))
    if output not in known or any(math.prod(map(abs, s)) > reader.LARGEST for s in sizes.values()):
        raise ValueError("the output is never made, or an array is too large")
    return Program(tuple(ops), sizes, constants, weights, rows, output)
