"""The certificate: the smaller program is the same function as the network, for whatever weights are alive.

Both programs are run over the integers modulo a prime on random rows and random weights (zero where dead), sums and products
exactly, every other function as a fixed arbitrary one. Where they differ as polynomials in those numbers, they agree by chance
with probability of about degree / prime at each output; so equality in several rounds is as good as a proof, for finite inputs.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from bayesprune.core.checks import check_integer
from bayesprune.deploy import reader
from bayesprune.deploy.program.linear import LINEAR, MOVES, terms, windows
from bayesprune.deploy.program.ops import KEPT_WHOLE, OPAQUE, Op, OpProgram
from bayesprune.deploy.program.run import evaluate, floating
from bayesprune.deploy.shrinking.plan import ShrinkPlan, slim
from bayesprune.deploy.shrinking.shrink import Small, build

TOLERANCE = 1e-12
PRIME = 131_071  # 2^17 - 1: a product has 34 bits, so that float64 holds sums of 2^19 products exactly
LONGEST = 1 << 19
_ADD, _ONE, _TWO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True)
class Certificate:
    """What was compared. ``mismatches``: outputs that differ over the field, in all ``rounds``; ``same_plan``: that the program
    over the field has the operations of the one that is used; ``float64``, ``float32``: the largest difference between both
    programs run by NumPy in that precision, relative to the largest output.

    >>> Certificate(131071, 3, 30, 0, True, 1e-16, 1e-7).holds
    True
    """

    prime: int
    rounds: int
    outputs: int
    mismatches: int
    same_plan: bool
    float64: float
    float32: float

    @property
    def holds(self) -> bool:
        """Whether both programs are the same function."""
        return self.same_plan and self.outputs > 0 and self.mismatches == 0 and self.float64 <= TOLERANCE

    def why_not(self) -> str:
        """What to say of a network whose certificate does not hold."""
        if self.mismatches == 0 and math.isinf(self.float64):
            return (
                "the network cannot be compared with the smaller one: none of its outputs is finite, or other ones are, for "
                f"random rows and weights, {self}. Does it divide by what its dead weights have made zero?"
            )
        return f"the smaller network is not the same function as the network: {self}. Report it."


def certify(plan: ShrinkPlan, small: Small, kept: OpProgram | None = None, rounds: int = 3, seed: int = 0) -> Certificate:
    """Compare the smaller program with the network that it was made from; ``kept``: the program in use, in float32."""
    check_integer(rounds, "rounds")
    rng = np.random.default_rng(seed)
    outputs = mismatches = 0
    with jax.transfer_guard("allow"):  # the host's work
        same = kept is None or _same_numbers(small.program, kept)
        for _ in range(rounds):
            one, other, alike = _compared(plan, small, rng)
            same, outputs, mismatches = same and alike, outputs + one.size, mismatches + int((one != other).sum())
        errors = [_numerical(plan, small, dtype, rng) for dtype in (np.float64, np.float32)]
    return Certificate(PRIME, rounds, outputs, mismatches, same, *errors)


def _compared(plan: ShrinkPlan, small: Small, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, bool]:
    program, known = plan.program, plan.known
    values = {number: of_numbers(value) for number, value in program.constants.items()}
    for number in program.weights.values():
        random = residues(rng, known.unknown[number])
        values[number] = np.where(known.unknown[number], random, residues(rng, np.asarray(known.values[number] != 0)))
    values[program.rows] = residues(rng, np.ones(program.shapes[program.rows], bool))
    zeros = {number: np.asarray(~known.nonzero(number)) for number in known.unknown}
    _run(program, values, zeros)
    twin = build(plan, values, over_field)
    inputs = {**twin.inputs(values), **twin.program.constants}
    smaller = {number: slim(zero, plan.keep[number]) for number, zero in zeros.items() if number in twin.program.sizes}
    _run(twin.program, inputs, smaller)
    alike = _shapes(twin) == _shapes(small)
    return values[program.output], np.broadcast_to(inputs[twin.program.output], values[program.output].shape), alike


def _shapes(small: Small) -> list[tuple[Any, ...]]:
    """The operations without their numbers, but for sums with constants: those may cancel in one arithmetic alone."""
    ops = [op for op in small.program.ops if not (op.name == "add" and op.outputs[0] in small.folds)]
    return [(op.name, len(op.inputs), {} if op.name == OPAQUE else dict(op.attributes)) for op in ops]


def _same_numbers(exact: OpProgram, kept: OpProgram) -> bool:
    """Whether the constants in use are those that were folded, rounded."""
    pairs = [(array, kept.constants.get(number)) for number, array in exact.constants.items()]
    alike = lambda one, other: np.array_equal(np.asarray(one, other.dtype), other, equal_nan=other.dtype.kind == "f")  # noqa: E731
    return all(other is not None and alike(one, other) for one, other in pairs)


def _run(program: OpProgram, values: dict[int, np.ndarray], zeros: Mapping[int, np.ndarray]) -> None:
    """Run a program over the field. ``zeros``: entries that are known to be zero, as relu(-1) is: no oracle knows that."""
    for op in program.ops:
        made = over_field(op, [values[i] for i in op.inputs], [program.shapes[i] for i in op.outputs])
        for number, array in zip(op.outputs, made, strict=True):
            values[number] = np.where(zeros[number], 0, array) if number in zeros else array


def _numerical(plan: ShrinkPlan, small: Small, dtype: DTypeLike, rng: np.random.Generator) -> float:
    """The largest difference on random rows and weights, relative to the largest output; infinite where nothing is finite."""
    worst = largest = 0.0
    compared = 0
    # Some functions, as a logarithm, have no value for rows below zero, and tables none for numbers beyond their ends.
    kinds: list[Any] = [rng.standard_normal, rng.standard_normal, lambda shape: rng.uniform(0.1, 0.9, shape)]
    if (vocabulary := plan.program.vocabulary) is not None:
        kinds += 2 * [lambda shape: rng.integers(0, vocabulary, shape)]
    for rows in kinds:
        one, other = _outputs(plan, small, dtype, rng, np.asarray(rows(plan.program.shapes[plan.program.rows])))
        finite = np.isfinite(one)
        if not np.array_equal(finite, np.isfinite(other)):
            return float("inf")
        compared += int(finite.sum())
        worst = max(worst, float(np.max(np.abs(one - other)[finite], initial=0)))
        largest = max(largest, float(np.max(np.abs(one)[finite], initial=0)))
    if not compared:
        return float("inf")
    return worst / largest if largest else worst


def _outputs(
    plan: ShrinkPlan, small: Small, dtype: DTypeLike, rng: np.random.Generator, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of both programs for one row, with random weights."""
    program, known = plan.program, plan.known
    values = {number: floating(array, dtype) for number, array in program.constants.items()}
    for number in program.weights.values():
        size = known.unknown[number].shape
        spread = rng.standard_normal(size) / math.sqrt(math.prod(size[:-1])) * (0.3 + rng.random())
        values[number] = np.where(known.unknown[number], spread, known.values[number]).astype(dtype)
    values[program.rows] = rows.astype(dtype)
    constants = {number: floating(array, dtype) for number, array in small.program.constants.items()}
    inputs = {**small.inputs(values), **constants}
    with np.errstate(all="ignore"):
        for each, of in ((program, values), (small.program, inputs)):
            for op in each.ops:
                of.update(zip(op.outputs, evaluate(op, [of[i] for i in op.inputs], dtype), strict=True))
    return values[program.output], np.broadcast_to(inputs[small.program.output], values[program.output].shape)


# ---- over the field
def over_field(op: Op, arrays: list[np.ndarray], shapes: Sequence[tuple[int, ...]] = ()) -> list[np.ndarray]:
    """The results of an operation on residues, for one row; ``shapes``: of the results, where it is opaque."""
    return [np.asarray(made) for made in _over_field(op, arrays, shapes)]


def _over_field(op: Op, arrays: list[np.ndarray], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    name = op.name
    if name in KEPT_WHOLE:
        sums = [np.sum(_oracle(i, [np.asarray(array)])) for i, array in enumerate(arrays)]
        text = f"{op.attributes['primitive'].name} {op.attributes['params']}" if name == OPAQUE else f"{name} {op.attributes}"
        made = _oracle(_of_text(text), [np.asarray(s) for s in sums])
        return [np.broadcast_to((made + i) % PRIME, shape) for i, shape in enumerate(shapes)]
    if name in LINEAR and (length := terms(op, arrays[-1].shape)) > LONGEST:
        raise ValueError(f"a sum over {length:,} products is too long to be exact: it cannot be certified.")
    if name in LINEAR or name in MOVES or name == "concatenate":
        made = reader.step(name, op.attributes, 1, *arrays)
        return [made % PRIME if name in LINEAR else made]
    if name in ("add", "sub", "mul"):
        return [reader.BINARY[name](*arrays) % PRIME]
    if name == "lookup":
        table, index = arrays
        return [table[index[..., 0].astype(np.int64) % len(table)]]
    if name == "neg":
        return [-arrays[0] % PRIME]
    if name == "convert":
        return [arrays[0]]
    key = _of_text(name + json.dumps(dict(op.attributes), sort_keys=True))
    if name.startswith("reduce_"):
        axes = tuple(op.attributes["axes"])
        last = np.moveaxis(arrays[0], axes, range(-len(axes), 0))
        return [_oracle(key, list(np.moveaxis(last.reshape(*last.shape[: last.ndim - len(axes)], -1), -1, 0)))]
    if name.startswith("window_"):
        return [_oracle(key, list(np.moveaxis(windows(arrays[0], PRIME, **op.attributes), -1, 0)))]
    return [_oracle(key, arrays)]


def residues(rng: np.random.Generator, nonzero: np.ndarray) -> np.ndarray:
    """Random residues, zero where ``nonzero`` is False."""
    return np.where(nonzero, rng.integers(1, PRIME, np.shape(nonzero)), 0).astype(np.float64)


def of_numbers(values: np.ndarray) -> np.ndarray:
    """A residue for every number: the same for the same number, zero for zero; of whole numbers themselves, by which tables
    are looked up."""
    if np.asarray(values).dtype.kind in "iub":
        return np.asarray(np.asarray(values, np.float64) % PRIME)
    bits = np.asarray(values, np.float64).view(np.uint64)
    return np.where(np.asarray(values) == 0, 0.0, 1.0 + (_mixed(1, [bits]) % np.uint64(PRIME - 1)).astype(np.float64))


def _oracle(key: int, arrays: list[np.ndarray]) -> np.ndarray:
    mixed = _mixed(key, [np.asarray(array).astype(np.uint64) for array in arrays])
    return np.asarray(mixed % np.uint64(PRIME), np.float64)


def _mixed(key: int, arrays: list[np.ndarray]) -> np.ndarray:
    """A hash of the operands, place by place (splitmix64)."""
    mixed: Any = np.full(np.broadcast_shapes(*map(np.shape, arrays)), np.uint64(key % (1 << 63)))
    with np.errstate(over="ignore"):
        for array in arrays:
            mixed = _splitmix(mixed ^ _splitmix(np.broadcast_to(array, mixed.shape).astype(np.uint64)))
    return np.asarray(mixed)


def _splitmix(z: Any) -> Any:
    z = z + _ADD
    z = (z ^ (z >> np.uint64(30))) * _ONE
    z = (z ^ (z >> np.uint64(27))) * _TWO
    return z ^ (z >> np.uint64(31))


def _of_text(text: str) -> int:
    """A number that is the same in every process, unlike that of ``hash``."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")
