"""Read a compact network and predict with it by NumPy alone; this file needs no other and may be copied where it is needed.

    python reader.py net.bayesprune rows.npy      # prints E[y | x] of the network at the posterior mean

A plan is a list of operations ``[name, inputs, outputs, attributes]`` on numbered arrays, the rows along the first axis. Sizes
in attributes that are below zero stand for that many numbers for each row.
"""

import functools
import hashlib
import json
import math
import string
import sys
import zlib

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

UNARY: dict = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "erf": lambda a: _special("erf", a),
    "erfc": lambda a: _special("erfc", a), "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "floor": np.floor,
    "is_finite": np.isfinite, "log": np.log, "log1p": np.log1p, "logistic": lambda a: _logistic(a), "neg": np.negative,
    "not": np.logical_not, "round": np.round, "rsqrt": lambda a: 1 / np.sqrt(a), "sign": np.sign, "sin": np.sin,
    "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
BINARY: dict = {
    "add": np.add, "and": np.logical_and, "div": np.divide, "eq": np.equal, "ge": np.greater_equal, "gt": np.greater,
    "le": np.less_equal, "lt": np.less, "max": np.maximum, "min": np.minimum, "mul": np.multiply, "ne": np.not_equal,
    "or": np.logical_or, "pow": np.power, "rem": np.fmod, "sub": np.subtract, "xor": np.logical_xor,
}  # fmt: skip
REDUCE: dict = {"reduce_sum": np.add, "reduce_max": np.maximum, "reduce_min": np.minimum, "reduce_prod": np.multiply}
EMPTY = {"window_sum": 0.0, "window_max": -np.inf, "window_min": np.inf}
WINDOW: dict = {"window_sum": np.add, "window_max": np.maximum, "window_min": np.minimum}
FORMAT, VERSION = "bayesprune network", "1.0"
ROOM, TIMES = 1 << 26, 256  # bytes that any file may unpack to, and as many times its own; pruned networks need some tens
LARGEST = 1 << 28  # numbers of all arrays: a file that claims more is refused before they are allocated
WHOLE = 1 << 24  # up to which float32, which operations get rows in, holds every whole number
CHUNK = 1 << 20  # numbers that are decoded at a time
ROWS = 128  # at a time: what is between the operations stays in the cache
TYPES = {"F32": "<f4", "U8": "u1", "I8": "i1", "I16": "<i2", "I32": "<i4", "U16": "<u2", "BOOL": "?", "I64": "<i8"}


def load(path, max_bytes=None):
    """A file: its plan, and its arrays by name. Raises ``ValueError`` that names a file which is not what was written.

    ``max_bytes``: what the arrays may take; None: 64 MiB, or 256 times what they take in the file, whichever is more.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        plan, streams = _opened(memoryview(content))
        check_size(plan, streams, max_bytes)
        return plan, decode(plan, streams)
    except Exception as error:  # a damaged file may fail in any way at all
        raise ValueError(f"{path} is no whole {FORMAT} ({type(error).__name__}: {error}). Copy it again.") from error


def _opened(content):
    """The plan and the streams of a safetensors file, by their checksums what was written."""
    length = int.from_bytes(content[:8], "little")
    header, body, end = json.loads(bytes(content[8 : 8 + length])), content[8 + length :], 0
    texts = header.pop("__metadata__", {})
    if texts.get("format") != FORMAT or texts.get("version") != VERSION:
        raise ValueError(f"its header says format {texts.get('format')!r}, version {texts.get('version')!r}, not {VERSION!r}")
    if texts.pop("checksum", "") != _sha256(json.dumps(texts, sort_keys=True, separators=(",", ":")).encode()):
        raise ValueError("its header does not have the checksum that it states")
    streams, parts = {}, list[memoryview]()
    for name, entry in sorted(header.items(), key=lambda one: one[1]["data_offsets"]):
        begin, after = entry["data_offsets"]
        if not begin == end <= after <= len(body):
            raise ValueError(f"{name} does not lie where the arrays before it end")
        streams[name], end = np.frombuffer(body[begin:after], TYPES[entry["dtype"]]).reshape(entry["shape"]), after
    for name, array in sorted(streams.items()):
        parts += [memoryview(json.dumps([name, array.dtype.str, array.shape]).encode()), array.reshape(-1).view("u1").data]
    if end != len(body) or texts["tensors"] != _sha256(b"".join(parts)):
        raise ValueError("its numbers do not have the checksum that it states")
    return json.loads(texts["plan"]), streams


def _sha256(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def check_size(plan, streams, max_bytes=None):
    """Refuse a small file whose arrays take very much memory, before they are made."""
    shapes, stored = [how["shape"] for how in plan["arrays"].values()], sum(stream.nbytes for stream in streams.values())
    if any(type(n) is not int or n < 0 for shape in shapes for n in shape) or sum(map(math.prod, shapes)) > LARGEST:
        raise ValueError(f"the arrays claim more than {LARGEST:,} numbers, or shapes that are none")
    needed = sum(
        math.prod(how["shape"]) * (streams[f"{name}.values"].itemsize if how["values"] == "plain" else 4)
        for name, how in plan["arrays"].items()
    )
    if needed > (max(ROOM, TIMES * stored) if max_bytes is None else max_bytes):
        raise ValueError(f"{stored:,} bytes unpack to {needed:,}: if you trust who wrote it, load(path, max_bytes={needed})")


def decode(plan, streams):
    """Arrays by name, out of the streams that hold their values and the places of those; after `check_size`."""
    arrays, mask, marked = dict[str, np.ndarray](), None, ""
    for name, how in plan["arrays"].items():
        coding, places, stream, size = how["values"], how["places"], streams[f"{name}.values"], math.prod(how["shape"])
        count, begin = plan["places"][places]["count"] if places else size, 0
        if type(count) is not int or not 0 <= count <= size or (type(coding) is str and stream.size != count):
            raise ValueError(f"{name} claims {count} values for {size} places, and has others")
        if places != marked:
            mask, marked = _places(plan["places"][places], streams[places], size) if places else None, places
        numbers = stream.reshape(-1) if type(coding) is str else _unpacked(stream, coding["type"], count)
        flat, step = np.zeros(size, stream.dtype if coding == "plain" else np.float32), arrays.get(how["step"])
        for first in range(0, size, CHUNK):
            alive = slice(first, first + CHUNK) if mask is None else first + np.flatnonzero(mask[first : first + CHUNK])
            here, begin = slice(begin, begin + flat[alive].size), begin + flat[alive].size
            flat[alive] = _values(coding, numbers[here], None if step is None else step.reshape(-1)[alive])
        arrays[name] = flat.reshape(how["shape"])
    return arrays


def _values(coding, numbers, step):
    """Values as they are, or as whole numbers of steps."""
    if coding == "plain":
        return numbers
    if coding == "bfloat16":
        return (numbers.astype("<u4") << 16).view("<f4")
    made = np.exp(numbers / np.float32(8)) if step is None else numbers * step / 2  # 1/8 of a logarithm, half of the scale
    return made.astype(np.float32)


def _places(how, stream, size):
    """True at the places that have a value: from a bit for each place, or from the gaps between them."""
    if how["coding"] == "bits":
        mask = np.unpackbits(_unpacked(stream, "u1", -(-size // 8)), count=size).view(bool)
    else:
        mask, index = np.zeros(size, bool), np.cumsum(_unpacked(stream, "<u4", how["count"]), dtype=np.uint32)
        index -= 1  # a gap of 0 makes it the largest number, one too large makes it smaller than the one before: neither counts
        mask[index[index < size]] = True
    if np.count_nonzero(mask) != how["count"]:
        raise ValueError(f"{np.count_nonzero(mask)} places, where {how['count']} are claimed")
    return mask


def _unpacked(stream, kind, count):
    """So many numbers out of a compressed stream, and no more."""
    unpacker, length = zlib.decompressobj(), count * np.dtype(kind).itemsize
    found = unpacker.decompress(stream.tobytes(), length + 1)
    if stream.dtype != "u1" or len(found) != length or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"a stream has not the {length} bytes that it should have")
    return np.frombuffer(found, kind)


def mean_weights(plan, arrays):
    """E[w] by number."""
    law, means = plan["law"], {}
    for site, number in plan["weights"].items():
        if law["kind"] == "draws":
            means[number] = arrays[f"draws/{site}"].mean(0)
        else:
            mean, std = law["log"].get(law["shared"].get(site), (0.0, 0.0))
            means[number] = arrays[f"loc/{site}"] * np.float32(math.exp(mean + std * std / 2))
    return means


def predict(plan, arrays, x):
    """E[y | x] of the network at the posterior mean, for rows x; of drawn networks, averaged over them."""
    x, law = rows_of(plan, x), plan["law"]
    draws = [arrays[f"draws/{site}"] for site in plan["weights"]] if law["kind"] == "draws" else []
    if not draws:
        return outputs(plan, arrays, [mean_weights(plan, arrays)], x)
    numbers = list(plan["weights"].values())
    return outputs(plan, arrays, [dict(zip(numbers, weights, strict=True)) for weights in zip(*draws, strict=True)], x)


def rows_of(plan, x):
    """Rows in float32; of several arrays, ``x["tokens"]`` or ``x[0]``, each flattened, side by side."""
    parts, one = [], {"path": [], "shape": plan["input_shape"], "takes": plan.get("takes", "float32")}
    inputs = plan.get("inputs", [one])
    for how, limits in zip(inputs, plan.get("bounds", [None] * len(inputs)), strict=True):
        part = np.asanyarray(functools.reduce(lambda tree, key: tree[key], how["path"], x))
        check_rows(how["takes"], how["shape"], part)
        check_places(limits, part)
        parts.append(np.asarray(part, np.float32))
    if "inputs" not in plan:
        return parts[0]
    return np.concatenate([part.reshape(len(part), math.prod(part.shape[1:])) for part in parts], 1)


def check_rows(takes, shape, x):
    """Refuse rows of another shape or type than the network takes, and numbers that float32 does not hold, NaN among them."""
    if list(x.shape[1:]) != shape or np.ma.is_masked(x):
        raise ValueError(f"rows must have the shape {shape}, without masked numbers, got {list(x.shape[1:])}.")
    if takes == "uint8" and x.dtype != np.uint8:
        raise ValueError("rows must be bytes, dtype uint8, which the network scales itself.")
    if (takes == "int32" and x.dtype.kind not in "iu") or (takes == "bool" and x.dtype.kind != "b"):
        raise ValueError(f"rows must be {'integers' if takes == 'int32' else 'booleans'}, got {x.dtype}.")
    if takes == "int32" and max(int(x.max(initial=0)), -int(x.min(initial=0))) > WHOLE:
        raise ValueError(f"rows hold integers beyond {WHOLE:,}.")
    if takes == "float32" and (x.dtype.kind in "cmM" or not np.isfinite(x.astype(np.float32)).all()):
        raise ValueError("rows must be real numbers, and finite: a comparison, as of a tree, would make a number of NaN.")


def check_places(bounds, x):
    """Refuse whole numbers beyond the tables that the network looks them up in: it would read another entry, or NaN."""
    if bounds is None or not len(x):
        return
    low, high = (np.trunc(ends.astype(np.float64)).reshape(-1) for ends in (x.min(0), x.max(0)))
    entries = np.asarray(bounds["entries"])
    for number, (least, most, table) in enumerate(bounds["limits"]):
        wrong = np.flatnonzero((entries == number) & ((low < least) | (high > most)))
        if wrong.size:
            value = low[wrong[0]] if low[wrong[0]] < least else high[wrong[0]]
            raise ValueError(
                f"entry {wrong[0]} of a row holds {value:.0f}, and {table}, where it is looked up, takes {least} to {most}."
            )


def outputs(plan, arrays, networks, x):
    """E[y | x], the mean over networks, {number: weights} each: the network, then the mean of its likelihood."""
    head, made, known = plan["head"], [], {number: arrays[f"constant/{number}"] for number in plan["constants"]}
    constants = {number: arrays[f"head/{number}"] for number in head["constants"]}
    weighed = {*plan["weights"].values()}
    for _, inputs, results, _ in plan["ops"]:
        weighed.update(results if weighed & {*inputs} else ())
    shared = [op for op in plan["ops"] if op[2][0] not in weighed]  # what no weight enters, is the same for all networks
    for first in range(0, max(1, len(x)), ROWS):
        rows = x[first : first + ROWS]
        before = run(shared, {**known, plan["rows"]: rows}, len(rows))
        found = [run(plan["ops"], {**before, **weights}, len(rows))[plan["output"]] for weights in networks]
        ends = [run(head["ops"], {**constants, head["rows"]: one}, len(rows))[head["output"]] for one in found]
        made.append(np.mean(ends, 0) if len(ends) > 1 else ends[0])
    return np.concatenate(made)


def run(plan, values, rows):
    """Fill in ``values``, {number: array}, operation by operation, but what is there; ``rows``: how many there are."""
    for place, (name, inputs, outputs, attributes) in enumerate(plan):
        if outputs[0] in values:
            continue
        try:
            values[outputs[0]] = step(name, attributes, rows, *(values[i] for i in inputs))
        except Exception as error:  # of a plan that nobody has checked
            raise ValueError(f"operation {place}, {name!r}, cannot be run ({type(error).__name__}: {error}).") from error
    return values


def step(name, attributes, rows, *arrays, functions=None):
    """One operation; ``functions``: by name, those of another library."""
    functions = FUNCTIONS if functions is None else functions
    if name not in functions:
        raise ValueError(f"unknown operation {name!r}: this file was written by a later version.")
    if "sizes" in attributes:
        attributes = {**attributes, "sizes": [-n * rows if n < 0 else n for n in attributes["sizes"]]}
    return functions[name](*arrays, **attributes)


def dot(a, b, contract, batch):
    """The sum of products over pairs of axes; the result has the batch axes first, then what is left of a and of b."""
    if not batch[0] and b.ndim == 2 and contract == [[a.ndim - 1], [0]]:
        return a @ b
    return np.einsum(subscripts(a.ndim, b.ndim, contract, batch), a, b, optimize=True)


def subscripts(left_axes, right_axes, contract, batch):
    """The same product as `einsum` has it."""
    letters = iter(string.ascii_letters)
    left, right = [""] * left_axes, [""] * right_axes
    for pairs in (batch, contract):
        for i, j in zip(*pairs, strict=True):
            left[i] = right[j] = next(letters)
    left, right = [n or next(letters) for n in left], [n or next(letters) for n in right]
    free = [n for n in left if n not in right] + [n for n in right if n not in left]
    result = [left[i] for i in batch[0]] + free
    return f"{''.join(left)},{''.join(right)}->{''.join(result)}"


def lookup(table, index, fill):
    """Rows of a table by their numbers, (..., 1): beyond its ends NaN where ``fill``, else its first or last row."""
    index = index[..., 0].astype(np.int64)
    inside = np.clip(index, 0, len(table) - 1)
    made = table[inside]
    if fill and (inside != index).any():
        made[inside != index] = np.nan
    return made


def convolve(a, kernel, data, weights, result, strides, sides, dilation, groups):
    """A convolution; ``data``, ``weights``, ``result``: their axes of rows (outputs), channels (inputs), then of space."""
    a, kernel, space = a.transpose(data), kernel.transpose(weights), tuple(range(2, a.ndim))
    a = np.pad(a, [(0, 0), (0, 0), *sides]) if np.any(sides) else a
    windows = windows_of(a, space, kernel.shape[2:], strides, dilation)
    parts = zip(np.split(windows, groups, 1), np.split(kernel, groups, 0), strict=True)
    order = (*range(-len(space), 0), 1), (*space, 1)  # in this order patches are copied quicker
    made = [np.tensordot(w, k, axes=order) for w, k in parts]
    return np.moveaxis(np.concatenate(made, -1), -1, 1).transpose(np.argsort(result))


def windows_of(a, axes, taps, strides, dilation):
    """What lies under a kernel of so many taps along ``axes``, at each place: the axes of the taps come last."""
    windows = sliding_window_view(a, [(n - 1) * d + 1 for n, d in zip(taps, dilation, strict=True)], axes)
    along = dict(zip(axes, strides, strict=True))
    steps = [along.get(axis, 1) for axis in range(a.ndim)]
    return windows[tuple(slice(None, None, by) for by in (*steps, *dilation))]


def pool(a, fold, empty, window, strides, sides):
    """A sum, maximum or minimum over windows: axis by axis, of as many slices as a window is long there."""
    a = np.pad(a, sides, constant_values=empty) if np.any(sides) else a
    for axis, (n, by) in enumerate(zip(window, strides, strict=True)):
        count, whole = max(0, (a.shape[axis] - n) // by + 1), [slice(None)] * axis
        a = functools.reduce(fold, [a[(*whole, slice(at, at + count * by, by))] for at in range(n if count else 1)])
    return a


WALKED, TOGETHER = 4096, 1 << 16  # that go down trees together, and rows times trees


def trees(x, column, at, below, values, roots, turns, depth):
    """Every row from each root to its leaf, below which is 0; what leaves add to the numbers, tree after tree, by turns.

    A few rows and trees at a time: their nodes, and where the rows are in them, stay in the processor's cache.
    """
    column, below, roots = (array.astype(np.int32) for array in (column, below, roots))
    made = np.zeros((len(x), turns * values.shape[1]), values.dtype)
    for row in range(0, len(x), WALKED):
        some = x[row : row + WALKED]
        numbers, begins = some.ravel(), (np.arange(len(some), dtype=np.int32) * np.int32(x.shape[1]))[:, None]
        together = max(1, TOGETHER // len(some) // turns) * turns
        for first in range(0, len(roots), together):
            node = np.tile(roots[first : first + together], (len(some), 1))
            for _ in range(depth):
                higher = numbers.take(begins + column.take(node, mode="clip"), mode="clip") > at.take(node, mode="clip")
                following = below.take(node, mode="clip")
                np.copyto(node, following + higher, where=following > 0)
            added = values.take(node, axis=0, mode="clip")
            made[row : row + WALKED] += added.reshape((len(some), -1, made.shape[1])).sum(axis=1)
    return made


def convert(a, dtype):
    """As XLA does it: what is beyond the whole numbers of a type is the nearest of them, and NaN is 0."""
    if a.dtype.kind != "f" or np.dtype(dtype).kind not in "iu":
        return a.astype(dtype)
    ends = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        whole = a.astype(dtype)
    whole = np.where(a >= ends.max, ends.max, np.where(a <= ends.min, ends.min, whole))
    return np.where(np.isnan(a), 0, whole).astype(dtype)


def _logistic(a):
    with np.errstate(over="ignore"):  # 1 / infinity is the right limit
        return 1 / (1 + np.exp(-a))


def _special(name, a):
    try:
        from scipy import special
    except ImportError:
        return np.vectorize(getattr(math, name), otypes=[float])(a).astype(a.dtype)
    return getattr(special, name)(a).astype(a.dtype)


REST: dict = {
    "integer_pow": lambda a, y: a**y, "convert": convert, "dot": dot, "conv": convolve,
    "select": lambda a, no, yes: np.where(a, yes, no), "clamp": lambda low, a, high: np.minimum(np.maximum(a, low), high),
    "reshape": lambda a, sizes: a.reshape(sizes), "transpose": lambda a, order: a.transpose(order), "lookup": lookup,
    "broadcast": lambda a, sizes, axes: np.broadcast_to(np.expand_dims(a, [*({*range(len(sizes))} - {*axes})]), sizes),
    "slice": lambda a, ranges: a[tuple(slice(lo, None if hi < 0 else hi, by) for lo, hi, by in ranges)],
    "take": lambda a, index, axis: np.take(a, index, axis), "reverse": lambda a, axes: np.flip(a, axes),
    "concatenate": lambda *arrays, axis: np.concatenate(arrays, axis),
    "pad": lambda a, filler, sides: np.pad(a, sides, constant_values=np.asarray(filler).item()),
    "trees": trees,
    **{name: lambda a, axes, fold=fold: fold.reduce(a, tuple(axes), None if a.dtype == bool else a.dtype)
       for name, fold in REDUCE.items()},  # whole numbers in their own type, as XLA adds them up
    **{name: lambda a, *, name=name, **how: pool(a, WINDOW[name], EMPTY[name], **how) for name in WINDOW},
}  # fmt: skip
FUNCTIONS: dict = {**UNARY, **BINARY, **REST}
NAMES = frozenset(FUNCTIONS)
# Arrays; all others take one.
TAKES = dict.fromkeys([*BINARY, "dot", "conv", "lookup", "pad"], 2) | {"select": 3, "clamp": 3, "trees": 6}


if __name__ == "__main__":
    try:
        network, numbers = load(sys.argv[1])
        given = np.load(sys.argv[2])  # of several inputs, an .npz file with their names
        made = predict(network, numbers, given if "inputs" in network or isinstance(given, np.ndarray) else given["x"])
    except (OSError, ValueError) as error:
        sys.exit(f"{sys.argv[0]}: {error}")
    np.savetxt(sys.stdout, made.reshape(len(made), -1), "%.6g")
