"""A C99 header in the making: constant arrays, loops, and one piece of memory that buffers share."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

TYPES = {"float32": "float", "int8": "int8_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t"}
LINE = 111  # letters of a line of numbers


@dataclass(frozen=True)
class Ref:
    """Where the numbers of an array are: at ``name[offset + sum of strides * indices]``; ``number``: a literal, in their place.

    ``base``: the buffer that must live as long, "" of a constant or the rows.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    base: str = ""
    number: str = ""
    cast: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether its numbers follow one another in order, so that it may have another shape."""
        own = zip(self.shape, self.strides, strides_of(self.shape), strict=True)
        return all(n == 1 or a == b for n, a, b in own)

    def at(self, index: Sequence[str]) -> str:
        """The number at an index, one expression for each axis."""
        if self.number:
            return self.number
        moving = [(name, by) for name, by in zip(index, self.strides, strict=True) if name != "0" and by]
        terms = [name if by == 1 else f"{name} * {by}" for name, by in moving]
        place = " + ".join([*([str(self.offset)] * (self.offset > 0)), *terms])
        return f"{self.cast}{self.name}[{place or '0'}]"

    def view(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> "Ref":
        """The same numbers, others of them."""
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=self.offset + offset)


class Buffer(NamedTuple):
    """So many numbers, needed from one step to another."""

    size: int
    first: int
    last: int


class CSource:
    """What has been written so far. ``step``: of the program's operations, that one which is being written."""

    def __init__(self, name: str) -> None:
        self.name, self.step = name, 0
        self.data: list[str] = []
        self.body: list[str] = []
        self.bytes = 0
        self.buffers: dict[str, Buffer] = {}
        self.known: dict[bytes, str] = {}

    # ---- numbers
    def constant(self, array: np.ndarray) -> Ref:
        """A known array; along an axis on which it is the same everywhere, one entry is kept."""
        shape = array.shape
        for axis in range(array.ndim):
            first = array.take([0], axis)
            array = first if array.shape[axis] and same(array, first) else array
        if array.size == 1:
            return Ref("", shape, (0,) * len(shape), number=literal(float(array.reshape(-1)[0])))
        strides = [0 if n == 1 else by for n, by in zip(array.shape, strides_of(array.shape), strict=True)]
        return Ref(self.table(array.reshape(-1).astype(np.float32)), shape, tuple(strides))

    def table(self, values: np.ndarray) -> str:
        """A constant array of C, of one of `TYPES`; equal ones are one. Returns its name."""
        values = values if values.size else np.zeros(1, values.dtype)  # C has no array of nothing
        kind = TYPES[values.dtype.name]
        key = kind.encode() + values.tobytes()
        if key not in self.known:
            self.known[key] = f"{self.name}_{len(self.known)}"
            self.bytes += values.nbytes
            texts = [literal(float(v)) if kind == "float" else str(int(v)) for v in values]
            self.data.append(f"static const {kind} {self.known[key]}[{values.size}] = {{\n{_lines(texts)}\n}};")
        return self.known[key]

    def indices(self, values: np.ndarray) -> str:
        """A constant array of whole numbers, in as few bytes as hold them."""
        return self.table(values.reshape(-1).astype(np.min_scalar_type(values.max(initial=0))))

    def copy(self, a: Ref, out: Ref) -> None:
        """Write the numbers of an array where another of its shape has them."""
        self.body += loops(a.shape, lambda index: [f"{out.at(index)} = {a.at(index)};"])

    # ---- memory
    def buffer(self, shape: Sequence[int]) -> Ref:
        """Room for an array that is made now."""
        name = f"b{len(self.buffers)}"
        self.buffers[name] = Buffer(max(1, math.prod(shape)), self.step, self.step)
        return Ref(name, tuple(shape), strides_of(shape), base=name)

    def used(self, ref: Ref) -> None:
        """The array is read now."""
        if ref.base:
            self.buffers[ref.base] = self.buffers[ref.base]._replace(last=self.step)

    def placed(self) -> tuple[dict[str, int], int]:
        """Where each buffer begins, those side by side that are needed at one time; and how many numbers there are."""
        places, size = dict[str, int](), 0
        for name, one in sorted(self.buffers.items(), key=lambda pair: -pair[1].size):
            others = [
                (places[other], self.buffers[other].size)
                for other in places
                if self.buffers[other].first <= one.last and one.first <= self.buffers[other].last
            ]
            at = 0
            for begin, length in sorted(others):
                if at + one.size <= begin:
                    break
                at = max(at, begin + length)
            places[name], size = at, max(size, at + one.size)
        return places, size


def loops(shape: Sequence[int], inside: Callable[[list[str]], Sequence[str]], letter: str = "i") -> list[str]:
    """Statements for each index of a shape; ``inside``: of the names of the indices."""
    index = ["0" if n == 1 else f"{letter}{axis}" for axis, n in enumerate(shape)]
    axes = [(name, n) for name, n in zip(index, shape, strict=True) if name != "0"]
    heads = [f"{'  ' * i}for (int {name} = 0; {name} < {n}; {name}++) {{" for i, (name, n) in enumerate(axes)]
    if not axes:
        heads, axes = ["{"], [("", 1)]
    deep, tails = "  " * len(axes), [f"{'  ' * i}}}" for i in reversed(range(len(axes)))]
    return [*heads, *(deep + line for line in inside(index)), *tails]


def write_rows(
    source: CSource,
    matrix: np.ndarray,
    steps: np.ndarray | None,
    taps: np.ndarray,
    shape: Sequence[int],
    base: Callable[[list[str]], str],
    place: Callable[[list[str], str], str],
) -> None:
    """Sums of a row's numbers at ``taps`` beyond ``base``, times those of the matrix, as CSR where it has fewer bytes."""
    outputs, count = matrix.shape
    alive, by = matrix != 0, taps[1] - taps[0] if len(taps) > 1 else 1
    even = bool((taps == np.arange(count) * by).all())
    each = 4 if steps is None else 1
    total = int(alive.sum())
    of_tap = np.min_scalar_type(taps.max(initial=0)).itemsize
    sparse = total * (each + of_tap) + (outputs + 1) * np.min_scalar_type(total).itemsize
    is_sparse = sparse < each * matrix.size + (0 if even else of_tap * count)
    kept = matrix[alive] if is_sparse else matrix.reshape(-1)
    values = source.table(kept.astype(np.float32 if steps is None else np.int8))
    if is_sparse:
        ends = source.indices(np.concatenate([[0], np.cumsum(alive.sum(1))]))
        where = source.indices(np.broadcast_to(taps, matrix.shape)[alive])
        head, term = f"for (int j = (int){ends}[o]; j < (int){ends}[o + 1]; j++)", f"{values}[j] * from[{where}[j]]"
    else:
        tap = ("j" if by == 1 else f"j * {by}") if even else f"{source.indices(taps)}[j]"
        head, term = f"for (int j = 0; j < {count}; j++)", f"{values}[o * {count} + j] * from[{tap}]"
    scaled = "" if steps is None else f" * {source.constant(steps.reshape(-1)).at(['o'])}"

    def inside(index: list[str]) -> Sequence[str]:
        return [
            f"for (int o = 0; o < {outputs}; o++) {{",
            f"  const float *from = &{base(index)};",
            "  float s = 0.0f;",
            f"  {head} s += {term};",
            f"  {place(index, 'o')} = s{scaled};",
            "}",
        ]

    source.body += loops(shape, inside)


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Of an array whose numbers follow one another.

    >>> strides_of((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def same(array: np.ndarray, first: np.ndarray) -> bool:
    """Whether all entries are those of ``first``, NaN too."""
    return bool(np.array_equal(array, np.broadcast_to(first, array.shape), equal_nan=array.dtype.kind == "f"))


def literal(value: float) -> str:
    """A number of C's float, all of its digits.

    >>> literal(0.1), literal(2.0), literal(-np.inf)
    ('0.1f', '2.0f', '-INFINITY')
    """
    if not math.isfinite(value):
        return "NAN" if math.isnan(value) else "-INFINITY" if value < 0 else "INFINITY"
    text = str(np.float32(value))
    text = text if "." in text or "e" in text else f"{text}.0"
    return f"({text}f)" if value < 0 else f"{text}f"


def _lines(texts: Sequence[str]) -> str:
    text = ", ".join(texts) + ","
    return textwrap.fill(text, LINE, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
