"""Normal numbers by the vector, compiled by numba; in a file of their own, for numba sees changes in their own file alone."""

from typing import no_type_check

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bayesprune.deploy.sparse.compiling import LANES, jit

F, I, U = np.float32, np.int32, np.uint32  # noqa: E741


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
def draw(state, loc, scale, out):  # type: ignore[no-untyped-def]
    """out[v, l] = loc[v] + scale[v] z, z ~ N(0, 1), by Box and Muller, from a generator for each lane.

    ``state``: (4, LANES) words of xoshiro128++, moved on; ``loc``, ``scale``: (numbers,); ``out``: (numbers, LANES).

    Source: Blackman & Vigna (2021), Scrambled linear pseudorandom number generators.
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
