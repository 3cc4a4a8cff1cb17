"""Whole numbers in C, whose arrays are all of floats: how large they may become, and a refusal where a float may lose one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesprune.deploy.program.linear import terms
from bayesprune.deploy.program.ops import Op, OpProgram
from bayesprune.deploy.reader import WHOLE

MOST = WHOLE // 2  # of what becomes whole, as rows do: JAX adds a table's length to ids, of which it takes none later
MOVED = ("reshape", "transpose", "broadcast", "slice", "take", "reverse", "lookup")  # the first array's numbers
CHOSEN = ("select", "concatenate", "pad", "reduce_max", "reduce_min", "max", "min", "clamp", *MOVED)  # numbers that there were
SUMS = ("dot", "reduce_sum", "reduce_prod", "window_sum")  # and products, of several numbers
Ends = tuple[int, int]  # the least and the largest that a number may be


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
