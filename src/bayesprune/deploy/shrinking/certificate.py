"""The certificate: the smaller program is the same function as the network, for whatever weights are alive.

Both programs are run over the integers modulo a prime on random rows and random weights (zero where dead), sums and products
exactly, every other function as a fixed arbitrary one. Where they differ as polynomials in those numbers, they agree by chance
with probability of about degree / prime at each output; so equality in several rounds is as good as a proof, for finite inputs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from bayesprune.core.checks import check_integer
from bayesprune.deploy.program.evaluate import evaluate, floating
from bayesprune.deploy.program.ops import OPAQUE, OpProgram
from bayesprune.deploy.shrinking import field
from bayesprune.deploy.shrinking.plan import ShrinkPlan, slim
from bayesprune.deploy.shrinking.shrink import Small, build

TOLERANCE = 1e-12


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
            one, other, alike = _over_the_field(plan, small, rng)
            same, outputs, mismatches = same and alike, outputs + one.size, mismatches + int((one != other).sum())
        errors = [_numerical(plan, small, dtype, rng) for dtype in (np.float64, np.float32)]
    return Certificate(field.PRIME, rounds, outputs, mismatches, same, *errors)


def _over_the_field(plan: ShrinkPlan, small: Small, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, bool]:
    program, known = plan.program, plan.known
    values = {number: field.of_numbers(value) for number, value in program.constants.items()}
    for number in program.weights.values():
        random = field.residues(rng, known.unknown[number])
        values[number] = np.where(known.unknown[number], random, field.residues(rng, np.asarray(known.values[number] != 0)))
    values[program.rows] = field.residues(rng, np.ones(program.shapes[program.rows], bool))
    zeros = {number: np.asarray(~known.nonzero(number)) for number in known.unknown}
    _evaluate(program, values, zeros)
    twin = build(plan, values, field.evaluate)
    inputs = {**twin.inputs(values), **twin.program.constants}
    smaller = {number: slim(zero, plan.keep[number]) for number, zero in zeros.items() if number in twin.program.sizes}
    _evaluate(twin.program, inputs, smaller)
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


def _evaluate(program: OpProgram, values: dict[int, np.ndarray], zeros: Mapping[int, np.ndarray]) -> None:
    """Run a program over the field. ``zeros``: entries that are known to be zero, as relu(-1) is: no oracle knows that."""
    for op in program.ops:
        made = field.evaluate(op, [values[i] for i in op.inputs], [program.shapes[i] for i in op.outputs])
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
