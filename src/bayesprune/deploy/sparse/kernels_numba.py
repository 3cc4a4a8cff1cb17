"""Products with sparse matrices, one after another, compiled by numba: many rows side by side, one row, many networks.

Layers are in one line: ``heights``, outputs of each; row i of all of them has the entries ``ptr[i]`` to ``ptr[i + 1]`` of
``columns`` and of its numbers; ``acts``: what follows, by its number in `fusing.ACTIVATIONS`. ``inputs``: the numbers of a row
of x that the first layer reads; ``outputs``: where those of the result are in the last layer. Numbers are float32, indices
int32.

They are in one file: numba keeps what it compiled until the file changes, and would not see a change in another one.
"""

import functools
from typing import no_type_check

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.extending import intrinsic

from bayesprune.deploy.sparse.compiling import LANES, jit

TILE = 4  # rows for which a layer's numbers of many networks are read once

F, I = np.float32, np.int32  # noqa: E741
SIZE, INDEX = ir.IntType(64), ir.IntType(32)
VECTOR = ir.VectorType(ir.FloatType(), 16)


# ---- outputs, all lanes: written for LLVM, which by itself does not keep the sums in registers
@no_type_check
def _vectors(builder, pointer, offset):  # type: ignore[no-untyped-def]
    """Where the vectors of all lanes are, from ``offset`` on."""
    for part in range(0, LANES, VECTOR.count):
        yield builder.bitcast(builder.gep(pointer, [builder.add(offset, SIZE(part))]), VECTOR.as_pointer())


@no_type_check
def _load(builder, pointer, offset, of_lanes):  # type: ignore[no-untyped-def]
    """The vectors of all lanes, each lane's own number or one for all."""
    if of_lanes:
        return [builder.load(place, align=4) for place in _vectors(builder, pointer, offset)]
    number, empty = builder.load(builder.gep(pointer, [offset])), ir.Constant(VECTOR, ir.Undefined)
    mask = ir.Constant(ir.VectorType(INDEX, VECTOR.count), [0] * VECTOR.count)
    return [builder.shuffle_vector(builder.insert_element(empty, number, INDEX(0)), empty, mask)] * (LANES // VECTOR.count)


@no_type_check
def _loop(builder, added, j, last, groups, name):  # type: ignore[no-untyped-def]
    """Entries from ``j`` on, as many at once as there are groups of sums, each ``added`` to its own, until there are fewer."""
    begin, entry, flat = j, builder.block, [total for sums in zip(*groups, strict=True) for total in sums]
    head, body, done = (builder.append_basic_block(f"{name}_{part}") for part in ("head", "body", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    j, kept = builder.phi(SIZE), [builder.phi(VECTOR) for _ in flat]
    end = builder.add(j, SIZE(len(groups)))
    builder.cbranch(builder.icmp_signed("<=", end, last), body, done)
    builder.position_at_end(body)
    parted = [kept[g :: len(groups)] for g in range(len(groups))]
    added_to = [added(sums, builder.add(j, SIZE(g))) for g, sums in enumerate(parted)]
    more = [total for sums in zip(*added_to, strict=True) for total in sums]
    builder.branch(head)
    for phi, before, after in zip([j, *kept], [begin, *flat], [end, *more], strict=True):
        phi.add_incoming(before, entry)
        phi.add_incoming(after, body)
    builder.position_at_end(done)
    return j, parted


def _lanes(by_lane: bool, tall: int, at_once: int):  # type: ignore[no-untyped-def]
    """out[o + t, l] = start[s + t (, l)] + sum_j numbers[n + (j - first) * tall + t] * x[columns[j], l], for l below `LANES`, t
    below ``tall``, j from ``first`` to ``last``.

    ``by_lane``: start and numbers are of shape (..., LANES), the j-th number is at ``places[j]``, and ``tall`` is 1.
    ``at_once``: entries of which the sums are kept apart: an addition waits for the one before it.
    """

    @no_type_check
    def generate(target, builder, signature, args):  # type: ignore[no-untyped-def]
        x, columns, places, numbers, n, first, last, start, s, out, o = (
            target.make_array(kind)(target, builder, a).data if hasattr(kind, "dtype") else a
            for kind, a in zip(signature.args, args, strict=True)
        )

        def at(pointer, j):  # type: ignore[no-untyped-def]
            return builder.mul(builder.sext(builder.load(builder.gep(pointer, [j])), SIZE), SIZE(LANES))

        def added(sums, j):  # type: ignore[no-untyped-def]
            parts, more = _load(builder, x, at(columns, j), True), []
            for t in range(tall):
                place = at(places, j) if by_lane else builder.add(builder.mul(builder.sub(j, first), SIZE(tall)), SIZE(t))
                for f, p in zip(_load(builder, numbers, builder.add(n, place), by_lane), parts, strict=True):
                    product = builder.fmul(f, p, flags=("contract",))
                    more.append(builder.fadd(sums[len(more)], product, flags=("contract",)))
            return more

        rows = [builder.add(s, SIZE(t * LANES if by_lane else t)) for t in range(tall)]
        begin = [total for row in rows for total in _load(builder, start, row, by_lane)]
        empty = [ir.Constant(VECTOR, [ir.FloatType()(0.0)] * VECTOR.count)] * len(begin)
        begun = [begin, *[empty] * (at_once - 1)]
        j, groups = _loop(builder, added, first, last, begun, "main") if at_once > 1 else (first, begun)
        joined = [functools.reduce(builder.fadd, totals) for totals in zip(*groups, strict=True)]
        _, (sums,) = _loop(builder, added, j, last, [joined], "rest")
        made = [place for t in range(tall) for place in _vectors(builder, out, builder.add(o, SIZE(t * LANES)))]
        for total, place in zip(sums, made, strict=True):
            builder.store(total, place, align=4)
        return target.get_dummy_value()

    @intrinsic
    @no_type_check
    def product(context, x, columns, places, numbers, n, first, last, start, s, out, o):  # type: ignore[no-untyped-def]
        whole = types.intp
        return types.void(x, columns, places, numbers, whole, whole, whole, start, whole, out, whole), generate

    return product


# Four outputs of 32 lanes are eight of the 32 registers that AVX-512 has, two are eight of 16 where vectors are half as long.
BLOCK = 4 if get_host_cpu_features().get("avx512f") else 2
by_number, by_block, by_lane = _lanes(False, 1, 2), _lanes(False, BLOCK, 1), _lanes(True, 1, 2)


@intrinsic
@no_type_check
def as_float(context, bits):  # type: ignore[no-untyped-def]
    """The float32 of these bits."""
    return types.float32(types.int32), lambda _, builder, __, args: builder.bitcast(args[0], ir.FloatType())


@jit
@no_type_check
def exp(x):  # type: ignore[no-untyped-def]
    """e^x, within 2e-7 of it; Cephes' polynomial. Beyond ±87 as there."""
    x = F(-87) if x < F(-87) else x
    x = F(87) if x > F(87) else x
    power = x * F(1.44269504)
    n = I(power + (F(0.5) if power > F(0) else F(-0.5)))
    r = x - F(n) * F(0.693359375) - F(n) * F(-2.12194440e-4)
    p = F(1.9875691500e-4) * r + F(1.3981999507e-3)
    p = (p * r + F(8.3334519073e-3)) * r + F(4.1665795894e-2)
    p = (p * r + F(1.6666665459e-1)) * r + F(5.0000001201e-1)
    return (p * r * r + r + F(1)) * as_float(I((n + I(127)) << I(23)))


@jit
@no_type_check
def activate(values, act, lanes):  # type: ignore[no-untyped-def]
    """One of `fusing.ACTIVATIONS` in place. ``values``: (outputs * lanes,)."""
    if act == 1:
        for i in range(values.size):
            values[i] = F(0) if values[i] < F(0) else values[i]
    elif act == 2:
        for i in range(values.size):
            v = values[i]
            s = v * v
            p = (F(-5.70498872745e-3) * s + F(2.06390887954e-2)) * s - F(5.37397155531e-2)
            p = ((p * s + F(1.33314422036e-1)) * s - F(3.33332819422e-1)) * s * v + v
            far = F(1) - F(2) / (exp(F(2) * v) + F(1))
            values[i] = p if s < F(0.390625) else far
    elif act == 3:
        for i in range(values.size):
            values[i] = F(1) / (F(1) + exp(-values[i]))
    elif act == 4:
        for i in range(values.size):
            values[i] = values[i] / (F(1) + exp(-values[i]))
    elif act == 5:
        _softmax(values, lanes)


@jit
@no_type_check
def _softmax(values, lanes):  # type: ignore[no-untyped-def]
    most, total = np.empty(lanes, F), np.zeros(lanes, F)
    most[:] = values[:lanes]
    for o in range(lanes, values.size, lanes):
        for lane in range(lanes):
            v = values[o + lane]
            most[lane] = most[lane] if v < most[lane] else v
    for o in range(0, values.size, lanes):
        for lane in range(lanes):
            values[o + lane] = exp(values[o + lane] - most[lane])
            total[lane] += values[o + lane]
    for o in range(0, values.size, lanes):
        for lane in range(lanes):
            values[o + lane] /= total[lane]


@jit
@no_type_check
def rows(x, inputs, outputs, heights, tall, steps, tops, firsts, ptr, columns, acts, numbers, bias, out):  # type: ignore[no-untyped-def]
    """Many rows, `LANES` at a time, by `layouts.Blocks`. ``x``: (rows, inputs); ``numbers``, ``bias``: of all layers; ``out``:
    (rows, outputs)."""
    width = max(len(inputs), heights.max()) + BLOCK
    before, after = np.zeros(width * LANES, F), np.empty(width * LANES, F)
    for begin in range(0, len(x), LANES):
        count = min(LANES, len(x) - begin)
        before[: len(inputs) * LANES] = F(0)
        for i in range(len(inputs)):
            column = inputs[i]
            for lane in range(count):
                before[i * LANES + lane] = x[begin + lane, column]
        for layer in range(len(heights)):
            n = firsts[layer]
            for g in range(steps[layer], steps[layer + 1]):
                o, j, end = (g - steps[layer]) * tall[layer], ptr[g], ptr[g + 1]
                if tall[layer] == 1:
                    by_number(before, columns, columns, numbers, n, j, end, bias, tops[layer] + o, after, o * LANES)
                else:
                    by_block(before, columns, columns, numbers, n, j, end, bias, tops[layer] + o, after, o * LANES)
                n += (end - j) * tall[layer]
            activate(after[: heights[layer] * LANES], acts[layer], LANES)
            before, after = after, before
        for lane in range(count):
            for o in range(out.shape[1]):
                out[begin + lane, o] = before[outputs[o] * LANES + lane]


@jit
@no_type_check
def _add_runs(before, runs, values, stride, after):  # type: ignore[no-untyped-def]
    for k in range(len(runs)):
        value, count = values[k], runs[k, 2]
        made, source = after[runs[k, 0] : runs[k, 0] + count], before[runs[k, 1] :]
        if stride == 1:
            for i in range(count):
                made[i] += value * source[i]
        else:
            for i in range(count):
                made[i] += value * source[i * stride]


@jit
@no_type_check
def row(  # type: ignore[no-untyped-def]
    x, inputs, outputs, heights, ptr, columns, acts, numbers, bias, run_ptr, runs, values, strides, out
):
    """One row. ``x``: (inputs,); ``out``: (outputs,). Layers that have runs (`layouts.Runs`) go by these."""
    width = max(len(inputs), heights.max())
    before, after = np.empty(width, F), np.empty(width, F)
    for i in range(len(inputs)):
        before[i] = x[inputs[i]]
    start = 0
    for layer in range(len(heights)):
        height = heights[layer]
        by_runs = run_ptr[layer] < run_ptr[layer + 1]
        if by_runs:
            after[:height] = bias[start : start + height]
            _add_runs(before, runs[run_ptr[layer] : run_ptr[layer + 1]], values[run_ptr[layer] :], strides[layer], after)
        for o in range(0 if by_runs else height):
            j, end = ptr[start + o], ptr[start + o + 1]
            a, b, c, d = bias[start + o], F(0), F(0), F(0)  # four sums: one would wait for itself
            while j + 4 <= end:
                a += numbers[j] * before[columns[j]]
                b += numbers[j + 1] * before[columns[j + 1]]
                c += numbers[j + 2] * before[columns[j + 2]]
                d += numbers[j + 3] * before[columns[j + 3]]
                j += 4
            while j < end:
                a += numbers[j] * before[columns[j]]
                j += 1
            after[o] = (a + b) + (c + d)
        activate(after[:height], acts[layer], 1)
        before, after = after, before
        start += height
    for o in range(len(out)):
        out[o] = before[outputs[o]]


@jit
@no_type_check
def networks(x, inputs, outputs, heights, ptr, columns, acts, places, numbers, bias, out):  # type: ignore[no-untyped-def]
    """Many networks, `LANES` at a time. ``x``: (1, rows, inputs), or of each network; ``numbers``: (blocks, numbers, `LANES`);
    ``places``: the number of each entry; ``bias``: the number that each output begins with; ``out``: (networks, rows,
    outputs)."""
    width, shared = max(len(inputs), heights.max()), len(x) == 1
    before, after = np.zeros((TILE, width * LANES), F), np.empty((TILE, width * LANES), F)
    for block in range(len(numbers)):
        first, table = block * LANES, numbers[block].reshape(-1)
        count = min(LANES, len(out) - first)
        for begin in range(0, out.shape[1], TILE):
            tile = min(TILE, out.shape[1] - begin)
            for t in range(tile):
                for i in range(len(inputs)):
                    column = inputs[i]
                    for lane in range(LANES):
                        before[t, i * LANES + lane] = x[0 if shared else min(first + lane, len(x) - 1), begin + t, column]
            start = 0
            for layer in range(len(heights)):
                height = heights[layer]
                for t in range(tile):
                    source, made = before[t], after[t]
                    for o in range(height):
                        r = start + o
                        by_lane(source, columns, places, table, 0, ptr[r], ptr[r + 1], table, bias[r] * LANES, made, o * LANES)
                    activate(made[: height * LANES], acts[layer], LANES)
                before, after = after, before
                start += height
            for t in range(tile):
                for lane in range(count):
                    for o in range(out.shape[2]):
                        out[first + lane, begin + t, o] = before[t, outputs[o] * LANES + lane]
