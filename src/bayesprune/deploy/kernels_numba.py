"""Products with sparse matrices, one after another, compiled by numba: many rows side by side, one row, many networks.

Layers stand in one line: ``heights``, outputs of each; row i of all of them has the entries ``ptr[i]`` to ``ptr[i + 1]`` of
``columns`` and of its numbers; ``acts``: what follows, by its number in `fusing.ACTIVATIONS`. ``inputs``: the numbers of a row
of x that the first layer reads; ``outputs``: where those of the result stand in the last layer. Numbers are float32, indices
int32.
"""

from typing import no_type_check

import numpy as np

from bayesprune.deploy.lanes_numba import LANES, F, I, activate, by_lane, by_number, jit, log

TILE = 4  # rows for which a layer's numbers of many networks are read once
U = np.uint32


@jit
@no_type_check
def rows(x, inputs, outputs, heights, ptr, columns, acts, numbers, bias, out):  # type: ignore[no-untyped-def]
    """Many rows, `LANES` at a time. ``x``: (rows, inputs); ``numbers``: (entries,); ``bias``: of all layers; ``out``: (rows,
    outputs)."""
    width = max(len(inputs), heights.max())
    before, after = np.zeros(width * LANES, F), np.empty(width * LANES, F)
    for begin in range(0, len(x), LANES):
        count = min(LANES, len(x) - begin)
        before[: len(inputs) * LANES] = F(0)
        for i in range(len(inputs)):
            column = inputs[i]
            for lane in range(count):
                before[i * LANES + lane] = x[begin + lane, column]
        start = 0
        for layer in range(len(heights)):
            height = heights[layer]
            for o in range(height):
                r = start + o
                by_number(before, columns, columns, numbers, 0, ptr[r], ptr[r + 1], bias, r, after, o * LANES)
            activate(after[: height * LANES], acts[layer], LANES)
            before, after = after, before
            start += height
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
    """One row. ``x``: (inputs,); ``out``: (outputs,). Layers that have runs (`runs.Runs`) go by these."""
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


@jit
@no_type_check
def draw(state, loc, scale, out):  # type: ignore[no-untyped-def]
    """out[v, l] = loc[v] + scale[v] z, z ~ N(0, 1), by Box and Muller, from a generator for each lane.

    ``state``: (4, LANES) words of xoshiro128++, moved on; ``loc``, ``scale``: (numbers,); ``out``: (numbers, LANES).
    """
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    words = np.empty((2, LANES), U)
    for v in range(0, len(loc), 2):
        for k in range(2):
            word = words[k]
            for lane in range(LANES):
                total = U(s0[lane] + s3[lane])
                word[lane] = U(U(U(total << U(7)) | U(total >> U(25))) + s0[lane])
                c, d = U(s2[lane] ^ s0[lane]), U(s3[lane] ^ s1[lane])
                s0[lane], b = U(s0[lane] ^ d), U(s1[lane] ^ c)
                s2[lane] = U(c ^ U(s1[lane] << U(9)))
                s1[lane] = b
                s3[lane] = U(U(d << U(11)) | U(d >> U(21)))
        w = min(v + 1, len(loc) - 1)
        one, other = out[v], out[w]
        for lane in range(LANES):
            uniform = F(I(words[0, lane] >> U(1))) * F(2**-31) + F(2**-33)
            radius = np.sqrt(F(-2) * log(uniform))
            quarter = I(words[1, lane] >> U(30))
            angle = (F(I(words[1, lane] & U(0x3FFFFFFF))) - F(2**29)) * F(np.pi / 2**31)  # from -pi/4 to pi/4
            z = angle * angle
            sine = ((F(-1.9515295891e-4) * z + F(8.3321608736e-3)) * z - F(1.6666654611e-1)) * z * angle + angle
            cosine = (F(2.443315711809948e-5) * z - F(1.388731625493765e-3)) * z + F(4.166664568298827e-2)
            cosine = cosine * z * z - F(0.5) * z + F(1)
            x, y = (sine, cosine) if quarter & I(1) else (cosine, sine)
            x = -x if (quarter + I(1)) & I(2) else x
            y = -y if quarter & I(2) else y
            other[lane] = loc[w] + scale[w] * (radius * y)
            one[lane] = loc[v] + scale[v] * (radius * x)
