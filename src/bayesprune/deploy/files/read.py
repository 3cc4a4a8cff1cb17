"""What a file of ours holds: a fit, a posterior, or a compact network, of which nothing is believed before it is checked.

`reader` reads a compact network with NumPy alone.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_type_hints

import numpy as np

from bayesprune.core.checks import check_integer
from bayesprune.core.files import reading
from bayesprune.core.formats import read_tensors
from bayesprune.deploy import reader
from bayesprune.deploy.compact import Compact
from bayesprune.deploy.engines.engine import Engine
from bayesprune.deploy.engines.measure import Choice
from bayesprune.deploy.files.promises import LAWS, LONGEST, check, check_numbers, check_program, of_data, sizes_of
from bayesprune.deploy.files.write import VALUES
from bayesprune.deploy.program.laws import TASKS
from bayesprune.deploy.program.ops import Op, OpProgram
from bayesprune.deploy.program.packing import Packing
from bayesprune.deploy.program.weights import Draws, GaussianLaw, Law, Points
from bayesprune.deploy.shrinking.certificate import PRIME, Certificate
from bayesprune.deploy.shrinking.cost import Cost
from bayesprune.report import saved_fit
from bayesprune.report.export import SavedPosterior, load_posterior
from bayesprune.train.continuation import Kept
from bayesprune.train.result import FitResult

WHAT, REMEDY = "file of a compact network", "Copy it, or save it, again."
MOST_FLOPS = 1 << 63  # of a cost that is believed


def load(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> FitResult | Compact | SavedPosterior:
    """What a file of ours holds.

    A `FitResult` that ``fit.save`` wrote, its ``state`` now arrays by name; a `Compact` that `Compact.save` wrote; or a
    posterior, as `report.load_posterior` reads it.

    No code is run from a file: it holds numbers and names of known operations. A compact network's is checked once, completely,
    before anything is allocated: shapes, lengths, indices, and every operation, which has to give the sizes that are stated.

    Args:
        path: the file.
        max_bytes: what the arrays of a compact network may take in memory. A few kilobytes of a stranger's may be whole, and
            unpack to a gigabyte of zeros; so None allows 64 MiB, or 256 times what the arrays take in the file, whichever is
            more, and a file that needs more is refused with the number that would do. Other files hold their numbers as they
            are, at most 32 times smaller where these are zeros.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: it is none of these; `DamagedFileError`, a ``ValueError`` too: it has changed since, or is cut short.

    Example:
        >>> load("/nowhere/net.bayesprune")
        Traceback (most recent call last):
        ...
        FileNotFoundError: [Errno 2] no file at /nowhere/net.bayesprune: check the path.
    """
    path = os.fspath(path)
    if max_bytes is not None:
        check_integer(max_bytes, "max_bytes")
    if not os.path.isfile(path):
        raise FileNotFoundError(2, f"no file at {path}: check the path.")
    header = read_tensors(path, WHAT, REMEDY, header_only=True)[1]
    if header.get("format") != saved_fit.FORMAT:
        return _network(path, max_bytes)
    if saved_fit.WHOLE in header:
        fit = saved_fit.read_fit(path)
        state = None if fit.state is None else Kept(**fit.state)
        return FitResult(fit.params, state, fit.losses, fit.mask, fit.history)
    return load_posterior(path)


def _network(path: str, max_bytes: int | None) -> Compact:
    streams, header = read_tensors(path, WHAT, REMEDY)
    if header.get("format") != reader.FORMAT or header.get("version") != reader.VERSION:
        raise ValueError(
            f"{path} is no compact network of version {reader.VERSION}, its header says format {header.get('format')!r}, "
            f"version {header.get('version')!r}: read it with the release that wrote it."
        )
    with reading(path, WHAT, REMEDY):
        return _read(header, streams, max_bytes)


def _read(header: Mapping[str, str], streams: Mapping[str, np.ndarray], max_bytes: int | None) -> Compact:
    """Everything is checked here, once: first what the plan says, then the numbers."""
    if len(header["plan"]) > LONGEST:
        raise ValueError(f"a plan of {len(header['plan']):,} letters, more than {LONGEST:,}")
    plan = json.loads(header["plan"])
    _word(plan["values"], VALUES)
    _read_loss(plan["divergence"])
    inputs, outputs = _read_rows(plan)
    _check_plan(plan, check(plan, streams), inputs, outputs)
    reader.check_size(plan, streams, max_bytes)
    arrays = reader.decode(plan, streams)
    check_numbers(arrays)
    program, head = _program_of(plan, arrays, "constant"), _program_of(plan["head"], arrays, "head")
    law = _read_law(plan, arrays)
    return Compact(
        program=program,
        law=law,
        head=head,
        inputs=inputs,
        outputs=outputs,
        cost=_read_cost(plan["cost"]),
        task=_word(plan["task"], (*TASKS, "other")),
        noise_scale=_read_noise(plan["noise_scale"], law, outputs),
        certificate=_read_certificate(plan["certificate"]),
        choice=_read_choice(plan.get("choice"), program, head, law),
        metadata=json.loads(header["metadata"]),
        bounds=of_data(plan["bounds"], inputs.leaves) if "bounds" in plan else (),
    )


def _read_rows(plan: Mapping[str, Any]) -> tuple[Packing, Packing]:
    """The arrays of a row, and of its outputs."""
    one = {"inputs": ("input_shape", plan.get("takes", "float32")), "outputs": ("output_shape", "float32")}
    found = []
    for name, (shape, kind) in one.items():
        found.append(Packing.of_data(plan.get(name, [{"path": [], "shape": plan[shape], "takes": kind}])))
        if found[-1].row_shape != tuple(plan[shape]):
            raise ValueError(f"{name} of {found[-1].row_shape} numbers in a program of {plan[shape]}")
    return found[0], found[1]


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


def _program_of(plan: Mapping[str, Any], arrays: Mapping[str, np.ndarray], prefix: str) -> OpProgram:
    """A program that `check_program` has passed."""
    ops = tuple(Op(name, tuple(inputs), tuple(outputs), attributes) for name, inputs, outputs, attributes in plan["ops"])
    constants = {number: arrays[f"{prefix}/{number}"] for number in plan["constants"]}
    return OpProgram(ops, sizes_of(plan["sizes"]), constants, dict(plan["weights"]), plan["rows"], plan["output"])
