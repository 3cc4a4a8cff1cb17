"""Matrix products and convolutions: where weights meet what they read, and signals meet signals."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bayesprune.structure.graph import Labels, Product, Shape, Signals, Terms, Value, Weights
from bayesprune.structure.jaxprs import Equation
from bayesprune.structure.primitive import Params, Primitive, Walk
from bayesprune.structure.recorder import LARGEST, Recorder, different_rows


def _dot(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value]:
    """Signals with weights, signals with signals, or weights, which are given up on."""
    _note(walk.recorder, equation, inputs)
    return [_product(walk.recorder, equation.params, *inputs)]


def _note(recorder: Recorder, equation: Equation, inputs: list[Value]) -> None:
    """Note what a product costs. In a loop that is read but once it must be plain what later turns multiply."""
    strides = (0, *(value.stride for value in inputs if isinstance(value, Weights)))
    made_anew = any(isinstance(value, Signals) and value.of_weights and not value.steady for value in inputs)
    if recorder.turns and (made_anew or None in strides or (any(strides) and len(recorder.turns) > 1)):
        recorder.unsettled = "scan"
    shapes = tuple(tuple(atom.aval.shape) for atom in (*equation.invars, *equation.outvars))
    turns, factors = math.prod(recorder.turns), (inputs[0], inputs[1])
    recorder.products.append(Product(equation.primitive, equation.params, shapes, factors, turns))


def _product(recorder: Recorder, params: Params, lhs: Value, rhs: Value) -> Value:
    (contracted, batched) = params["dimension_numbers"]
    if isinstance(lhs, Weights) and isinstance(rhs, Weights):
        bits = recorder.role(lhs, 0, 0, inputs=contracted[0], outputs=_Side(lhs, contracted[0], ()).free)
        lhs = replace(recorder.as_signals(lhs, "multiplied with other weights before any data"), heads=bits)
    sides = [_Side(value, c, b) for value, c, b in zip((lhs, rhs), contracted, batched, strict=True)]
    if isinstance(lhs, Weights):
        return _by_weights(recorder, sides[1], sides[0], first=False)
    if isinstance(rhs, Weights):
        return _by_weights(recorder, sides[0], sides[1], first=True)
    return _of_signals(recorder, *sides)


class _Side:
    """One operand of a product; its axes are taken in the order batch, contracted, free."""

    def __init__(self, value: Value, contracted: Sequence[int], batched: Sequence[int]) -> None:
        self.value = value
        self.batched, self.contracted = tuple(map(int, batched)), tuple(map(int, contracted))
        self.free = tuple(axis for axis in range(len(value.shape)) if axis not in (*self.batched, *self.contracted))
        self.order = (*self.batched, *self.contracted, *self.free)

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """Sizes of batch, contracted and free axes."""
        return [tuple(self.value.shape[axis] for axis in axes) for axes in (self.batched, self.contracted, self.free)]


def _by_weights(recorder: Recorder, data: _Side, kernel: _Side, first: bool) -> Signals:
    """Data times a kernel: each output's signal sums over what the kernel reads."""
    signals, weights = data.value, kernel.value
    assert isinstance(signals, Signals) and isinstance(weights, Weights)
    sizes = dict(zip(kernel.contracted, data.sizes[1], strict=True))
    if any(size > weights.shape[axis] for axis, size in sizes.items()):  # one weight, as by jnp.tile, for all that is read
        shape = [max(size, sizes.get(axis, 1)) for axis, size in enumerate(weights.shape)]
        weights = weights.showing(np.broadcast_to(weights.entries, shape))
    behind = signals.upstream if signals.of_rows else 0
    bits = recorder.role(weights, behind, signals.heads, inputs=kernel.contracted, outputs=(*kernel.free, *kernel.batched))
    within, _, makes = kernel.sizes
    labels = signals.labels.transpose(data.order)
    labels = recorder.merge(labels, [axis for axis, size in enumerate(within) if size == 1], tie=True)
    batch, reads, places = labels.shape[: len(within)], data.sizes[1], data.sizes[2]
    rows = labels.reshape(math.prod(batch), math.prod(reads), math.prod(places)).transpose(2, 0, 1)
    rows, inverse = _classes(recorder, rows, math.prod(weights.shape))
    source = rows.reshape(len(rows), *batch, *reads, *(1 for _ in makes))
    target = recorder.new((len(rows), *within, *(1 for _ in reads), *makes))
    if len(rows) > 1 and math.prod(reads) == 1:  # places are mixed, for each channel by itself: the channel stays what it is
        recorder.tie(target, source)
    else:
        recorder.tie(target, target[:1])
        recorder.tie(source, source[:1])
    back = np.argsort(kernel.order)
    recorder.weigh(weights, *(array.transpose(0, *(1 + back)) for array in (target, source)))
    out = target.reshape(len(rows), *within, *makes)[inverse]
    out = out.reshape(*places, *within, *makes)
    p, b = len(places), len(within)
    order = [*range(p, p + b), *range(p), *range(p + b, out.ndim)]
    if not first:
        order = [*range(p, p + b), *range(p + b, out.ndim), *range(p)]
    heads = bits if signals.of_rows or not signals.heads else bits | signals.heads
    return Signals(out.transpose(order), signals.of_rows, signals.upstream | bits, heads)


def _classes(recorder: Recorder, rows: Labels, size: int) -> tuple[Labels, Labels]:
    """The different rows that a kernel of ``size`` reads, (classes, batch, reads), and which one each place has."""
    flat, inverse = different_rows(rows.reshape(len(rows), -1))
    if len(flat) > 1 and len(flat) * size > LARGEST:
        rows = recorder.merge(rows, (0,), tie=True)
        return rows, np.zeros(len(inverse), np.int64)
    return flat.reshape(len(flat), *rows.shape[1:]), inverse


def _of_signals(recorder: Recorder, lhs: _Side, rhs: _Side) -> Signals:
    """Signals times signals, as queries times keys: sums over what is contracted."""
    one, other = lhs.value, rhs.value
    assert isinstance(one, Signals) and isinstance(other, Signals)
    b, c = len(lhs.batched), len(lhs.contracted)
    left, right = one.labels.transpose(lhs.order), other.labels.transpose(rhs.order)
    if math.prod(left.shape) * math.prod(right.shape[b + c :]) > LARGEST:
        left = recorder.merge(left, range(b + c, left.ndim), tie=False)
        right = recorder.merge(right, range(b + c, right.ndim), tie=False)
    left = left.reshape(*left.shape, *(1 for _ in rhs.free))
    right = right.reshape(*right.shape[: b + c], *(1 for _ in lhs.free), *right.shape[b + c :])
    shape = np.broadcast_shapes(left.shape, right.shape)
    summed = math.prod(shape[b : b + c]) > 1
    blend = summed | (recorder.blend(left) & recorder.blend(right)).all(axis=tuple(range(b, b + c)), keepdims=True)
    target = recorder.new((*shape[:b], *(1 for _ in range(c)), *shape[b + c :]), blend)
    recorder.terms.append(Terms(target, left, right))
    if summed:
        recorder.tie(left, right)
    else:
        recorder.tie(target, left)
        recorder.tie(target, right)
    # A matrix that is made of weights alone is a kernel, too; what it multiplies is what that kernel reads.
    heads = recorder.before.moved(one.heads | other.heads)
    for matrix, data in ((one, other), (other, one)):
        if data.of_rows and not matrix.of_rows and matrix.upstream:
            recorder.reads(matrix.upstream, data.upstream, data.heads)
            heads = matrix.heads or matrix.upstream
    out = target.reshape((*shape[:b], *shape[b + c :]))
    return Signals(out, one.of_rows or other.of_rows, one.upstream | other.upstream, heads)


def _convolution(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value] | None:
    """A convolution of data with a kernel: positions are all alike, each group of channels reads its own."""
    _note(walk.recorder, equation, inputs)
    (data, weights), params, recorder = inputs, equation.params, walk.recorder
    if params["batch_group_count"] != 1 or not isinstance(data, Signals) or not isinstance(weights, Weights):
        return None
    shape = tuple(equation.invars[1].aval.shape)
    data_spec, kernel_spec, out_spec = params["dimension_numbers"]
    groups = params["feature_group_count"]
    if groups > 1 and weights.shape != shape:
        weights = weights.showing(np.broadcast_to(weights.entries, shape))
    axes = {"inputs": kernel_spec[1:2], "outputs": kernel_spec[:1], "positions": kernel_spec[2:]}
    bits = recorder.role(weights, data.upstream, data.heads, **axes)
    for site in weights.sites:
        recorder.channel_groups.setdefault(site, groups)
    rank = data.labels.ndim
    channels = recorder.merge(data.labels, [axis for axis in range(rank) if axis != data_spec[1]], tie=True).ravel()
    makes, reads = (weights.shape[axis] for axis in kernel_spec[:2])
    source = channels.reshape(1, -1)
    if len(channels) > 1 and groups > 1:
        group = np.arange(makes) // (makes // groups)
        source = channels[group[:, None] * reads + np.arange(reads)]
    target = recorder.new((makes, 1))
    back = np.argsort(kernel_spec)
    in_kernel = [array.reshape(*array.shape, *(1 for _ in kernel_spec[2:])).transpose(back)[None] for array in (target, source)]
    recorder.weigh(weights, *in_kernel)
    out = [1] * rank
    out[out_spec[1]] = makes
    return [Signals(target.reshape(out), data.of_rows, data.upstream | bits, bits)]


# ---- where the axis of an operand goes
def _axis_of_dot(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    contracted, batch = (sides[operand] for sides in params["dimension_numbers"])
    if axis in batch:
        return list(batch).index(axis)
    free = [other for other in range(len(shape)) if other not in (*contracted, *batch)]
    start = len(batch) if operand == 0 else len(out) - len(free)
    return start + free.index(axis) if axis in free else None


def _axis_of_conv(params: Params, shape: Shape, out: Shape, operand: int, axis: int) -> int | None:
    numbers = params["dimension_numbers"]
    rows = operand == 0 and axis == numbers.lhs_spec[0] and params["batch_group_count"] == 1
    return int(numbers.out_spec[0]) if rows else None


# ---- how many multiply-adds each number of the right operand takes part in
def _uses_in_dot(params: Params, shapes: Sequence[Shape]) -> np.ndarray:
    (contracted, _), (batched, _) = params["dimension_numbers"]
    rows = math.prod(size for axis, size in enumerate(shapes[0]) if axis not in (*contracted, *batched))
    return np.full((1,) * len(shapes[1]), rows)


def _uses_in_conv(params: Params, shapes: Sequence[Shape]) -> np.ndarray:
    """A convolution meets every position of its kernel at every output, also where padding lies under it; zeros put between
    the inputs, as by a transposed convolution, are not counted."""
    _, rhs, out = shapes
    _, kernel, output = params["dimension_numbers"]
    uses = np.full((1,) * len(rhs), out[output[0]])
    steps = (params["window_strides"], params["padding"], params["lhs_dilation"], params["rhs_dilation"])
    for axis, to, stride, (low, _), spread, reach in zip(kernel[2:], output[2:], *steps, strict=True):
        places = np.arange(out[to])[:, None] * stride + np.arange(rhs[axis]) * reach - low
        met = (places % spread == 0).sum(axis=0)
        uses = uses * met.reshape([-1 if a == axis else 1 for a in range(len(rhs))])
    return uses


RECORDS = [
    Primitive("dot_general", read=_dot, axis=_axis_of_dot, linear="product", uses=_uses_in_dot, plan="dot"),
    Primitive("conv_general_dilated", read=_convolution, axis=_axis_of_conv, linear="product", uses=_uses_in_conv, plan="conv"),
]
