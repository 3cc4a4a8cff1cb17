"""A compact network as a PyTorch module without a parameter for any zero: the counterpart of `reader`, with gradients."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.model.transforms.entries import Entries

# Where PyTorch has another name than JAX's primitive.
OTHER: dict[str, Callable[..., Tensor]] = {
    "cbrt": lambda a: torch.sign(a) * torch.abs(a) ** (1 / 3), "is_finite": torch.isfinite, "logistic": torch.sigmoid,
    "not": torch.logical_not, "and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor,
    "max": torch.maximum, "min": torch.minimum, "rem": torch.fmod,
}  # fmt: skip
FOLD = {"window_sum": torch.add, "window_max": torch.maximum, "window_min": torch.minimum}


def module(program: OpProgram, is_one: bool, trainable: Mapping[str, np.ndarray]) -> "TorchModule":
    """The module, or the reason why there is none. ``is_one``: the network takes one array and gives one."""
    if not is_one:
        raise ValueError("a PyTorch module takes one array and gives one, and this network has several: train net() by JAX.")
    if unknown := sorted({op.name for op in program.ops} - {*FUNCTIONS}):
        raise ValueError(f"operations that only JAX knows ({', '.join(unknown)}): train net() or to_equinox() by JAX.")
    return TorchModule(program, trainable)


class TorchModule(torch.nn.Module):
    """See `Compact.to_torch`. ``values``: the parameters, by the number that the program gives to their array."""

    def __init__(self, program: OpProgram, trainable: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.program, self.shapes = program, {}
        self.values = torch.nn.ParameterDict()
        self.numbers = {str(number): site for site, number in program.weights.items()} or {name: name for name in trainable}
        for number, name in self.numbers.items():
            array = np.asarray(trainable[name])
            living = Entries.living(array)
            self.values[number] = torch.nn.Parameter(torch.tensor(array.reshape(-1)[living.places]))
            self.register_buffer(f"places{number}", torch.tensor(living.places, dtype=torch.long))
            self.shapes[number] = living.sizes
        for place, constant in program.constants.items():
            if str(place) not in self.numbers:
                self.register_buffer(f"constant{place}", torch.tensor(np.asarray(constant)))

    def weights(self) -> dict[int, Tensor]:
        """The arrays with their zeros, by number."""

        def whole(number: str, values: Tensor) -> Tensor:
            flat = values.new_zeros(math.prod(self.shapes[number]))
            return flat.index_put((self.get_buffer(f"places{number}"),), values).reshape(self.shapes[number])

        return {int(number): whole(number, values) for number, values in self.values.items()}

    def forward(self, x: Tensor) -> Tensor:
        constants = {n: self.get_buffer(f"constant{n}") for n in self.program.constants if str(n) not in self.numbers}
        known = constants | self.weights()
        if self.program.one_by_one:
            return torch.cat([self._run(known, row[None]) for row in x])
        return self._run(known, x)

    def _run(self, known: Mapping[int, Tensor], x: Tensor) -> Tensor:
        values = {**known, self.program.rows: x}
        for op in self.program.ops:
            arrays = (values[i] for i in op.inputs)
            values[op.outputs[0]] = reader.step(op.name, op.attributes, len(x), *arrays, functions=FUNCTIONS)
        return values[self.program.output]


def _dot(a: Tensor, b: Tensor, contract: Sequence[Sequence[int]], batch: Sequence[Sequence[int]]) -> Tensor:
    """The sum of products over pairs of axes; the result has the batch axes first, then what is left of a and of b."""
    return torch.einsum(reader.subscripts(a.ndim, b.ndim, contract, batch), a, b)


def _convolve(a: Tensor, kernel: Tensor, **of: Any) -> Tensor:
    function = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[a.ndim - 2]
    a = _pad(a.permute(*of["data"]), 0.0, [(0, 0), (0, 0), *of["sides"]])
    steps, kernel = (tuple(of["strides"]), 0, tuple(of["dilation"])), kernel.permute(*of["weights"])
    return function(a, kernel, None, *steps, of["groups"]).permute(*np.argsort(of["result"]).tolist())


def _pad(a: Tensor, filler: Tensor | float, sides: Sequence[Sequence[int]]) -> Tensor:
    value = filler.item() if isinstance(filler, Tensor) else filler
    return functional.pad(a, [n for low, high in reversed(list(sides)) for n in (low, high)], value=value)


def _pool(a: Tensor, name: str, window: Sequence[int], strides: Sequence[int], sides: Sequence[Sequence[int]]) -> Tensor:
    """A sum, maximum or minimum over windows: axis by axis, of as many slices as a window is long there."""
    a = _pad(a, reader.EMPTY[name], sides)
    for axis, (n, by) in enumerate(zip(window, strides, strict=True)):
        count = max(0, (a.shape[axis] - n) // by + 1)
        places = [torch.arange(at, at + count * by, by, device=a.device) for at in range(n if count else 1)]
        a = functools.reduce(FOLD[name], [a.index_select(axis, one) for one in places])
    return a


def _look_up(table: Tensor, index: Tensor, fill: bool) -> Tensor:
    index = index[..., 0].long()
    inside = index.clamp(0, len(table) - 1)
    made = table[inside]
    outside = (inside != index).reshape(index.shape + (1,) * (table.ndim - 1))
    return torch.where(outside, torch.full_like(made, torch.nan), made) if fill else made


def _broadcast(a: Tensor, sizes: Sequence[int], axes: Sequence[int]) -> Tensor:
    shape = [1] * len(sizes)
    for axis, size in zip(axes, a.shape, strict=True):
        shape[axis] = size
    return a.reshape(shape).expand(*sizes)


def _walk(x: Tensor, *nodes: Tensor, turns: int, depth: int) -> Tensor:
    """As `reader.trees`."""
    column, at, below, values, roots = nodes
    column, below, node = column.long(), below.long(), roots.long().expand(len(x), -1)
    for _ in range(depth):
        node = torch.where(below[node] > 0, below[node] + (x.gather(1, column[node]) > at[node]), node)
    return values[node].reshape(len(x), -1, turns * values.shape[1]).sum(1)


def _convert(a: Tensor, dtype: object) -> Tensor:
    """As `reader.convert`."""
    kind = getattr(torch, str(dtype))
    if a.is_floating_point() and not (kind.is_floating_point or kind is torch.bool):
        ends = torch.iinfo(kind)
        return torch.nan_to_num(a.double(), nan=0.0).clamp(ends.min, ends.max).to(kind)
    return a.to(kind)


def _product(a: Tensor, axes: Sequence[int]) -> Tensor:
    return functools.reduce(lambda made, axis: made.prod(axis), sorted(axes, reverse=True), a)


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **{name: OTHER.get(name) or getattr(torch, name) for name in (*reader.UNARY, *reader.BINARY)},
    "integer_pow": lambda a, y: a**y,
    "convert": _convert,
    "trees": _walk,
    "dot": _dot,
    "conv": _convolve,
    "select": lambda a, no, yes: torch.where(a, yes, no),
    "clamp": lambda low, a, high: torch.minimum(torch.maximum(a, low), high),
    "reshape": lambda a, sizes: a.reshape(sizes),
    "transpose": lambda a, order: a.permute(*order),
    "lookup": _look_up,
    "broadcast": _broadcast,
    "slice": reader.REST["slice"],
    "take": lambda a, index, axis: a.index_select(axis, torch.tensor(index, device=a.device)),
    "reverse": lambda a, axes: a.flip(*axes),
    "concatenate": lambda *arrays, axis: torch.cat(arrays, axis),
    "pad": _pad,
    "reduce_sum": lambda a, axes: a.sum(tuple(axes)),
    "reduce_max": lambda a, axes: a.amax(tuple(axes)),
    "reduce_min": lambda a, axes: a.amin(tuple(axes)),
    "reduce_prod": _product,
    **{name: functools.partial(lambda a, name, **how: _pool(a, name, **how), name=name) for name in FOLD},
}
