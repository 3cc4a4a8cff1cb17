"""A compact network as one C99 header: constants and one function, without allocation, and no library but the mathematical."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesprune.core.files import write_atomically
from bayesprune.deploy import reader
from bayesprune.deploy.files.c_ops import Operations
from bayesprune.deploy.files.c_source import CSource, Ref, strides_of
from bayesprune.deploy.program.linear import terms
from bayesprune.deploy.program.ops import Op, OpProgram, alive
from bayesprune.deploy.program.packing import Packing
from bayesprune.deploy.program.weights import GaussianLaw, Weighted, check_one
from bayesprune.deploy.reader import WHOLE
from bayesprune.deploy.sparse.segments import traced, with_weights

VALUES = ("float32", "posterior")
LARGEST = 127  # of a whole number of eight bits
PLAIN = re.compile(r"[^\w .\[\]-]", re.ASCII)  # what is no letter, digit, or mark of a name
TYPES = {"float32": "float", "uint8": "uint8_t", "int32": "int32_t", "bool": "uint8_t"}
MOST = WHOLE // 2  # of what becomes whole, as rows do: JAX adds a table's length to ids, of which it takes none later
MOVED = ("reshape", "transpose", "broadcast", "slice", "take", "reverse", "lookup")  # the first array's numbers
CHOSEN = ("select", "concatenate", "pad", "reduce_max", "reduce_min", "max", "min", "clamp", *MOVED)  # numbers that there were
SUMS = ("dot", "reduce_sum", "reduce_prod", "window_sum")  # and products, of several numbers
Ends = tuple[int, int]  # the least and the largest that a number may be


@dataclass(frozen=True)
class Coded:
    """A matrix of weights in whole numbers: ``numbers`` in steps of ``steps``, one for each output; ``lost``: nats."""

    numbers: np.ndarray
    steps: np.ndarray
    lost: float


@dataclass(frozen=True)
class CNetwork:
    """What is written: ``program``, network and head in one; ``known``: arrays by number, as C has them; ``coded``: of these,
    which are whole numbers of steps."""

    program: OpProgram
    known: Mapping[int, np.ndarray]
    coded: Mapping[int, Coded]


def export_c(compact: Weighted, path: str | os.PathLike[str], values: str = "float32") -> None:
    """Write E[y | x] of the network at the posterior mean as one C99 header, whole or not at all; see `Compact.save`.

    The header, ``net.h``, has ``net_predict(x, y, work)``: one row ``x``, its outputs ``y``, and memory for ``NET_WORK``
    numbers. A matrix is CSR where that takes fewer bytes; what is the same along an axis is written once.

    Args:
        compact: a `Compact`.
        path: where to, its name in letters, digits and "_": names in the header begin with it.
        values: "float32"; or "posterior", weights of products in eight bits: whole numbers of steps, a step for each output:
            half of the smallest scale of its weights, which is what the posterior does not know itself, or more where eight
            bits do not reach. What that loses, (1/2) sum ((w - rounded) / scale)², is in the header, in nats.

    Raises:
        ValueError: an operation that has no form in C, by its name; whole numbers that may pass 2**24; stored draws; unknown
            ``values``; "posterior" without spread; a name of which C can make none.

    Example:
        >>> import jax, tempfile, bayesprune as bp
        >>> bnn = bp.BNN(bp.nets.MLP((8,), 3), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(4,))
        >>> train = bp.Dataset(np.ones((20, 4)), np.arange(20) % 3)
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=1, batch_size=20)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_c(bp.compact(bnn, fit.params, fit.mask), os.path.join(folder, "net.h"))
        ...     "#define NET_INPUTS 4" in Path(folder, "net.h").read_text()
        True
    """
    path = Path(path)
    name = path.stem
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(
            f"path must be named by letters, digits and '_', a letter first, got {path.name!r}: C's names begin so."
        )
    network = prepared(compact, values)
    write_atomically(path, _text(compact, network, name).encode())


def prepared(compact: Weighted, values: str = "float32") -> CNetwork:
    """The network as it will be written, and a check that it can be. Arguments, errors: as of `export_c`."""
    if values not in VALUES:
        raise ValueError(f"values must be one of {', '.join(map(repr, VALUES))} in a C header, got {values!r}.")
    check_one(compact.law, "a C header")
    program, known = with_weights(compact.program, compact.head, compact.law.mean())
    coded = _coded(compact, program, known) if values == "posterior" else {}
    if coded:
        whole = {n: (one.numbers * one.steps).astype(np.float32) for n, one in coded.items()}
        known = {**known, **whole}
    ops = tuple(op for op in alive(program.ops, program.output)[0] if op.outputs[0] not in known)
    return CNetwork(OpProgram(ops, program.sizes, {}, {}, program.rows, program.output), known, coded)


def _coded(compact: Weighted, program: OpProgram, known: Mapping[int, np.ndarray]) -> dict[int, Coded]:
    """The matrices of products that are random."""
    law = compact.law
    if not isinstance(law, GaussianLaw):
        raise ValueError("values='posterior' needs weights with a spread: compact with keep='posterior', or write float32.")
    sites = {number: site for site, number in compact.program.weights.items()}
    places = traced(program, {number: compact.program.shapes[number] for number in sites})
    found = dict[int, Coded]()
    for op in program.ops:
        if op.name not in ("dot", "conv") or op.inputs[1] not in places or op.inputs[0] in known:
            continue
        number, place = op.inputs[1], places[op.inputs[1]]
        site = sites[place.number]
        mean, std = law.log.get(law.shared.get(site, ""), (0.0, 0.0))
        scale = place.of(law.scale[site]) * math.exp(mean + std**2 / 2)
        axis = op.attributes["weights"][0] if op.name == "conv" else known[number].ndim - 1
        if ((known[number] != 0) & (scale == 0)).any():
            raise ValueError(f"{site} has weights without spread, and so no precision of their own: use values='float32'.")
        found[number] = _rounded(known[number], scale, axis)
    return found


def _rounded(weights: np.ndarray, scale: np.ndarray, axis: int) -> Coded:
    rest = tuple(i for i in range(weights.ndim) if i != axis)
    smallest = np.where(weights != 0, scale, np.inf).min(rest, keepdims=True)
    largest = np.abs(weights).max(rest, keepdims=True)
    steps = np.maximum(np.where(np.isfinite(smallest), smallest / 2, 0), largest / LARGEST)
    steps = np.where(steps > 0, steps, 1).astype(np.float32)
    numbers = np.clip(np.round(weights / steps), -LARGEST, LARGEST)
    away = np.divide(weights - numbers * steps, scale, out=np.zeros(weights.shape), where=scale > 0)
    return Coded(numbers.astype(np.int8), steps, float(np.sum(away**2) / 2))


def _text(compact: Weighted, network: CNetwork, name: str) -> str:
    program, inputs = network.program, compact.inputs
    zeros = {**network.known, program.rows: np.zeros(program.shapes[program.rows], np.float32)}
    with np.errstate(all="ignore"):
        types = {number: array.dtype for number, array in reader.run(program.ops, dict(zeros), 1).items()}
    bound = f"\n   Integers of x, and numbers that become integers: up to {MOST} in size, which nothing checks."
    bound = bound if check_whole(program, network.known, types) else ""
    source = CSource(name)
    takes = inputs.leaves[0].dtype if inputs.is_one else "float32"
    shape = program.shapes[program.rows]
    rows = Ref("x", shape, strides_of(shape), cast="" if takes == "float32" else "(float)")
    coded = {n: (c.numbers, c.steps) for n, c in network.coded.items()}
    writer = Operations(source, program, network.known, types, coded, {program.rows: rows})
    for step, op in enumerate(program.ops):
        source.step = step
        writer.write(op)
    source.step = len(program.ops)
    made = writer.read(program.output)
    source.copy(made, Ref("y", made.shape, strides_of(made.shape)))
    places, size = source.placed()
    memory = [f"float *const {buffer} = work + {at};" for buffer, at in places.items()]
    upper, count = name.upper(), math.prod(made.shape)
    lost = sum(c.lost for c in network.coded.values())
    precision = f"weights in eight bits, which loses {lost:.4g} nats" if network.coded else "weights in float"
    body = "\n".join(f"  {line}" for line in ["(void)x, (void)work;", *memory, *source.body])
    tables = "\n".join(source.data)
    return f"""/* E[y | x] of a network at its posterior mean, written by bayesprune: {precision}.
   {source.bytes} bytes of constants; C99, no library but math.h.

     float y[{upper}_OUTPUTS], work[{upper}_WORK];
     {name}_predict(x, y, work);

   x: a row of {upper}_INPUTS numbers, {_inputs(inputs)}; y: its outputs; work: memory whose content does not matter.{bound} */
#ifndef {upper}_H
#define {upper}_H
#include <math.h>
#include <stdint.h>

#define {upper}_INPUTS {math.prod(shape)}
#define {upper}_OUTPUTS {count}
#define {upper}_WORK {max(1, size)}

{tables}

static inline void {name}_predict(const {TYPES[takes]} *x, float *y, float *work) {{
{body}
}}

#endif
"""


def _inputs(inputs: Packing) -> str:
    """What is in a row. A name may be any text, and a stranger's: only what cannot end the comment is written."""
    named = [f"{re.sub(PLAIN, '_', leaf.name)} of shape {list(leaf.shape)}" for leaf in inputs.leaves]
    return ", then ".join(named) + ", the last index quickest"


# ---- whole numbers, of which a float may lose one
def check_whole(program: OpProgram, known: Mapping[int, np.ndarray], types: Mapping[int, np.dtype[Any]]) -> bool:
    """Whether real numbers become whole within the network, as whole numbers of its rows do; of those at most `MOST` in size
    all that it counts is exact. ``known``: arrays by number; ``types``: of all.

    Raises ``ValueError`` with the operation whose result may pass 2**24, or of whose result nothing is known.
    """
    found, has_some = dict[int, Ends](), False
    for op in program.ops:
        arrays = [found.get(number) or _given(known.get(number), types[number]) for number in op.inputs]
        if types[op.outputs[0]].kind not in "iu":
            continue
        has_some |= op.name == "convert" and arrays[0] is None
        ends = _ends(op, arrays, terms(op, program.shapes[op.inputs[-1]]) if op.name in SUMS else 1)
        if ends is None or (op.name not in CHOSEN and max(map(abs, ends)) > WHOLE):
            size = "" if ends is None else f" as large as {max(map(abs, ends)):,}"
            raise _refused(f"operation {op.name!r} may make whole numbers{size}")
        found[op.outputs[0]] = ends
    return has_some


def _given(array: np.ndarray | None, dtype: np.dtype[Any]) -> Ends | None:
    """Of a constant, or of booleans. None: of real numbers."""
    if dtype.kind not in "iu" or array is None:
        return (0, 1) if dtype.kind == "b" else None
    if (lost := array[array.astype(np.float32).astype(np.float64) != array]).size:
        raise _refused(f"the network holds the whole number {lost[0]}", "take a power of two for it, or one that is smaller")
    return int(array.min(initial=0)), int(array.max(initial=0))


def _ends(op: Op, arrays: Sequence[Ends | None], terms: int) -> Ends | None:
    """What the entries of a result may be; None: it is not known."""
    if op.name == "convert":
        return arrays[0] or (-MOST, MOST)
    of = arrays[: 1 if op.name in MOVED else None][op.name == "select" :]
    if None in of:
        return None
    low, high = zip(*of, strict=True)  # type: ignore[arg-type]
    match op.name:
        case "max" | "min":
            choose = max if op.name == "max" else min
            return choose(low), choose(high)
        case "clamp":
            return min(max(low[:2]), low[2]), min(max(high[:2]), high[2])
        case "add":
            return sum(low), sum(high)
        case "sub":
            return low[0] - high[1], high[0] - low[1]
        case "neg":
            return -high[0], -low[0]
        case "abs":
            return 0, max(-low[0], high[0])
        case "reduce_prod":
            most = max(-low[0], high[0]) ** min(terms, WHOLE.bit_length())  # of two already too many
            return -most, most
        case "mul" | "square" | "dot":
            products = [a * b for a in (low[0], high[0]) for b in (low[-1], high[-1])]
            return _sum(min(products), max(products), terms)
        case "reduce_sum" | "window_sum":
            return _sum(low[0], high[0], terms)
    return (min(low), max(high)) if op.name in CHOSEN else None


def _sum(low: int, high: int, terms: int) -> Ends:
    """Of so many numbers, and of the first ones of them."""
    return min(low, low * terms), max(high, high * terms)


def _refused(what: str, remedy: str = "bound them by jnp.clip(x, low, high) before, convert to float32 before") -> ValueError:
    return ValueError(
        f"{what}, and a C header, whose numbers are floats, holds whole ones up to {WHOLE:,} only; those of rows may be up to "
        f"{MOST:,}: {remedy}, or save a .bayesprune file."
    )
