"""Matrix products and look-ups: where weights meet what they read, and signals meet signals."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesprune.structure.graph import Terms
from bayesprune.structure.movement import Labels
from bayesprune.structure.recorder import LARGEST, Recorder, different_rows
from bayesprune.structure.values import CONSTANT, Signals, Value, Weights


def read_product(recorder: Recorder, params: dict[str, Any], lhs: Value, rhs: Value) -> Value:
    """A ``dot_general`` of signals with weights, of signals with signals, or of weights, which are given up on."""
    (contracted, batched) = params["dimension_numbers"]
    if isinstance(lhs, Weights) and isinstance(rhs, Weights):
        bits = recorder.role(lhs, 0, inputs=contracted[0], outputs=_free(lhs, contracted[0]))
        lhs = replace(recorder.as_signals(lhs, "multiplied with other weights before any data"), heads=bits)
    sides = [_Side(value, c, b) for value, c, b in zip((lhs, rhs), contracted, batched, strict=True)]
    if isinstance(lhs, Weights):
        return _by_weights(recorder, sides[1], sides[0], first=False)
    if isinstance(rhs, Weights):
        return _by_weights(recorder, sides[0], sides[1], first=True)
    return _of_signals(recorder, *sides)


def _free(value: Value, contracted: Sequence[int]) -> list[int]:
    return [axis for axis in range(len(value.shape)) if axis not in contracted]


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
    behind = signals.upstream if signals.of_rows else 0
    bits = recorder.role(weights, behind, inputs=kernel.contracted, outputs=(*kernel.free, *kernel.batched))
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
    heads = one.heads | other.heads
    for matrix, data in ((one, other), (other, one)):
        if data.of_rows and not matrix.of_rows and matrix.upstream:
            recorder.reads(matrix.upstream, data.upstream)
            heads = matrix.heads or matrix.upstream
    out = target.reshape((*shape[:b], *shape[b + c :]))
    return Signals(out, one.of_rows or other.of_rows, one.upstream | other.upstream, heads)


def read_convolution(
    recorder: Recorder, params: dict[str, Any], data: Signals, weights: Weights, shape: tuple[int, ...]
) -> Signals:
    """A convolution of data with a kernel of ``shape``: positions are all alike, each group of channels reads its own."""
    data_spec, kernel_spec, out_spec = params["dimension_numbers"]
    groups = params["feature_group_count"]
    if groups > 1 and weights.shape != shape:
        weights = weights.showing(np.broadcast_to(weights.entries, shape))
    bits = recorder.role(weights, data.upstream, inputs=kernel_spec[1:2], outputs=kernel_spec[:1], positions=kernel_spec[2:])
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
    return Signals(target.reshape(out), data.of_rows, data.upstream | bits, bits)


def read_gather(recorder: Recorder, params: dict[str, Any], table: Value, index: Value, shape: tuple[int, ...]) -> Value | None:
    """A look-up: of each axis of the table, of ``shape``, either all is taken or single entries. None: it is neither."""
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    if numbers.operand_batching_dims or not isinstance(index, Signals):
        return None
    places = [axis for axis in range(len(shape)) if axis not in numbers.collapsed_slice_dims]
    whole = {axis: to for axis, to in zip(places, numbers.offset_dims, strict=True) if sizes[axis] == shape[axis]}
    chosen = tuple(axis for axis in range(len(shape)) if axis not in whole)
    rank = len(numbers.offset_dims) + index.labels.ndim - 1
    if isinstance(table, Weights):
        bits = recorder.role(table, index.upstream, inputs=chosen, outputs=tuple(whole))
        recorder.looked_up |= set(table.sites)
        kept = [size if axis in whole else 1 for axis, size in enumerate(table.shape)]
        labels, heads = recorder.new(tuple(kept)), bits
        once = np.full((1,) * (labels.ndim + 1), CONSTANT)
        recorder.weigh(table, labels[None], once)
        chooser = recorder.merge(index.labels, range(index.labels.ndim), tie=False)
        recorder.weigh(table, labels[None], chooser.reshape(once.shape))
    else:
        labels, bits, heads = recorder.merge(table.labels, chosen, tie=False), table.upstream, table.heads
        if not index.constant:
            labels = depending_on(recorder, labels, [index])
    out = [1] * rank
    for axis, to in whole.items():
        out[to] = labels.shape[axis]
    order = sorted(whole, key=lambda axis: whole[axis])
    labels = labels.transpose(*order, *chosen).reshape(out)
    of_rows = index.of_rows or (isinstance(table, Signals) and table.of_rows)
    return Signals(labels, of_rows, bits | index.upstream, heads)


def depending_on(recorder: Recorder, labels: Labels, choosers: Sequence[Signals]) -> Labels:
    """The same signals where others decide which of their places is read."""
    target = recorder.new(labels.shape, recorder.blend(labels))
    recorder.terms.append(Terms(target, labels))
    for chooser in choosers:
        one = recorder.merge(chooser.labels, range(chooser.labels.ndim), tie=False)
        recorder.terms.append(Terms(target, labels, one.reshape((1,) * labels.ndim)))
    recorder.tie(target, labels)
    return target


def opaque(recorder: Recorder, name: str, operands: Sequence[Value], ranks: Sequence[int]) -> list[Value]:
    """The results of an operation that is not followed: everything enters, and they are always there."""
    if all(isinstance(value, Signals) and value.constant for value in operands):
        return [Signals(np.full((1,) * rank, CONSTANT)) for rank in ranks]
    recorder.unfollowed.setdefault(name, "not followed: all that it reads is kept")
    signals = [
        recorder.pin(value, f"enters {name}, which is not followed") if isinstance(value, Weights) else value
        for value in operands
    ]
    target = recorder.new((1,), True)
    recorder.terms.append(Terms(target, np.array([CONSTANT])))
    blank = Signals(target)
    for value in signals:
        recorder.terms.append(Terms(target, np.unique(value.labels)))
        blank = replace(
            blank,
            of_rows=blank.of_rows or value.of_rows,
            upstream=blank.upstream | value.upstream,
            heads=blank.heads | value.heads,
        )
    return [replace(blank, labels=target.reshape((1,) * rank)) for rank in ranks]
