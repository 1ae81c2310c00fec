"""An exponential and a logarithm that the compiler can vectorise: current Numba wheels carry no vector library."""

import numpy as np
from llvmlite import ir
from numba import njit, types

from multicause.backends.numba_cpu.without_compiler import intrinsic

LOWEST = -69.0  # weights below exp(-69) = 1e-30 of the largest become exactly 0: denormal numbers are slow


@intrinsic(lambda x: np.float64(x).view(np.int64))
def as_bits(typingctx, x):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic(lambda bits: np.int64(bits).view(np.float64))
def _as_float(typingctx, bits):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@njit(inline="always")
def flushed_exp(x):
    """exp(x) for x < 700 to a few units in the last place; exactly 0 below LOWEST (-inf included).

    x = k log 2 + r with |r| <= log(2)/2; exp(r) by its Taylor polynomial of degree 13 (error 1e-17), k added to the
    exponent's bits. Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits, without a conversion.
    """
    clipped = max(x, -80.0)
    shifted = clipped * 1.4426950408889634 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = (clipped - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    value = _as_float(as_bits(p) + (as_bits(shifted) << 52))
    return value if x >= LOWEST else 0.0


@njit(inline="always")
def positive_log(x):
    """log(x) of a positive, normal number, to a few units in the last place.

    x = 2^k z with z in [0.7, 1.4), whose logarithm is 2 artanh(r), r = (z - 1) / (z + 1), by its Taylor polynomial of
    degree 21 (error 1e-17).
    """
    bits = as_bits(x)
    k = (bits - 4604544271217802189) >> 52  # the bits of sqrt(1/2)
    z = _as_float(bits - (k << 52))
    r = (z - 1.0) / (z + 1.0)
    rr = r * r
    p = 1.0 / 21.0
    p = p * rr + 1.0 / 19.0
    p = p * rr + 1.0 / 17.0
    p = p * rr + 1.0 / 15.0
    p = p * rr + 1.0 / 13.0
    p = p * rr + 1.0 / 11.0
    p = p * rr + 1.0 / 9.0
    p = p * rr + 1.0 / 7.0
    p = p * rr + 1.0 / 5.0
    p = p * rr + 1.0 / 3.0
    p = p * rr + 1.0
    return 2.0 * r * p + k * 0.6931471805599453


# A function without options of its own inherits those of the caller that first compiles it, and keeps them on disk:
# reassociation would undo the rounding in `flushed_exp`, and a check for division by zero would not vectorise.
_plainly = njit(cache=True, nogil=True, fastmath=False, error_model="numpy")


@_plainly
def exponentiate(x, result):
    """result <- exp(x): a flat loop of its own, since only then does the compiler vectorise the polynomial."""
    for i in range(x.size):
        result[i] = flushed_exp(x[i])


@_plainly
def take_logs(x):
    """x <- log|x|, likewise."""
    for i in range(x.size):
        x[i] = positive_log(abs(x[i]))
