"""A network as data: operations on numbered arrays, and what each kind of operation is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bayesprune.deploy import reader

# Entry by entry, of one, two or three arrays of one shape, or of a shape and of numbers.
ELEMENTWISE = frozenset([*reader.UNARY, *reader.BINARY, "integer_pow", "convert", "select", "clamp"])
# Bilinear: what one factor is worth depends on where the other is zero.
PRODUCTS = frozenset(["mul", "dot", "conv"])
OPAQUE = "opaque"  # an operation of JAX that is kept as it is, and all that it reads and makes
KEPT_WHOLE = frozenset([OPAQUE, "trees"])  # all that they read and make
GONE = "operations on single rows"  # of a network traced for one row, for the sake of an operation that fell away


class Op(NamedTuple):
    """One operation on arrays by number.

    ``attributes``: JSON's types; sizes below zero stand for that many numbers for each row. Of an `OPAQUE` operation they are
    ``primitive`` and ``params`` of JAX.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any]

    def is_matrix_product(self, sizes: Mapping[int, Sequence[int]]) -> bool:
        """Whether it is a "dot" of rows, or tokens, with one matrix: over the last axis of x and the first of W."""
        if self.name != "dot":
            return False
        left, right = (len(sizes[number]) for number in self.inputs)
        return right == 2 and self.attributes["contract"] == [[left - 1], [0]] and not self.attributes["batch"][0]


@dataclass(frozen=True, eq=False)
class OpProgram:
    """A network as operations in order on numbered arrays; a `bayesprune.Program` is a model and its guide.

    ``sizes``: of each array, below zero where they grow with the rows. ``constants``: arrays by number; ``weights``: number by
    site; ``rows``, ``output``: the numbers of the data and the result. ``one_by_one``: it can run
    on one row at a time only, for some operation is opaque, or was before it fell away.
    """

    ops: tuple[Op, ...]
    sizes: Mapping[int, tuple[int, ...]]
    constants: Mapping[int, np.ndarray]
    weights: Mapping[str, int]
    rows: int
    output: int
    one_by_one: bool = False

    @cached_property
    def shapes(self) -> dict[int, tuple[int, ...]]:
        """The shape of each array for one row."""
        return {number: tuple(abs(n) for n in sizes) for number, sizes in self.sizes.items()}

    @cached_property
    def weighed(self) -> set[int]:
        """The weights, and the arrays that one enters."""
        return reached(self.ops, self.weights.values())

    @cached_property
    def halves(self) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
        """The operations that no weight enters, and those that one does: of many networks the first are the same for all."""
        first = tuple(op for op in self.ops if self.weighed.isdisjoint(op.inputs))
        return first, tuple(op for op in self.ops if not self.weighed.isdisjoint(op.inputs))

    @property
    def vocabulary(self) -> int | None:
        """How many rows the smallest table has that is looked up; None where none is."""
        return min((self.shapes[op.inputs[0]][0] for op in self.ops if op.name == "lookup"), default=None)

    @property
    def opaque(self) -> list[str]:
        """The names of operations that are kept as they are, each once; `GONE` where one has left the rest for single rows."""
        names = list(dict.fromkeys(op.attributes["primitive"].name for op in self.ops if op.name == OPAQUE))
        return names or [GONE] * self.one_by_one

    def single(self) -> "OpProgram":
        """With constants in float32."""
        constants = {n: c.astype(np.float32) if c.dtype == np.float64 else c for n, c in self.constants.items()}
        return replace(self, constants=constants)


Made = TypeVar("Made", bound=Any)  # an `Op`, or a step of an engine: it has `inputs` and `outputs`, arrays by number


def reached(ops: Iterable[Op], arrays: Iterable[int]) -> set[int]:
    """These arrays, and those that one of them enters.

    >>> reached([Op("exp", (0,), (1,), {}), Op("log", (2,), (3,), {})], [0])
    {0, 1}
    """
    found = set(arrays)
    for op in ops:
        found.update(() if found.isdisjoint(op.inputs) else op.outputs)
    return found


def alive(ops: Sequence[Made], output: int) -> tuple[tuple[Made, ...], set[int]]:
    """The operations that ``output`` depends on, in their order, and all of their arrays.

    >>> ops = [Op("exp", (0,), (1,), {}), Op("log", (0,), (2,), {}), Op("neg", (2,), (3,), {})]
    >>> [op.name for op in alive(ops, 3)[0]], sorted(alive(ops, 3)[1])
    (['log', 'neg'], [0, 2, 3])
    """
    used, kept = {output}, list[Made]()
    for op in reversed(ops):
        if not used.isdisjoint(op.outputs):
            kept.append(op)
            used.update(op.inputs, op.outputs)
    return tuple(kept[::-1]), used
