"""What each operation of a plan makes of shapes and kinds of numbers: whether it can be run is known before it is.

A kind is "b" of booleans, "i" of whole numbers, "f" of real ones. A rule raises ``ValueError`` for attributes and operands that
NumPy or JAX would refuse, or would take for something else.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesprune.deploy import reader
from bayesprune.deploy.program.attributes import DTYPES

ANY_KIND = frozenset(["not", "is_finite"])  # of functions; they give booleans
NUMBERS = frozenset(["abs", "neg", "sign", "square"])  # of whole numbers too
COMPARE = frozenset(["eq", "ge", "gt", "le", "lt", "ne", "and", "or", "xor"])
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "integer_pow": ("y",), "convert": ("dtype",), "dot": ("contract", "batch"), "lookup": ("fill",), "reshape": ("sizes",),
    "conv": ("data", "weights", "result", "strides", "sides", "dilation", "groups"), "transpose": ("order",),
    "broadcast": ("sizes", "axes"), "slice": ("ranges",), "take": ("index", "axis"), "reverse": ("axes",), "pad": ("sides",),
    "concatenate": ("axis",), "trees": ("turns", "depth"), **dict.fromkeys(reader.REDUCE, ("axes",)),
    **dict.fromkeys(reader.WINDOW, ("window", "strides", "sides")),
}  # fmt: skip
LARGEST_POWER = 1 << 16
Shape = tuple[int, ...]


class Abstract(NamedTuple):
    """An array as far as rules know it."""

    shape: Shape
    kind: str


def made(name: str, attributes: Mapping[str, Any], rows: int, *arrays: Abstract) -> Abstract:
    """What an operation gives for so many ``rows``. Raises ``ValueError`` where it cannot be run.

    >>> made("dot", {"contract": [[1], [0]], "batch": [[], []]}, 2, Abstract((2, 3), "f"), Abstract((3, 4), "f"))
    Abstract(shape=(2, 4), kind='f')
    """
    expected = reader.TAKES.get(name, 1) if name != "concatenate" else max(1, len(arrays))
    if name not in reader.NAMES or len(arrays) != expected or {*attributes} != {*ATTRIBUTES.get(name, ())}:
        raise ValueError(f"no operation of {len(arrays)} arrays, with {', '.join(map(str, attributes)) or 'no attributes'}")
    kinds = "".join(array.kind for array in arrays)
    if name in reader.UNARY:
        return Abstract(arrays[0].shape, _of_one(name, kinds))
    if name in reader.BINARY:
        return Abstract(_together(arrays), _of_two(name, kinds))
    if name in reader.REDUCE:
        return _reduced(name, attributes["axes"], arrays[0])
    if name in reader.WINDOW:
        return _pooled(arrays[0], **attributes)
    if "sizes" in attributes:
        sizes = _whole(attributes["sizes"], -reader.LARGEST)
        attributes = {**attributes, "sizes": tuple(-n * rows if n < 0 else n for n in sizes)}
    return RULES[name](*arrays, **attributes)


def _of_one(name: str, kinds: str) -> str:
    if name in ANY_KIND:
        return "b"
    _check(kinds == "f" or (kinds == "i" and name in NUMBERS), f"{name} of numbers of the kind {kinds!r}")
    return kinds


def _of_two(name: str, kinds: str) -> str:
    if name in COMPARE:
        return "b"
    _check(kinds != "bb" or name in ("add", "mul", "max", "min", "div"), f"{name} of booleans")
    _check(name != "pow" or "f" in kinds, "powers of whole numbers")
    return "f" if name == "div" else _highest(kinds)


def _highest(kinds: str) -> str:
    return max(kinds, key="bif".index)


def _together(arrays: Sequence[Abstract]) -> Shape:
    """The shape of several arrays entry by entry; an axis of one entry is as long as need be."""
    reversed_sizes = itertools.zip_longest(*(array.shape[::-1] for array in arrays), fillvalue=1)
    sizes = [{*column} - {1} or {1} for column in reversed_sizes]
    _check(
        all(len(size) == 1 for size in sizes), f"arrays of the shapes {', '.join(str(a.shape) for a in arrays)} side by side"
    )
    return tuple(n for (n,) in sizes)[::-1]


def _reduced(name: str, axes: object, a: Abstract) -> Abstract:
    axes = _axes(axes, len(a.shape))
    _check(name in ("reduce_sum", "reduce_prod") or all(a.shape[axis] for axis in axes), "the extreme of no numbers")
    kind = "i" if a.kind == "b" and name in ("reduce_sum", "reduce_prod") else a.kind
    return Abstract(tuple(n for axis, n in enumerate(a.shape) if axis not in axes), kind)


def _pooled(a: Abstract, window: object, strides: object, sides: object) -> Abstract:
    _check(a.kind == "f", "windows of numbers that are not real")
    ndim = len(a.shape)
    parts = zip(a.shape, _whole(window, 1, ndim), _whole(strides, 1, ndim), _sides(sides, ndim), strict=True)
    return Abstract(tuple(max(0, (n + low + high - w) // by + 1) for n, w, by, (low, high) in parts), a.kind)


def _power(a: Abstract, y: object) -> Abstract:
    (y,) = _whole([y], -LARGEST_POWER)
    _check(abs(y) <= LARGEST_POWER and (a.kind == "f" or (a.kind == "i" and y >= 0)), f"the power {y}")
    return a


def _converted(a: Abstract, dtype: object) -> Abstract:
    _check(dtype in DTYPES, f"numbers of the type {dtype!r}")
    return Abstract(a.shape, np.dtype(str(dtype)).kind.replace("u", "i"))


def _selected(which: Abstract, no: Abstract, yes: Abstract) -> Abstract:
    return Abstract(_together([which, no, yes]), _highest(no.kind + yes.kind))


def _clamped(low: Abstract, a: Abstract, high: Abstract) -> Abstract:
    return Abstract(_together([low, a, high]), _highest(low.kind + a.kind + high.kind))


def _dot(a: Abstract, b: Abstract, contract: object, batch: object) -> Abstract:
    _check(a.kind == b.kind == "f", "products of numbers that are not real")
    contract, batch = _list(contract), _list(batch)
    _check(len(contract) == len(batch) == 2, "pairs of axes that are none")
    left, right = _axes([*batch[0], *contract[0]], len(a.shape)), _axes([*batch[1], *contract[1]], len(b.shape))
    _check(len(batch[0]) == len(batch[1]), "pairs of axes that are none")
    _check([a.shape[axis] for axis in left] == [b.shape[axis] for axis in right], f"a product of {a.shape} and {b.shape}")
    free = [n for axis, n in enumerate(a.shape) if axis not in left] + [
        n for axis, n in enumerate(b.shape) if axis not in right
    ]
    return Abstract((*(a.shape[axis] for axis in batch[0]), *free), "f")


def _convolved(a: Abstract, kernel: Abstract, **of: object) -> Abstract:
    _check(a.kind == kernel.kind == "f" and len(a.shape) == len(kernel.shape) >= 3, "a convolution without space")
    data, weights, result = (_permutation(of[key], len(a.shape)) for key in ("data", "weights", "result"))
    strides, dilation = (_whole(of[key], 1, len(a.shape) - 2) for key in ("strides", "dilation"))
    (groups,) = _whole([of["groups"]], 1)
    sides = _sides(of["sides"], len(a.shape) - 2)
    rows, channels, *space = (a.shape[axis] for axis in data)
    outputs, inputs, *taps = (kernel.shape[axis] for axis in weights)
    _check(channels == inputs * groups and outputs % groups == 0 and outputs > 0, f"a convolution of {channels} channels")
    reach = [(n - 1) * by + 1 for n, by in zip(taps, dilation, strict=True)]
    room = [n + low + high for n, (low, high) in zip(space, sides, strict=True)]
    _check(min(taps) > 0 and all(n <= whole for n, whole in zip(reach, room, strict=True)), "a kernel larger than the image")
    sizes = (rows, outputs, *((whole - n) // by + 1 for whole, n, by in zip(room, reach, strides, strict=True)))
    return Abstract(tuple(sizes[result.index(axis)] for axis in range(len(sizes))), "f")


def _looked_up(table: Abstract, index: Abstract, fill: object) -> Abstract:
    _check(type(fill) is bool and (table.kind == "f" or not fill), "a table that cannot say what is missing")
    _check(len(table.shape) > 0 and table.shape[0] > 0 and index.shape[-1:] == (1,), "a look-up in no table, or of no numbers")
    return Abstract((*index.shape[:-1], *table.shape[1:]), table.kind)


def _reshaped(a: Abstract, sizes: Shape) -> Abstract:
    _check(math.prod(sizes) == math.prod(a.shape), f"{a.shape} in the shape {sizes}")
    return Abstract(sizes, a.kind)


def _transposed(a: Abstract, order: object) -> Abstract:
    return Abstract(tuple(a.shape[axis] for axis in _permutation(order, len(a.shape))), a.kind)


def _broadcast(a: Abstract, sizes: Shape, axes: object) -> Abstract:
    axes = _axes(axes, len(sizes))
    fits = len(axes) == len(a.shape) and axes == sorted(axes)
    _check(fits and all(n in (1, sizes[axis]) for n, axis in zip(a.shape, axes, strict=True)), f"{a.shape} along {sizes}")
    return Abstract(sizes, a.kind)


def _sliced(a: Abstract, ranges: object) -> Abstract:
    ranges = _list(ranges)
    _check(len(ranges) == len(a.shape), "slices of other axes")
    sizes = []
    for (low, high, by), n in zip(ranges, a.shape, strict=True):
        _whole([low, by], 0)
        _whole([high], -reader.LARGEST)
        end = n if high < 0 else high
        _check(low <= end <= n and by > 0, f"the slice {low}:{high}:{by} of {n} entries")
        sizes.append(-(-(end - low) // by))
    return Abstract(tuple(sizes), a.kind)


def _taken(a: Abstract, index: object, axis: object) -> Abstract:
    (axis,) = _axes([axis], len(a.shape))
    index = _whole(index, 0)
    _check(len(index) > 0 and max(index) < a.shape[axis], f"indices beyond the {a.shape[axis]} slices of an axis")
    return Abstract((*a.shape[:axis], len(index), *a.shape[axis + 1 :]), a.kind)


def _reversed(a: Abstract, axes: object) -> Abstract:
    _axes(axes, len(a.shape))
    return a


def _concatenated(*arrays: Abstract, axis: object) -> Abstract:
    (axis,) = _axes([axis], len(arrays[0].shape))
    others = {(*a.shape[:axis], *a.shape[axis + 1 :]) for a in arrays}
    _check(len(others) == 1 and len({len(a.shape) for a in arrays}) == 1, "arrays of other shapes end to end")
    whole = sum(a.shape[axis] for a in arrays)
    return Abstract((*arrays[0].shape[:axis], whole, *arrays[0].shape[axis + 1 :]), _highest("".join(a.kind for a in arrays)))


def _padded(a: Abstract, filler: Abstract, sides: object) -> Abstract:
    sides = _sides(sides, len(a.shape))
    _check(filler.shape == () and (a.kind == "f" or a.kind == filler.kind), "edges that are no number of its kind")
    return Abstract(tuple(n + low + high for n, (low, high) in zip(a.shape, sides, strict=True)), a.kind)


def _walked(*arrays: Abstract, turns: object, depth: object) -> Abstract:
    x, column, at, below, values, roots = arrays
    _check(x.kind == at.kind == values.kind == "f" and len(x.shape) == len(values.shape) == 2, "trees of no numbers")
    _check(column.kind == below.kind == roots.kind == "i" and len(roots.shape) == 1, "trees of nodes without numbers")
    nodes = {column.shape, at.shape, below.shape, values.shape[:1]}
    _check(len(nodes) == 1 and min(x.shape[1], *values.shape) > 0, f"trees of nodes in the shapes {nodes}")
    (turns,), (depth,) = _whole([turns], 1), _whole([depth], 0)
    _check(roots.shape[0] % turns == 0 and depth <= values.shape[0], f"{roots.shape[0]} trees by {turns} turns, {depth} deep")
    return Abstract((x.shape[0], turns * values.shape[1]), "f")


RULES: dict[str, Callable[..., Abstract]] = {
    "integer_pow": _power, "convert": _converted, "select": _selected, "clamp": _clamped, "dot": _dot, "conv": _convolved,
    "lookup": _looked_up, "reshape": _reshaped, "transpose": _transposed, "broadcast": _broadcast, "slice": _sliced,
    "take": _taken, "reverse": _reversed, "concatenate": _concatenated, "pad": _padded,
    "trees": _walked,
}  # fmt: skip


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _list(values: object) -> list[Any]:
    """A list, as JSON has it."""
    if not isinstance(values, list | tuple):
        raise ValueError(f"{str(values)[:60]} for a list")
    return list(values)


def _whole(values: object, least: int, count: int | None = None) -> list[int]:
    """Whole numbers, as JSON has them, of at least so much and no more than arrays may have entries."""
    if (
        not isinstance(values, list | tuple)
        or (count is not None and len(values) != count)
        or not all(type(n) is int and least <= n <= reader.LARGEST for n in values)
    ):
        raise ValueError(f"{str(values)[:60]} for numbers")
    return list(values)


def _axes(axes: object, ndim: int) -> list[int]:
    axes = _whole(axes, 0)
    _check(len({*axes}) == len(axes) and max(axes, default=-1) < ndim, f"the axes {axes} of {ndim}")
    return axes


def _permutation(order: object, ndim: int) -> list[int]:
    order = _axes(order, ndim)
    _check(len(order) == ndim, f"the axes {order} of {ndim}")
    return order


def _sides(sides: object, ndim: int) -> list[list[int]]:
    sides = [_whole(side, 0, 2) for side in _list(sides)]
    _check(len(sides) == ndim, "edges of other axes")
    return sides
