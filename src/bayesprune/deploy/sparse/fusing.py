"""A linear operation of a program, and what is done to its result number by number, in one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from bayesprune.deploy.program.linear import Pattern
from bayesprune.deploy.program.ops import Op, OpProgram

ACTIVATIONS = ("none", "relu", "tanh", "logistic", "silu", "softmax")  # by their numbers in compiled kernels
AFFINE = frozenset(["add", "sub", "mul", "div"])
SOFTMAX = ("reduce_max", "max", "broadcast", "sub", "exp", "reduce_sum", "broadcast", "div")


class StoredPlace(NamedTuple):
    """Numbers of a random array: which ones, by their places in it, flattened; -1: zero."""

    number: int
    where: np.ndarray

    def of(self, array: np.ndarray) -> np.ndarray:
        """The numbers themselves, from the values of the array."""
        return np.where(self.where >= 0, array.reshape(-1)[self.where], 0).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Segment:
    """act(scale * (M x) + shift + bias): ``op`` and the operations that it takes in, up to the array ``output``.

    ``index``: of ``op`` among the operations; ``source``: the array that M x is read from, which is the operand before moves;
    ``lead``: how many leading axes stand for rows; ``shape``: of the result without them; ``pattern``: of M, its places in
    ``weights``: an array that is known, or places in a random one. ``bias``: places in a random array.
    """

    index: int
    op: Op
    source: int
    output: int
    lead: int
    shape: tuple[int, ...]
    pattern: Pattern | None
    weights: np.ndarray | StoredPlace
    scale: np.ndarray | None = None
    shift: np.ndarray | None = None
    bias: StoredPlace | None = None
    act: str = "none"
    taken: tuple[int, ...] = field(default=())

    @property
    def matrix(self) -> Pattern:
        """The pattern of M, where it is small enough to have one."""
        assert self.pattern is not None
        return self.pattern

    def values(self, weights: np.ndarray) -> np.ndarray:
        """The entries of M, scaled."""
        values = weights.reshape(-1)[self.matrix.places]
        return values if self.scale is None else values * self.scale[self.matrix.rows]


@dataclass(eq=False)
class Fuser:
    """Takes in the operations after a linear one, while each is the only one to read what was made before it.

    ``known``, ``random``: as of a `Finder`; ``users``: by array the operations that read it, -1: it is the result.
    """

    program: OpProgram
    known: Mapping[int, np.ndarray]
    random: Mapping[int, StoredPlace]
    users: Mapping[int, list[int]]
    now: Segment

    def segment(self) -> Segment:
        while (users := self.users.get(self.now.output, [-1]))[0] >= 0:
            ops = [self.program.ops[index] for index in users]
            if len(users) == 1 and self.affine(ops[0], users[0]):
                continue
            self.activation(users, ops)
            break
        return self.now

    def take(self, *indices: int, **changes: Any) -> None:
        output = self.program.ops[indices[-1]].outputs[0]
        self.now = replace(self.now, output=output, taken=(*self.now.taken, *indices), **changes)

    def affine(self, op: Op, index: int) -> bool:
        """Take in a sum, difference, product or quotient with numbers that are the same for all rows."""
        if op.name not in AFFINE or len(set(op.inputs)) != 2:
            return False
        first = op.inputs[0] == self.now.output
        other = op.inputs[1] if first else op.inputs[0]
        if other in self.random and op.name == "add" and self.now.bias is None:
            place = self.random[other]
            where = self.spread(place.where)
            if where is not None:
                self.take(index, bias=StoredPlace(place.number, where))
            return where is not None
        value = self.spread(self.known[other]) if other in self.known else None
        if value is None:
            return False
        scale = 1.0 if self.now.scale is None else self.now.scale.astype(float)
        shift = 0.0 if self.now.shift is None else self.now.shift.astype(float)
        value = value.astype(float)
        with np.errstate(all="ignore"):
            match op.name, first:
                case "add", _:
                    shift = shift + value
                case "sub", True:
                    shift = shift - value
                case "sub", False:
                    scale, shift = -scale, value - shift
                case "mul", _:
                    scale, shift = scale * value, shift * value
                case "div", True:
                    scale, shift = scale / value, shift / value
                case _:
                    return False
            scales, shifts = (np.broadcast_to(v, math.prod(self.now.shape)).astype(np.float32) for v in (scale, shift))
        if not (np.isfinite(scales).all() and np.isfinite(shifts).all()):
            return False
        changed = (scales != (1 if self.now.scale is None else self.now.scale)).any()
        if changed and (self.now.bias is not None or not self.of_weights(scales)):
            return False
        self.take(index, scale=None if (scales == 1).all() else scales, shift=shifts)
        return True

    def spread(self, value: np.ndarray) -> np.ndarray | None:
        """A number for each of the result's; None: they differ from row to row, or are more, so that the result would grow."""
        own = (1,) * self.now.lead + self.now.shape
        if value.ndim not in (0, len(own)) or any(n not in (1, m) for n, m in zip(value.shape, own, strict=False)):
            return None
        return np.broadcast_to(value.reshape(value.shape[self.now.lead :]), self.now.shape).reshape(-1)

    def of_weights(self, scale: np.ndarray) -> bool:
        """Whether all entries of a random weight are scaled alike, so that the weight can be scaled in their stead."""
        now = self.now
        if now.pattern is None or not isinstance(now.weights, StoredPlace):
            return True
        by_weight = np.zeros(now.weights.where.size, np.float32)
        by_weight[now.pattern.places] = scale[now.pattern.rows]
        return bool((by_weight[now.pattern.places] == scale[now.pattern.rows]).all())

    def activation(self, users: list[int], ops: list[Op]) -> None:
        """Take in one of `ACTIVATIONS`."""
        number, names = self.now.output, [op.name for op in ops]
        if names in (["tanh"], ["logistic"]):
            self.take(users[0], act=names[0])
        elif names == ["max"]:
            other = self.known.get(next((i for i in ops[0].inputs if i != number), -1))
            if other is not None and not np.any(other) and self.spread(other) is not None:
                self.take(users[0], act="relu")
        elif sorted(names) == ["logistic", "mul"]:
            (gate, _), (product, op) = sorted(zip(users, ops, strict=True), key=lambda pair: pair[1].name)
            made = self.program.ops[gate].outputs[0]
            if set(op.inputs) == {number, made} and self.users[made] == [product]:
                self.take(gate, product, act="silu")
        elif len(self.now.shape) == self.now.lead == 1 and set(names) == {"reduce_max", "sub"}:
            chain = self.softmax(number)
            if chain:
                self.take(*chain, act="softmax")

    def softmax(self, number: int) -> list[int]:
        """exp(a - max a) / sum exp(a - max a), operation by operation; empty: it is something else."""
        ops, at, found = self.program.ops, number, list[int]()
        for name in SOFTMAX:
            step = self.only(at, name)
            if step is None and name == "max":  # against minus infinity, in some versions of JAX only
                continue
            if step is None:
                return []
            found.append(step[0])
            at = step[1].outputs[0]
        made = {ops[index].name: ops[index] for index in found}
        lowest = [self.known.get(i) for i in made["max"].inputs] if "max" in made else []
        shifted, powers = made["sub"], made["exp"].outputs[0]
        within = [number, *(ops[index].outputs[0] for index in found[:-1])]
        exact = (
            list(made["reduce_max"].attributes["axes"]) == list(made["reduce_sum"].attributes["axes"]) == [1]
            and all(np.isneginf(value).all() for value in lowest if value is not None)
            and shifted.inputs[0] == number
            and made["div"].inputs[0] == powers
            and all(i in found for array in within for i in self.users[array])
        )
        return found if exact else []

    def only(self, number: int, name: str) -> tuple[int, Op] | None:
        """The one operation that reads an array, if it has that name."""
        ops = self.program.ops
        users = [index for index in self.users.get(number, [-1]) if index < 0 or ops[index].name == name]
        return (users[0], ops[users[0]]) if len(users) == 1 and users[0] >= 0 else None
