"""Run a compact network by NumPy alone; this file stands by itself and may be copied to where it is needed.

A plan is a list of operations ``[name, inputs, outputs, attributes]`` on numbered arrays, the rows along the first axis. Sizes
in attributes that are below zero stand for that many numbers for each row.
"""

import math
import string

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

UNARY: dict = {
    "abs": np.abs,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": lambda a: _erf(a).astype(a.dtype),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "is_finite": np.isfinite,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": lambda a: 0.5 * np.tanh(0.5 * a) + 0.5,
    "neg": np.negative,
    "not": np.logical_not,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sign": np.sign,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
}
BINARY: dict = {
    "add": np.add,
    "and": np.logical_and,
    "div": np.divide,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "or": np.logical_or,
    "pow": np.power,
    "sub": np.subtract,
}
REDUCE: dict = {"reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min, "reduce_prod": np.prod}
EMPTY = {"window_sum": 0.0, "window_max": -np.inf, "window_min": np.inf}
WINDOW: dict = {"window_sum": np.sum, "window_max": np.max, "window_min": np.min}


def run(plan, values, rows):
    """Fill in ``values``, {number: array}, operation by operation; ``rows``: how many there are."""
    for name, inputs, outputs, attributes in plan:
        values[outputs[0]] = step(name, attributes, rows, *(values[i] for i in inputs))
    return values


def step(name, attributes, rows, *arrays):
    """One operation."""
    a, size = arrays[0], lambda number: -number * rows if number < 0 else number
    if name in UNARY:
        return UNARY[name](a)
    if name in BINARY:
        return BINARY[name](*arrays)
    if name in REDUCE:
        return REDUCE[name](a, axis=tuple(attributes["axes"]))
    if name in WINDOW:
        return pool(a, WINDOW[name], EMPTY[name], **attributes)
    if name == "integer_pow":
        return a ** attributes["y"]
    if name == "convert":
        return a.astype(attributes["dtype"])
    if name == "select":
        return np.where(a, arrays[2], arrays[1])
    if name == "clamp":
        return np.minimum(np.maximum(arrays[1], a), arrays[2])
    if name == "dot":
        return dot(*arrays, **attributes)
    if name == "conv":
        return convolve(*arrays, **attributes)
    if name == "reshape":
        return a.reshape([size(n) for n in attributes["sizes"]])
    if name == "transpose":
        return a.transpose(attributes["order"])
    if name == "broadcast":
        sizes, shape = [size(n) for n in attributes["sizes"]], [1] * len(attributes["sizes"])
        for axis, n in zip(attributes["axes"], a.shape, strict=True):
            shape[axis] = n
        return np.broadcast_to(a.reshape(shape), sizes)
    if name == "slice":
        return a[tuple(slice(lo, None if hi < 0 else hi, by) for lo, hi, by in attributes["ranges"])]
    if name == "take":
        return np.take(a, attributes["index"], attributes["axis"])
    if name == "reverse":
        return np.flip(a, attributes["axes"])
    if name == "concatenate":
        return np.concatenate(arrays, attributes["axis"])
    if name == "pad":
        return np.pad(a, attributes["sides"], constant_values=np.asarray(arrays[1]).item())
    raise ValueError(f"unknown operation {name!r}: this file was written by a later version.")


def dot(a, b, contract, batch):
    """The sum of products over pairs of axes; the result has the batch axes first, then what is left of a and of b."""
    if not batch[0] and b.ndim == 2 and contract == [[a.ndim - 1], [0]]:
        return a @ b
    letters = iter(string.ascii_letters)
    left, right = [""] * a.ndim, [""] * b.ndim
    for pairs in (batch, contract):
        for i, j in zip(*pairs, strict=True):
            left[i] = right[j] = next(letters)
    left, right = [n or next(letters) for n in left], [n or next(letters) for n in right]
    free = [n for n in left if n not in right] + [n for n in right if n not in left]
    result = [left[i] for i in batch[0]] + free
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(result)}", a, b, optimize=True)


def convolve(a, kernel, data, weights, result, strides, sides, dilation, groups):
    """A convolution; ``data``, ``weights``, ``result``: their axes of rows (outputs), channels (inputs), then of space."""
    a, kernel = a.transpose(data), kernel.transpose(weights)
    space = tuple(range(2, a.ndim))
    a = np.pad(a, [(0, 0), (0, 0), *sides])
    windows = sliding_window_view(a, [(n - 1) * d + 1 for n, d in zip(kernel.shape[2:], dilation, strict=True)], space)
    steps, within = [slice(None, None, s) for s in strides], [slice(None, None, d) for d in dilation]
    windows = windows[(slice(None), slice(None), *steps, *within)]
    last = tuple(range(windows.ndim - len(space), windows.ndim))
    parts = zip(np.split(windows, groups, 1), np.split(kernel, groups, 0), strict=True)
    made = [np.tensordot(w, k, axes=((1, *last), (1, *space))) for w, k in parts]
    return np.moveaxis(np.concatenate(made, -1), -1, 1).transpose(np.argsort(result))


def pool(a, function, empty, window, strides, sides):
    """A sum, maximum or minimum over windows."""
    a = np.pad(a, sides, constant_values=empty)
    axes = tuple(axis for axis, n in enumerate(window) if n > 1)
    windows = sliding_window_view(a, [window[axis] for axis in axes], axes)[tuple(slice(None, None, s) for s in strides)]
    return function(windows, axis=tuple(range(a.ndim, windows.ndim)))


def _erf(a):
    try:
        from scipy.special import erf
    except ImportError:
        return np.vectorize(math.erf, otypes=[float])(a)
    return erf(a)
