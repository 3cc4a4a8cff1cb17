"""What is known of an operation of JAX: one record each, which all readers of a traced network ask."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import jax
import numpy as np

from bayesprune.structure.graph import Labels, Shape, Signals, Value
from bayesprune.structure.jaxprs import Equation, JaxprLike
from bayesprune.structure.recorder import Recorder

Params = Mapping[str, Any]
Products = list[tuple[int, ...]]
Numbers = Sequence[float | None]  # an operand that is a number written in the program, else None
Known = Sequence[np.ndarray | None]  # operands, as far as they are constants
Function = Callable[..., Any]  # (operands) -> result


@runtime_checkable
class Walk(Protocol):
    """A walk through a network: what is written down, and how the program inside of an operation is read."""

    recorder: Recorder

    def closed(self, inner: JaxprLike, inputs: Sequence[Value]) -> list[Value]: ...


@dataclass(frozen=True)
class Primitive:
    """An operation of JAX. What its record does not say is not followed: such arrays are kept whole, or refused.

    ``terms``: (params, numbers) -> of an operation entry by entry, the products of operands of which it is a sum as far as
    zeros go: what must be nonzero so that the result may be. An empty product is a constant that is always there.
    ``read``: (walk, equation, operands) -> results, as units, connected weights and groups see them; None: not followed.
    ``move``: (params, shape, shape of the result) -> of one that moves the entries of one array and does nothing else, what
    becomes of labels.
    ``axis``: (params, shape, shape of the result, operand, axis) -> the axis of the results whose index n is made from index n
    of the operand's axis and from no other; None: there is none.
    ``linear``: in all operands together ("sum"), in each alone ("product"), in all if it gives real numbers ("cast"), or not;
    ``but``: not in these operands: denominators, predicates, indices.
    ``uses``: (params, shapes of operands and result) -> of a product, how many multiply-adds each number of the right operand
    takes part in, in a shape that broadcasts to it.
    ``written``: (params, shapes, operands as far as they are known) -> the same in simpler operations; None: there is none.
    ``same``: every number stays what it is, but for its type or its digits. ``keeps``: each number of the result is one of the
    first operand's, or of all where ``chosen`` is False, or its negative.
    ``plan``: what a compact network's plan calls it, which NumPy, JAX and ONNX run; "": it is written out, or kept for JAX
    alone. ``kind``: of numbers, of which alone it means in JAX what it means there: "b" of booleans, "f" of real ones. Entry by
    entry: ``numpy``, the function's name in NumPy; ``onnx``, the operator's, or (add, operands) -> a few of them; ``c``, an
    expression of C99 in floats, in which {0}, {1} are the operands.
    """

    name: str
    terms: Callable[[Params, Numbers], Products] | None = None
    read: Callable[[Walk, Any, list[Value]], list[Value] | None] | None = None
    move: Callable[[Params, Shape, Shape], Callable[[Labels], Labels] | None] | None = None
    axis: Callable[[Params, Shape, Shape, int, int], int | None] | None = None
    linear: Literal["", "sum", "product", "cast"] = ""
    but: Sequence[int] = ()
    uses: Callable[[Params, Sequence[Shape]], np.ndarray] | None = None
    written: Callable[[Params, Sequence[Any], Known], Function | None] | None = None
    same: bool = False
    keeps: bool = False
    chosen: bool = False
    plan: str = ""
    kind: str = ""
    numpy: str = ""
    onnx: str | Callable[..., Any] = ""
    c: str = ""

    def moved(self, equation: Equation, operand: int, axis: int) -> int | None:
        """Which axis of the results an operand's axis becomes; None: none, or it is not known."""
        shapes = tuple(equation.invars[operand].aval.shape), tuple(equation.outvars[0].aval.shape)
        return None if self.axis is None else self.axis(equation.params, *shapes, operand, axis)

    def reorders(self, equation: Equation) -> bool:
        """Whether entries are left out, joined or put in another order along the last axis, along which features lie.

        Or another axis is put in its place. A reshape keeps the order of all entries, whatever axes they come to lie along.
        """
        shape = getattr(equation.invars[0].aval, "shape", ()) if equation.invars else ()
        if not shape or shape[-1] == 1 or not self.keeps or self.name == "reshape":
            return False
        to = self.moved(equation, 0, len(shape) - 1)
        return to is None or (self.name == "transpose" and to != len(shape) - 1)

    def is_linear(self, params: Params, carried: Sequence[bool]) -> bool:
        """Whether the result is linear in all of the operands marked ``carried`` together, up to a constant."""
        if self.linear == "cast":
            return bool(jax.dtypes.issubdtype(params["new_dtype"], np.inexact))
        if any(carried[i] for i in self.but if i < len(carried)):
            return False
        return self.linear == "sum" or (self.linear == "product" and sum(carried) <= 1)


def integers(values: Sequence[Any]) -> tuple[int, ...]:
    """Plain integers: mapped programs hold NumPy's."""
    return tuple(int(value) for value in values)


def numbers_of(equation: Equation, inputs: Sequence[Value]) -> list[np.ndarray | None]:
    """The operands as far as they are known numbers."""
    pairs = zip(inputs, (atom.aval for atom in equation.invars), strict=True)
    return [value.numbers(aval.shape, aval.dtype) if isinstance(value, Signals) else None for value, aval in pairs]
