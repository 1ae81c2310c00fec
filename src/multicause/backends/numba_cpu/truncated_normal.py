"""The standard normal distribution cut to an interval: its mass, moments and quantiles, in both tails however far."""

import math

import numpy as np
from numba import njit

HALF_ROOT = math.sqrt(0.5)
ROOT_HALF_PI = math.sqrt(0.5 * math.pi)
FAR = 4.0  # from here on the quantiles are those of a tail
FURTHER = 300.0  # from here on the tail is exponential: both formulas for its variance are good to 1e-4
# Gauss-Legendre on [0, 1], five points: exact to 1e-13 on an interval over which the density changes by less than e^0.5
_NODES = np.array([0.046910077030668004, 0.23076534494715845, 0.5, 0.7692346550528415, 0.953089922969332])
_WEIGHTS = np.array([0.11846344252809454, 0.23931433524968324, 0.28444444444444444, 0.23931433524968324, 0.11846344252809454])  # fmt: skip  # noqa: E501

_plainly = njit(cache=True, nogil=True, error_model="numpy", fastmath=False)


@_plainly
def erfcx(x):
    """exp(x^2) erfc(x) for x >= 0."""
    if x < 25.0:
        return math.exp(x * x) * math.erfc(x)
    r = 0.5 / (x * x)
    series = 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r))))
    return series / (x * math.sqrt(math.pi))


@_plainly
def integral(a, b):
    """Of exp(-z^2 / 2) from a to b, in units of the largest value that it has there."""
    if b < 0.0:
        return integral(-b, -a)
    width = b - a
    if width * max(1.0, b) < 0.5:
        return _narrow_moments(a, width)[0]
    if a <= 0.0:
        return ROOT_HALF_PI * (math.erf(HALF_ROOT * b) - math.erf(HALF_ROOT * a))
    fall = math.exp(-0.5 * width * (a + b))
    beyond = fall * erfcx(HALF_ROOT * b) if fall > 0.0 else 0.0
    return ROOT_HALF_PI * (erfcx(HALF_ROOT * a) - beyond)


@_plainly
def moments(a, b):
    """The same integral, and the mean and variance of z."""
    if b < 0.0:
        total, mean, variance = moments(-b, -a)
        return total, -mean, variance
    width = b - a
    if width * max(1.0, b) < 0.5:
        return _narrow_moments(a, width)
    total = integral(a, b)
    if a > FURTHER:
        fall = math.exp(-a * width)
        rest = width * fall / (1.0 - fall) if fall > 0.0 else 0.0
        return total, a + 1.0 / a - rest, 1.0 / (a * a) - rest * rest / fall if fall > 0.0 else 1.0 / (a * a)
    low, high = (
        (math.exp(-0.5 * a * a), math.exp(-0.5 * b * b)) if a <= 0.0 else (1.0, math.exp(-0.5 * width * (a + b)))
    )
    a_low = a * low if low > 0.0 else 0.0
    b_high = b * high if high > 0.0 else 0.0
    mean = min(max((low - high) / total, a), b)
    variance = 1.0 + (a_low - b_high) / total - mean * mean
    return total, mean, min(max(variance, 0.0), 1.0 if a <= 1.0 else 1.0 / (a * a))


@_plainly
def _narrow_moments(a, width):
    peak = max(a, 0.0)
    total, first, second = 0.0, 0.0, 0.0
    for i in range(5):
        t = width * _NODES[i]
        density = _WEIGHTS[i] * math.exp(-0.5 * (a + t - peak) * (a + t + peak))
        total += density
        first += density * t
        second += density * t * t
    first /= total
    return width * total, a + first, max(second / total - first * first, 0.0)


@_plainly
def quantile(a, b, u):
    """z in [a, b] with P(Z <= z | a <= Z <= b) = u: by inversion, so that draws move smoothly with the interval."""
    if b < 0.0:
        return -quantile(-b, -a, 1.0 - u)
    width = b - a
    if width * max(1.0, b) < 1e-6:
        return a + width * u
    if a > FAR:
        return min(a + _tail_excess(a, width, u), b)
    below = 0.5 * (math.erfc(-HALF_ROOT * a) * (1.0 - u) + math.erfc(-HALF_ROOT * b) * u)
    if below <= 0.5:
        z = normal_quantile(below)
    else:
        z = -normal_quantile(0.5 * (math.erfc(HALF_ROOT * a) * (1.0 - u) + math.erfc(HALF_ROOT * b) * u))
    return min(max(z, a), b)


@_plainly
def _tail_excess(a, width, u):
    """t with P(Z > a + t) = v P(Z > a), by Newton's method on the log of it from the quantile of a Rayleigh tail."""
    here = erfcx(HALF_ROOT * a)
    fall = math.exp(-0.5 * width * (2.0 * a + width))
    ratio = fall * erfcx(HALF_ROOT * (a + width)) / here if fall > 0.0 else 0.0
    log_v = math.log1p(-u * (1.0 - ratio))
    t = -2.0 * log_v / (a + math.sqrt(a * a - 2.0 * log_v))
    for _ in range(3):
        there = erfcx(HALF_ROOT * (a + t))
        excess = -0.5 * t * (2.0 * a + t) + math.log(there / here) - log_v
        t = max(t + excess * ROOT_HALF_PI * there, 0.0)
    return t


@_plainly
def _ratio(p, q, r):
    """Of two polynomials of degree 7, coefficients from the constant upwards."""
    top, bottom = p[7], q[7]
    for i in range(6, -1, -1):
        top = top * r + p[i]
        bottom = bottom * r + q[i]
    return top / bottom


# Wichura's algorithm AS 241 (PPND16): relative error about 1e-16
_CENTRE_P = np.array([3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3])  # fmt: skip  # noqa: E501
_CENTRE_Q = np.array([1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3])  # fmt: skip  # noqa: E501
_MIDDLE_P = np.array([1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504, 1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4])  # fmt: skip  # noqa: E501
_MIDDLE_Q = np.array([1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1, 1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9])  # fmt: skip  # noqa: E501
_TAIL_P = np.array([6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7])  # fmt: skip  # noqa: E501
_TAIL_Q = np.array([1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15])  # fmt: skip  # noqa: E501


@_plainly
def normal_quantile(p):
    """z with P(Z <= z) = p, for 0 < p <= 1/2."""
    q = p - 0.5
    if q >= -0.425:
        return q * _ratio(_CENTRE_P, _CENTRE_Q, 0.180625 - q * q)
    r = math.sqrt(-math.log(max(p, 1e-300)))
    if r <= 5.0:
        return -_ratio(_MIDDLE_P, _MIDDLE_Q, r - 1.6)
    return -_ratio(_TAIL_P, _TAIL_Q, r - 5.0)
