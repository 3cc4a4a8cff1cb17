"""What compiled kernels are made of: sums over all lanes at once, and functions that LLVM can make vectors of."""

from typing import Any, no_type_check

import numpy as np

try:
    from llvmlite import ir
    from numba import njit, types
    from numba.extending import intrinsic
except ImportError as error:
    raise ImportError('kernels by numba need it: pip install "bayesprune[fast]".') from error

LANES = 32  # rows, or networks, at a time: two registers of 512 bits, four of 256
_VECTOR = 16

F, I = np.float32, np.int32  # noqa: E741
# Sums keep their order, NaN and infinities their meaning; a multiplication and an addition may be one instruction.
_OPTIONS: dict[str, Any] = {"fastmath": {"contract", "nsz", "arcp"}, "error_model": "numpy", "nogil": True}


def jit(function):  # type: ignore[no-untyped-def]
    """Compiled by numba at its first call, and kept on disk where there is room for it."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder can be written to
        return njit(**_OPTIONS)(function)


# ---- one output, all lanes: LLVM keeps sums in registers only if it is told to
def _lanes(numbers_by_lane: bool):  # type: ignore[no-untyped-def]
    """out[o + l] = start[s (+ l)] + sum_j number[j, l] * x[columns[j], l] for l below `LANES`, j from ``first`` to ``last``.

    Numbers and start are of shape (..., LANES), found by ``places[j]`` and s; or one for all lanes, number[j], start[s].
    """

    @intrinsic
    @no_type_check
    def product(context, x, columns, places, numbers, n, first, last, start, s, out, o):  # type: ignore[no-untyped-def]
        signature = types.void(
            x, columns, places, numbers, types.intp, types.intp, types.intp, start, types.intp, out, types.intp
        )

        @no_type_check
        def generate(target, builder, signature, args):  # type: ignore[no-untyped-def]
            size, index = ir.IntType(64), ir.IntType(32)
            vector = ir.VectorType(ir.FloatType(), _VECTOR)
            data = [target.make_array(kind)(target, builder, a).data if hasattr(kind, "dtype") else None
                    for kind, a in zip(signature.args, args, strict=True)]  # fmt: skip
            x, columns, places, numbers, start, out = (data[i] for i in (0, 1, 2, 3, 7, 9))
            n, first, last, s, o = (
                builder.sext(args[i], size) if args[i].type.width < 64 else args[i] for i in (4, 5, 6, 8, 10)
            )

            def vectors(pointer, offset):  # type: ignore[no-untyped-def]
                for part in range(0, LANES, _VECTOR):
                    place = builder.gep(pointer, [builder.add(offset, size(part))])
                    yield builder.bitcast(place, vector.as_pointer())

            def load(pointer, offset, by_lane):  # type: ignore[no-untyped-def]
                if by_lane:
                    return [builder.load(place, align=4) for place in vectors(pointer, offset)]
                number = builder.load(builder.gep(pointer, [offset]))
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), number, index(0))
                mask = ir.Constant(ir.VectorType(index, _VECTOR), [0] * _VECTOR)
                return [builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)] * (LANES // _VECTOR)

            def at(pointer, j):  # type: ignore[no-untyped-def]
                return builder.mul(builder.sext(builder.load(builder.gep(pointer, [j])), size), size(LANES))

            sums = load(start, s, numbers_by_lane)
            entry, head = builder.block, builder.append_basic_block("head")
            body, done = builder.append_basic_block("body"), builder.append_basic_block("done")
            builder.branch(head)
            builder.position_at_end(head)
            j, kept = builder.phi(size), [builder.phi(vector) for _ in sums]
            builder.cbranch(builder.icmp_signed("<", j, last), body, done)
            builder.position_at_end(body)
            factors = load(numbers, builder.add(n, at(places, j)) if numbers_by_lane else j, numbers_by_lane)
            parts = load(x, at(columns, j), True)
            more = [
                builder.fadd(total, builder.fmul(f, p, flags=("contract",)), flags=("contract",))
                for total, f, p in zip(kept, factors, parts, strict=True)
            ]
            following = builder.add(j, size(1))
            builder.branch(head)
            for phi, before, after in zip([j, *kept], [first, *sums], [following, *more], strict=True):
                phi.add_incoming(before, entry)
                phi.add_incoming(after, body)
            builder.position_at_end(done)
            for total, place in zip(kept, vectors(out, o), strict=True):
                builder.store(total, place, align=4)
            return target.get_dummy_value()

        return signature, generate

    return product


by_number, by_lane = _lanes(False), _lanes(True)


@intrinsic
@no_type_check
def as_float(context, bits):  # type: ignore[no-untyped-def]
    """The float32 of these bits."""
    return types.float32(types.int32), lambda _, builder, __, args: builder.bitcast(args[0], ir.FloatType())


@intrinsic
@no_type_check
def as_bits(context, number):  # type: ignore[no-untyped-def]
    """The bits of a float32."""
    return types.int32(types.float32), lambda _, builder, __, args: builder.bitcast(args[0], ir.IntType(32))


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
def log(x):  # type: ignore[no-untyped-def]
    """The natural logarithm of a normal number above zero; Cephes' polynomial."""
    bits = as_bits(x)
    power = I((bits - I(0x3F3504F3)) >> I(23))
    m = as_float(I(bits - (power << I(23)))) - F(1)
    p = F(7.0376836292e-2) * m - F(1.1514610310e-1)
    p = (p * m + F(1.1676998740e-1)) * m - F(1.2420140846e-1)
    p = (p * m + F(1.4249322787e-1)) * m - F(1.6668057665e-1)
    p = (p * m + F(2.0000714765e-1)) * m - F(2.4999993993e-1)
    p = p * m + F(3.3333331174e-1)
    return m - F(0.5) * m * m + m * m * m * p + F(power) * F(0.693147181)


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
