"""A network over a finite field: sums and products exact, everything else an arbitrary but fixed function of its operands."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesprune.deploy import reader
from bayesprune.deploy.program.linear import LINEAR, MOVES, terms, windows
from bayesprune.deploy.program.ops import KEPT_WHOLE, OPAQUE, Op

PRIME = 131_071  # 2^17 - 1: a product has 34 bits, so that float64 holds sums of 2^19 products exactly
LONGEST = 1 << 19
_ADD, _ONE, _TWO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def evaluate(op: Op, arrays: list[np.ndarray], shapes: Sequence[tuple[int, ...]] = ()) -> list[np.ndarray]:
    """The results of an operation on residues, for one row; ``shapes``: of the results, where it is opaque."""
    return [np.asarray(made) for made in _evaluate(op, arrays, shapes)]


def _evaluate(op: Op, arrays: list[np.ndarray], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
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
