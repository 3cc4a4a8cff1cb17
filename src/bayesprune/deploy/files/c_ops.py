"""The operations of a plan in C, for one row: views where numbers only move, loops elsewhere."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune.deploy.files.c_source import CSource, Ref, loops, strides_of, write_rows
from bayesprune.deploy.program.ops import Op, OpProgram
from bayesprune.structure.ops import PRIMITIVES
from bayesprune.structure.ops.trees import follows

ENTRY = {record.plan: record.c for record in PRIMITIVES.values() if record.c and record.plan}
REDUCE = {
    "reduce_sum": ("0.0f", "s += {0};"),
    "reduce_prod": ("1.0f", "s *= {0};"),
    "reduce_max": ("-INFINITY", "{{ const float p = {0}; s = p > s || p != p ? p : s; }}"),
    "reduce_min": ("INFINITY", "{{ const float p = {0}; s = p < s || p != p ? p : s; }}"),
}
WINDOW = {f"window_{kind}": REDUCE[f"reduce_{kind}"] for kind in ("sum", "max", "min")}
HELD = ("float32", "float64", "int32", "int64", "bool")  # types whose numbers a float holds as they are used here
NAMES = "pqr"
Values = tuple[np.ndarray, np.ndarray]


@dataclass(eq=False)
class Operations:
    """Writes one operation after another. ``known``: arrays by number; ``types``: of all; ``coded``: of some known matrices
    their whole numbers and steps; ``values``: what has been written, at first the row itself."""

    source: CSource
    program: OpProgram
    known: Mapping[int, np.ndarray]
    types: Mapping[int, np.dtype[Any]]
    coded: Mapping[int, Values]
    values: dict[int, Ref]

    def read(self, number: int) -> Ref:
        """An array, which is needed now."""
        if number not in self.values:
            self.values[number] = self.source.constant(self.known[number])
        self.source.used(self.values[number])
        return self.values[number]

    def write(self, op: Op) -> None:
        """One operation. Raises ``ValueError`` with its name where it has no form in C."""
        self.values[op.outputs[0]] = self._written(op, self.program.shapes[op.outputs[0]])

    def _written(self, op: Op, shape: Sequence[int]) -> Ref:
        if op.name in ("dot", "conv") and op.inputs[1] in self.known and (made := self._linear(op, shape)) is not None:
            return made
        if op.name == "trees" and self.known.keys() >= set(op.inputs[1:]):
            return self._walked(op, shape)
        refs, at = [self.read(i) for i in op.inputs], op.attributes
        match op.name:
            case "reshape":
                return self._reshaped(refs[0], shape)
            case "transpose":
                a = refs[0]
                return a.view([a.shape[i] for i in at["order"]], [a.strides[i] for i in at["order"]])
            case "broadcast":
                along = dict(zip(at["axes"], zip(refs[0].shape, refs[0].strides, strict=True), strict=True))
                strides = [along[axis][1] if axis in along and along[axis][0] == n else 0 for axis, n in enumerate(shape)]
                return refs[0].view(shape, strides)
            case "slice":
                offset = sum(low * by for (low, _, _), by in zip(at["ranges"], refs[0].strides, strict=True))
                strides = [step * by for (_, _, step), by in zip(at["ranges"], refs[0].strides, strict=True)]
                return refs[0].view(shape, strides, offset)
            case "reverse":
                a = refs[0]
                strides = [-by if axis in at["axes"] else by for axis, by in enumerate(a.strides)]
                offset = sum((a.shape[axis] - 1) * a.strides[axis] for axis in at["axes"])
                return a.view(shape, strides, offset)
            case "convert" if self._stays(op):
                return refs[0]
            case "concatenate":
                return self._concatenated(refs, shape, at["axis"])
            case "pad":
                return self._padded(refs[0], at["sides"], refs[1].at([]))
        out = self.source.buffer(shape)
        self.source.body += loops(shape, self._loop(op, refs, out))
        return out

    # ---- one loop
    def _loop(self, op: Op, refs: Sequence[Ref], out: Ref) -> Callable[[list[str]], Sequence[str]]:
        """What is done for each index of the result."""
        at, a = op.attributes, refs[0]
        if op.name in ENTRY and op.name != "integer_pow":
            return lambda index: _entry(ENTRY[op.name], [one.at(_aligned(one, index)) for one in refs], out.at(index))
        if op.name == "integer_pow":
            return lambda index: _entry(_power(at["y"]), [a.at(index)], out.at(index))
        if op.name == "convert":
            kind = np.dtype(at["dtype"]).name
            if kind not in HELD:
                raise refused(f"convert to {kind}")
            form = "{0} != 0.0f" if kind == "bool" else "truncf({0})"
            return lambda index: _entry(form, [a.at(index)], out.at(index))
        if op.name in REDUCE:
            axes = list(at["axes"])

            def reduced(index: list[str]) -> Sequence[str]:
                rest = iter(index)
                outer = [None if axis in axes else next(rest) for axis in range(len(a.shape))]
                sizes = [n if axis in axes else 1 for axis, n in enumerate(a.shape)]
                place = lambda k: a.at([one if i is None else i for i, one in zip(outer, k, strict=True)])  # noqa: E731
                return _sum(REDUCE[op.name], sizes, place, out.at(index))

            return reduced
        if op.name in WINDOW:
            filled = self._padded(a, at["sides"], WINDOW[op.name][0])
            return lambda index: _sum(
                WINDOW[op.name],
                at["window"],
                lambda k: filled.at([_plus(i, by, one) for i, by, one in zip(index, at["strides"], k, strict=True)]),
                out.at(index),
            )
        if op.name == "take":
            table = self.source.indices(np.asarray(at["index"]))
            return lambda index: [
                f"{out.at(index)} = {a.at([f'{table}[{i}]' if axis == at['axis'] else i for axis, i in enumerate(index)])};"
            ]
        if op.name == "lookup":
            last, leading = a.shape[0] - 1, len(refs[1].shape) - 1

            def looked_up(index: list[str]) -> Sequence[str]:
                beyond = f"k < 0 || k > {last} ? NAN : " if at["fill"] else ""
                found = a.at([f"(k < 0 ? 0 : k > {last} ? {last} : k)", *index[leading:]])
                return [
                    f"const int k = (int)({refs[1].at([*index[:leading], '0'])});",
                    f"{out.at(index)} = {beyond}{found};",
                ]

            return looked_up
        if op.name == "dot":
            return self._product(op, refs, out)
        raise refused(op.name)

    def _product(self, op: Op, refs: Sequence[Ref], out: Ref) -> Callable[[list[str]], Sequence[str]]:
        """A product of two arrays, neither a matrix that is known."""
        (left, right), (first, second) = op.attributes["contract"], op.attributes["batch"]
        a, b = refs

        def product(index: list[str]) -> Sequence[str]:
            rest, i, j = iter(index), dict[int, str](), dict[int, str]()
            for one, other in zip(first, second, strict=True):
                i[one] = j[other] = next(rest)
            i |= {axis: next(rest) for axis in range(len(a.shape)) if axis not in i and axis not in left}
            j |= {axis: next(rest) for axis in range(len(b.shape)) if axis not in j and axis not in right}

            def terms(k: list[str]) -> str:
                x, y = {**i, **dict(zip(left, k, strict=True))}, {**j, **dict(zip(right, k, strict=True))}
                return f"{a.at([x[n] for n in range(len(a.shape))])} * {b.at([y[n] for n in range(len(b.shape))])}"

            return _sum(REDUCE["reduce_sum"], [a.shape[axis] for axis in left], terms, out.at(index))

        return product

    def _walked(self, op: Op, shape: Sequence[int]) -> Ref:
        """The sum over the trees of each number, from their roots to leaves."""
        x, out = self.read(op.inputs[0]), self.source.buffer(shape)
        column, at, below, values, roots = (self.known[number] for number in op.inputs[1:])
        if not follows(below, roots):
            raise refused("trees whose nodes do not lead to later ones")
        turns, targets = op.attributes["turns"], values.shape[1]
        column_of, below_of, root_of = map(self.source.indices, (column, below, roots))
        at_of, value_of = (self.source.table(part.ravel().astype(np.float32)) for part in (at, values))

        def walk(index: list[str]) -> Sequence[str]:
            row, number = index
            return [
                "float s = 0.0f;",
                f"for (int t = {number} / {targets}; t < {len(roots)}; t += {turns}) {{",
                f"  uint32_t n = {root_of}[t];",
                f"  while ({below_of}[n]) n = {below_of}[n] + ({x.at([row, f'{column_of}[n]'])} > {at_of}[n]);",
                f"  s += {value_of}[n * {targets} + {number} % {targets}];",
                "}",
                f"{out.at(index)} = s;",
            ]

        self.source.body += loops(shape, walk)
        return out

    # ---- numbers that move
    def _stays(self, op: Op) -> bool:
        """Whether a float holds the numbers before and after alike."""
        before, after = self.types[op.inputs[0]], np.dtype(op.attributes["dtype"])
        if {before.name, after.name} - {*HELD, "uint8"}:
            raise refused(f"convert of {before.name} to {after.name}")
        rank = "buif"
        return after.name in HELD and (before == after or after.kind == "f" or rank.index(before.kind) < rank.index(after.kind))

    def _copied(self, a: Ref) -> Ref:
        out = self.source.buffer(a.shape)
        self.source.copy(a, out)
        return out

    def _reshaped(self, a: Ref, shape: Sequence[int]) -> Ref:
        if a.number:
            return a.view(shape, (0,) * len(shape))
        a = a if a.is_whole else self._copied(a)
        return a.view(shape, strides_of(shape))

    def _concatenated(self, refs: Sequence[Ref], shape: Sequence[int], axis: int) -> Ref:
        out, begin = self.source.buffer(shape), 0
        for ref in refs:
            self.source.copy(ref, out.view(ref.shape, out.strides, begin * out.strides[axis]))
            begin += ref.shape[axis]
        return out

    def _padded(self, a: Ref, sides: Sequence[Sequence[int]], filler: str) -> Ref:
        if not np.any(sides):
            return a
        out = self.source.buffer([low + n + high for n, (low, high) in zip(a.shape, sides, strict=True)])
        inner = out.view(a.shape, out.strides, sum(low * by for (low, _), by in zip(sides, out.strides, strict=True)))
        self.source.body += loops(out.shape, lambda index: [f"{out.at(index)} = {filler};"])
        self.source.copy(a, inner)
        return out

    # ---- products with a known matrix
    def _linear(self, op: Op, shape: Sequence[int]) -> Ref | None:
        """A product with a known matrix, or a convolution with a known kernel; None: the product is of another form."""
        matrix, at = self.known[op.inputs[1]], op.attributes
        numbers, steps = self.coded.get(op.inputs[1], (matrix, None))
        if op.name == "dot":
            if not op.is_matrix_product(self.program.shapes):
                return None
            a = self._forward(self.read(op.inputs[0]))
            out = self.source.buffer(shape)
            taps = np.arange(matrix.shape[0]) * a.strides[-1]
            base = lambda index: a.view(a.shape[:-1], a.strides[:-1]).at(index)  # noqa: E731
            write_rows(self.source, numbers.T, steps, taps, shape[:-1], base, lambda index, o: out.at([*index, o]))
            return out
        data, result, kernel = at["data"], at["result"], np.transpose(numbers, at["weights"])
        space = dict(zip(data[2:], at["sides"], strict=True))
        sides = [space.get(axis, [0, 0]) for axis in range(len(data))]
        a = self._forward(self._padded(self._forward(self.read(op.inputs[0])), sides, "0.0f"))
        out, channel = self.source.buffer(shape), a.strides[data[1]]
        reach = [a.strides[axis] * by for axis, by in zip(data[2:], at["dilation"], strict=True)]
        steps_of = zip(np.ix_(*map(np.arange, kernel.shape[1:])), [channel, *reach], strict=True)
        taps = functools.reduce(np.add, [places * by for places, by in steps_of])
        moved = [a.strides[axis] * by for axis, by in zip(data[2:], at["strides"], strict=True)]
        sizes = [shape[axis] for axis in result[2:]]
        group = f" + o / {len(kernel) // at['groups']} * {kernel.shape[1] * channel}" if at["groups"] > 1 else ""

        def place(index: list[str], o: str) -> str:
            named = dict(zip(result, ["0", o, *index], strict=True))
            return out.at([named[axis] for axis in range(len(result))])

        base = lambda index: f"{a.view(sizes, moved).at(index)}{group}"  # noqa: E731
        write_rows(self.source, kernel.reshape(len(kernel), -1), steps, taps.reshape(-1), sizes, base, place)
        return out

    def _forward(self, a: Ref) -> Ref:
        """In memory, and in no order backwards, as tables of places need it."""
        return self._copied(a) if a.number or a.cast or min(a.strides, default=0) < 0 else a


def refused(what: str) -> ValueError:
    """The error of what C does not have."""
    return ValueError(
        f"operation {what!r} has no form in a C header: write the network without it, or save a .bayesprune file."
    )


def _entry(form: str, values: Sequence[str], out: str) -> list[str]:
    pairs = enumerate(zip(NAMES, values, strict=False))
    named = [f"const float {name} = {value};" for place, (name, value) in pairs if f"{{{place}}}" in form]
    return [" ".join([*named, f"{out} = {form.format(*NAMES)};"])]


def _aligned(ref: Ref, index: Sequence[str]) -> list[str]:
    """The index of an array that broadcasts to the result's shape, its last axes to the last ones."""
    return ["0" if n == 1 else i for n, i in zip(ref.shape, index[len(index) - len(ref.shape) :], strict=True)]


def _power(y: int) -> str:
    whole = " * ".join(["{0}"] * abs(y)) or "1.0f"
    return f"1.0f / ({whole})" if y < 0 else whole


def _sum(how: tuple[str, str], sizes: Sequence[int], term: Callable[[list[str]], str], out: str) -> list[str]:
    begin, form = how
    return [f"float s = {begin};", *loops(sizes, lambda k: [form.format(term(k))], "k"), f"{out} = s;"]


def _plus(index: str, by: int, more: str) -> str:
    first = index if by == 1 or index == "0" else f"{index} * {by}"
    return f"({first} + {more})" if "0" not in (index, more) else more if index == "0" else f"({first})"
