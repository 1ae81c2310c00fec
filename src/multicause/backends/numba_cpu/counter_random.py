"""Random numbers as a function of a key and a counter: no state, so that nobody's draws depend on another's."""

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.vector_math import as_bits
from multicause.backends.numba_cpu.without_compiler import silently

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)

_silently = silently(njit(cache=True, nogil=True))


@_silently
def mix(x):
    """The output function of SplitMix64: each bit of x changes each bit of the result with probability 1/2."""
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


@_silently
def uniform(key, counter):
    """A number strictly between 0 and 1."""
    bits = mix(key + _STEP * np.uint64(counter + 1)) >> _S11
    return (np.float64(bits) + 0.5) * 1.1102230246251565e-16


@_silently
def key_of(row, key):
    """A key for the values of a row: equal rows have equal keys, in any unit.

    Shares of the largest value are rounded to the 23 bits of a single-precision mantissa, in which rounding errors do
    not show.
    """
    largest = 0.0
    for d in range(row.size):
        largest = max(largest, abs(row[d]))
    for d in range(row.size):
        share = row[d] / largest if largest > 0.0 else 0.0
        bits = (as_bits(share + 0.0) + 268435456) >> 29
        key = mix(key + _STEP + np.uint64(bits))
    return key
