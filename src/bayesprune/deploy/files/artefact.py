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
from bayesprune.deploy.engines.engine import Engine
from bayesprune.deploy.engines.measure import Choice
from bayesprune.deploy.files import limits, promises
from bayesprune.deploy.files.coding import VALUES, Coder, divergence
from bayesprune.deploy.files.promises import LAWS
from bayesprune.deploy.program.laws import TASKS
from bayesprune.deploy.program.one_pass import MOST_OPERATIONS, check_program, sizes_of
from bayesprune.deploy.program.ops import Op, OpProgram
from bayesprune.deploy.program.packing import Packing
from bayesprune.deploy.program.weights import Draws, GaussianLaw, Law, Points
from bayesprune.deploy.shrinking.certificate import PRIME, Certificate
from bayesprune.deploy.shrinking.cost import Cost

WHAT, REMEDY = "file of a compact network", "Copy it, or save it, again."
MOST_FLOPS = 1 << 63  # of a cost that is believed
LONGEST = 1 << 22  # letters of a plan: what JSON makes of them takes ten times as many bytes


def write(path: str | os.PathLike[str], compact: Any, values: str, metadata: Mapping[str, Any]) -> None:
    """Write a `Compact` to ``path``, whole or not at all; see `Compact.save`."""
    if values not in VALUES:
        raise ValueError(f"values must be one of {', '.join(map(repr, VALUES))}, got {values!r}.")
    if opaque := list(compact.pinned):
        raise ValueError(
            f"the network has operations that no file can hold: {', '.join(opaque)}. Keep it in Python, or "
            "write them by sums, products and functions of single entries."
        )
    _check_numbers(compact.law.tensors())
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
        plan["bounds"] = limits.as_data(compact.bounds)
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


def read(path: str, max_bytes: int | None = None) -> dict[str, Any]:
    """The fields of a `Compact`; ``max_bytes`` that its arrays may take. Errors as of `bayesprune.load`."""
    streams, header = read_tensors(path, WHAT, REMEDY)
    if header.get("format") != reader.FORMAT or header.get("version") != reader.VERSION:
        raise ValueError(
            f"{path} is no compact network of version {reader.VERSION}, its header says format {header.get('format')!r}, "
            f"version {header.get('version')!r}: read it with the release that wrote it."
        )
    with reading(path, WHAT, REMEDY):
        return _read(header, streams, max_bytes)


def _read(header: Mapping[str, str], streams: Mapping[str, np.ndarray], max_bytes: int | None) -> dict[str, Any]:
    """Everything is checked here, once: first what the plan says, then the numbers."""
    if len(header["plan"]) > LONGEST:
        raise ValueError(f"a plan of {len(header['plan']):,} letters, more than {LONGEST:,}")
    plan = json.loads(header["plan"])
    _word(plan["values"], VALUES)
    _read_loss(plan["divergence"])
    inputs, outputs = _read_rows(plan)
    _check_plan(plan, promises.check(plan, streams), inputs, outputs)
    reader.check_size(plan, streams, max_bytes)
    arrays = reader.decode(plan, streams)
    _check_numbers(arrays)
    program, head = _program_of(plan, arrays, "constant"), _program_of(plan["head"], arrays, "head")
    law = _read_law(plan, arrays)
    return {
        "program": program,
        "law": law,
        "head": head,
        "inputs": inputs,
        "outputs": outputs,
        "cost": _read_cost(plan["cost"]),
        "task": _word(plan["task"], (*TASKS, "other")),
        "noise_scale": _read_noise(plan["noise_scale"], law, outputs),
        "certificate": _read_certificate(plan["certificate"]),
        "choice": _read_choice(plan.get("choice"), program, head, law),
        "metadata": json.loads(header["metadata"]),
        "bounds": limits.of_data(plan["bounds"], inputs.leaves) if "bounds" in plan else (),
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


def _check_plan(plan: Mapping[str, Any], kinds: Mapping[str, str], inputs: Packing, outputs: Packing) -> None:
    """Both programs in one pass each; ``kinds``: of the arrays by name."""
    names = LAWS[plan["law"]["kind"]][:1]
    weights = {number: kinds[f"{name}/{site}"] for site, number in plan["weights"].items() for name in names}
    for part, prefix, of, given, made in (
        (plan, "constant", weights, inputs.row_shape, outputs.row_shape),
        (plan["head"], "head", {}, outputs.row_shape, None),
    ):
        known = {number: kinds[f"{prefix}/{number}"] for number in part["constants"]}
        if {*known} & {*of} or len(of) < len(part["weights"]) or {*of.values()} - {"f"}:
            raise ValueError("an array of two meanings, or weights that are no real numbers")
        check_program(part["ops"], sizes_of(part["sizes"]), known | of, part["rows"], part["output"], given, made)


def _check_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    """Weights are finite and scales not below zero; a constant of a network may be anything, as what pads a maximum is."""
    for name, array in arrays.items():
        prefix = name.split("/")[0]
        if prefix in ("loc", "scale", "draws") and not np.isfinite(array).all():
            raise ValueError(f"{name} has entries that are not finite")
        if prefix == "scale" and (array < 0).any():
            raise ValueError(f"{name} has scales below zero")


def _read_law(plan: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Law:
    kind, sites, stated = plan["law"]["kind"], list(plan["weights"]), plan["law"]
    if kind != GaussianLaw.kind and (stated["log"] or stated["shared"]):
        raise ValueError(f"a law of the kind {kind!r} with shared scales")
    if kind == Points.kind:
        return Points()
    if kind == Draws.kind:
        return Draws({site: arrays[f"draws/{site}"] for site in sites})
    loc, scale = ({site: arrays[f"{name}/{site}"] for site in sites} for name in ("loc", "scale"))
    log = {str(name): (float(mean), float(std)) for name, (mean, std) in stated["log"].items()}
    if any(not math.isfinite(mean) or not 0 <= std < math.inf for mean, std in log.values()):
        raise ValueError("a shared scale is not finite, or its spread below zero")
    if any(not np.isfinite(np.float32(math.exp(mean + 0.5 * std**2))) for mean, std in log.values()):
        raise ValueError("a shared scale has no mean")
    shared = {site: log[name] and name for site, name in stated["shared"].items()}
    if not {*shared} <= {*sites}:
        raise ValueError("a shared scale of weights that are not there")
    return GaussianLaw(loc, scale, shared, log)


def _read_cost(stated: Mapping[str, Any]) -> Cost:
    found = Cost(**stated)
    if any(type(number) is not int or not 0 <= number < MOST_FLOPS for number in asdict(found).values()):
        raise ValueError(f"{str(found)[:200]}: numbers or FLOPs that are none")
    return found


def _read_noise(stated: object, law: Law, outputs: Packing) -> Any:
    """Standard deviations of the noise: one; or (networks, 1, outputs), either of them 1 where it is the same for all."""
    if stated is None:
        return None
    noise, networks = np.asarray(stated), law.num_draws if isinstance(law, Draws) else 1
    known = [{1, networks}, {1}, {1, *outputs.row_shape[-1:]}]
    fits = noise.ndim in (0, 3) and all(n in sizes for n, sizes in zip(noise.shape, known, strict=False))
    if noise.dtype.kind not in "fi" or not fits or not (np.isfinite(noise) & (noise >= 0)).all():
        raise ValueError("standard deviations of the noise that are none, or not those of each network or output")
    return noise.astype(np.float64)


def _read_loss(stated: object) -> None:
    """What the coding lost, in nats; a note for readers of the file."""
    if not isinstance(stated, int | float) or not 0 <= stated < math.inf:
        raise ValueError(f"a divergence of {str(stated)[:60]} nats")


def _read_choice(stated: object, program: OpProgram, head: OpProgram, law: Law) -> Choice | None:
    """What was measured; the operations that it names are looked for where it will be used."""
    choice = Choice.read(stated) if stated else None
    if choice is not None and choice.holds_here():
        segments = Engine(program, head, law.mean(), "dense").segments
        if missing := {op for rows in choice.table for op in choice.kernels(int(rows))} - {*segments}:
            raise ValueError(f"a measurement of operations that are not there: {sorted(missing)[:3]}")
    return choice


def _word(stated: object, known: Sequence[str]) -> str:
    if stated not in known:
        raise ValueError(f"{str(stated)[:60]!r} is none of {', '.join(known)}")
    return str(stated)


def _read_certificate(stated: Mapping[str, Any] | None) -> Certificate | None:
    """What the file says of itself, in its types."""
    if not stated:
        return None
    certificate = Certificate(**stated)
    for name, kind in get_type_hints(Certificate).items():
        value = getattr(certificate, name)
        if type(value) is not kind or value < 0:
            raise ValueError(f"a certificate with {name}={str(value)[:60]}")
    if not certificate.holds or certificate.prime != PRIME or certificate.rounds < 1 or math.isnan(certificate.float32):
        raise ValueError(f"by its own certificate it is not the network that it was made from, {certificate}")
    return certificate


def _program(program: OpProgram) -> dict[str, Any]:
    return {
        "ops": [[op.name, list(op.inputs), list(op.outputs), dict(op.attributes)] for op in program.ops],
        "sizes": {str(number): list(sizes) for number, sizes in program.sizes.items()},
        "constants": list(program.constants),
        "weights": dict(program.weights),
        "rows": program.rows,
        "output": program.output,
    }


def _program_of(plan: Mapping[str, Any], arrays: Mapping[str, np.ndarray], prefix: str) -> OpProgram:
    """A program that `check_program` has passed."""
    ops = tuple(Op(name, tuple(inputs), tuple(outputs), attributes) for name, inputs, outputs, attributes in plan["ops"])
    constants = {number: arrays[f"{prefix}/{number}"] for number in plan["constants"]}
    return OpProgram(ops, sizes_of(plan["sizes"]), constants, dict(plan["weights"]), plan["rows"], plan["output"])
