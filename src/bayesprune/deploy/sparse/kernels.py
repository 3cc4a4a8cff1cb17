"""A segment of a program by a dense product, by SciPy's sparse one, or compiled by numba, several of them in one."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from bayesprune.core.checks import check_name
from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import Op
from bayesprune.deploy.sparse.fusing import ACTIVATIONS, Segment
from bayesprune.deploy.sparse.layouts import Blocks, blocks, in_lines, runs
from bayesprune.deploy.sparse.threads import in_parts, workers

KERNELS = ("dense", "csr", "numba")
FEW = 6  # rows at most that are quicker one by one, where a matrix has runs
Kernel = Callable[[np.ndarray], np.ndarray]  # operand -> result


def has_numba() -> bool:
    """Whether numba can be imported."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def available() -> tuple[str, ...]:
    """The kernels that this installation has.

    >>> available()[:2]
    ('dense', 'csr')
    """
    return KERNELS if has_numba() else KERNELS[:2]


def check_kernel(name: str) -> None:
    """Refuse a kernel that is unknown, or not installed."""
    check_name("kernel", name, KERNELS)
    if name not in available():
        raise ImportError('kernels by numba need it: pip install "bayesprune[fast]".')


# ---- one operation by NumPy
def step(op: Op) -> Callable[..., np.ndarray]:
    """An operation as a function of (rows, *arrays): `reader.step`, or a faster form of it."""
    if op.name == "conv" and _channels_last(op.attributes):
        return lambda rows, a, w: convolve(a, w, **op.attributes)
    return lambda rows, *arrays: reader.step(op.name, op.attributes, rows, *arrays)


def _channels_last(attributes: Mapping[str, Any]) -> bool:
    n = len(attributes["data"])
    last = [0, n - 1, *range(1, n - 1)]
    kernel = [n - 1, n - 2, *range(n - 2)]
    return attributes["groups"] == 1 and attributes["data"] == attributes["result"] == last and attributes["weights"] == kernel


def convolve(
    a: np.ndarray, w: np.ndarray, strides: Sequence[int], sides: Sequence[Sequence[int]], dilation: Sequence[int], **_: object
) -> np.ndarray:
    """A convolution as one product of patches, channels last everywhere."""
    space = tuple(range(1, a.ndim - 1))
    a = np.pad(a, [(0, 0), *sides, (0, 0)]) if np.any(sides) else a
    windows = reader.windows_of(a, space, w.shape[:-2], strides, dilation)
    patches = np.moveaxis(windows, len(space) + 1, -1)
    positions = patches.shape[: len(space) + 1]
    return (patches.reshape(math.prod(positions), -1) @ w.reshape(-1, w.shape[-1])).reshape(*positions, w.shape[-1])


# ---- segments
def activate(values: np.ndarray, act: str, axis: int) -> np.ndarray:
    """One of `ACTIVATIONS`, in place; ``axis``: of the outputs."""
    match act:
        case "relu":
            np.maximum(values, 0, out=values)
        case "tanh":
            np.tanh(values, out=values)
        case "logistic":
            values[...] = reader.UNARY["logistic"](values)
        case "silu":
            values *= reader.UNARY["logistic"](values)
        case "softmax":
            np.exp(values - values.max(axis, keepdims=True), out=values)
            values /= values.sum(axis, keepdims=True)
    return values


def dense(segment: Segment, weights: np.ndarray) -> Kernel:
    """The product of dense arrays, then the rest in place."""
    function = step(segment.op)
    scale, shift = (None if v is None else v.reshape(segment.shape) for v in (segment.scale, segment.shift))

    def kernel(a: np.ndarray) -> np.ndarray:
        made = np.asarray(function(len(a), a, weights) if len(segment.op.inputs) == 2 else function(len(a), a))
        if scale is not None:
            made *= scale
        if shift is not None:
            made += shift
        return activate(made, segment.act, -1)

    return kernel


def csr(segment: Segment, weights: np.ndarray) -> Kernel:
    """The sparse product by SciPy, rows along the last axis, so that it goes over them number by number."""
    pattern = segment.matrix
    shape = (pattern.height, pattern.width)
    matrix = csr_matrix((segment.values(weights), pattern.columns, pattern.ptr), shape, copy=False)
    shift = None if segment.shift is None else segment.shift[:, None]

    def kernel(a: np.ndarray) -> np.ndarray:
        made = matrix @ a.reshape(-1, pattern.width).T
        if shift is not None:
            made += shift
        return activate(made, segment.act, 0).T.reshape(*a.shape[: segment.lead], *segment.shape)

    return kernel


class LayerKernels:
    """Segments one after another as `kernels_numba` takes them, without their numbers; ``segments``: in the order of its rows.

    ``gaps``: see `in_lines`, for one row.
    """

    def __init__(self, segments: Sequence[Segment], gaps: bool = False) -> None:
        self.lead, self.shape, self.width = segments[0].lead, segments[-1].shape, segments[0].matrix.width
        self.segments, inputs, places = in_lines(segments, gaps)
        outputs = places[-1].astype(np.int32)
        self.patterns = [segment.matrix for segment in self.segments]
        offsets = np.cumsum([0, *(len(p.columns) for p in self.patterns)])
        ptr = np.concatenate([[0], *(p.ptr[1:] + at for p, at in zip(self.patterns, offsets, strict=False))])
        heights = np.array([p.height for p in self.patterns], np.int32)
        self.gaps = [np.isin(np.arange(height), place, invert=True) for height, place in zip(heights, places, strict=True)]
        columns = np.concatenate([p.columns for p in self.patterns])
        self.acts = np.array([ACTIVATIONS.index(segment.act) for segment in segments], np.int32)
        self.size = len(outputs)
        self.structure = (inputs, outputs, heights, ptr.astype(np.int32), columns, self.acts)

    def in_blocks(self, size: int) -> tuple[tuple[np.ndarray, ...], Blocks]:
        """What `kernels_numba.rows` takes before the numbers, and the blocks that these are put in order by."""
        made, (inputs, outputs, *_) = blocks(self.patterns, size), self.structure
        return (inputs, outputs, *made[:7], self.acts), made

    def numbers(self, weights: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """The entries of each matrix, and what all outputs begin with."""
        entries = [s.values(array).astype(np.float32) for s, array in zip(self.segments, weights, strict=True)]
        shifts = [np.zeros(p.height) if s.shift is None else s.shift for s, p in zip(self.segments, self.patterns, strict=True)]
        return entries, np.concatenate(shifts).astype(np.float32)


def chain(segments: Sequence[Segment], weights: Sequence[np.ndarray]) -> Kernel:
    """Segments one after another, compiled by numba: what is between them never leaves the cache."""
    from bayesprune.deploy.sparse import kernels_numba

    layers, single = LayerKernels(segments), LayerKernels(segments, gaps=True)
    entries, bias = layers.numbers(weights)
    in_blocks, blocked = layers.in_blocks(kernels_numba.BLOCK)
    many = (*in_blocks, *blocked.filled(np.concatenate(entries), bias))
    entries, bias = single.numbers(weights)
    lines, work = runs(single.patterns, entries, single.gaps), sum(map(len, entries))
    alone, few = (*single.structure, np.concatenate(entries), bias, *lines), FEW if len(lines.values) else 1

    def kernel(a: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(a.reshape(-1, layers.width), np.float32)
        out = np.empty((len(x), layers.size), np.float32)
        if len(x) <= few:
            for each, made in zip(x, out, strict=True):
                kernels_numba.row(each, *alone, made)
        elif (most := workers(len(x) * work)) == 1:
            kernels_numba.rows(x, *many, out)
        else:
            in_parts(lambda i, j: kernels_numba.rows(x[i:j], *many, out[i:j]), len(x), kernels_numba.LANES, most)
        return out.reshape(*a.shape[: layers.lead], *layers.shape)

    return kernel
