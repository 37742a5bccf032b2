"""What the error functions mean, in numpy: Newton's method, continued fractions, and the C library's erf."""

from __future__ import annotations

import math

import numpy as np

from rushlight.ops.pointwise.definition import Array

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_ROOT_PI = np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))
_ROOT_2 = np.sqrt(np.longdouble(2))


def _long(x: Array) -> Array:
    return np.asarray(x).astype(np.longdouble)


def erfinv_array(x: Array) -> Array:
    """The number whose error function is x."""
    wide = _long(x)
    inside = np.abs(wide) < 1
    t = np.where(inside, np.abs(wide), 0)
    # Winitzki's approximation, then Newton's steps on whichever of erf and erfc is the smaller.
    logarithm = np.log1p(-t * t)
    part = 4.3307 + logarithm / 2
    y = np.sqrt(np.sqrt(part * part - logarithm / 0.147) - part)
    for _ in range(6):
        slope = 2 / _ROOT_PI * np.exp(-y * y)
        distance = np.where(t < 0.5, _erf(y) - t, (1 - t) - _erfc(y))
        y = np.where(t == 0, 0, y - distance / slope)
    edge = np.where(np.abs(wide) == 1, np.sign(wide) * np.inf, np.nan)
    return np.where(inside, np.copysign(y, wide), edge)


def erfcx_array(x: Array) -> Array:
    """exp(x^2) erfc(x)."""
    wide = _long(x)
    t = np.minimum(np.abs(wide), 20)
    fraction = np.zeros_like(t)
    far = np.maximum(np.abs(wide), 2)
    for n in range(200, 0, -1):
        fraction = np.longdouble(n) / 2 / (far + fraction)
    positive = np.where(np.abs(wide) > 2, 1 / (_ROOT_PI * (far + fraction)), np.exp(t * t) * _erfc(t))
    return np.where(wide < 0, 2 * np.exp(wide * wide) - positive, np.where(np.isnan(wide), wide, positive))


def log_ndtr_array(x: Array) -> Array:
    """The logarithm of the chance that a normal variable is below x."""
    wide = _long(x)
    low = wide < -1
    t = np.where(low, -wide, 1)
    tail = np.log(erfcx_array(t / _ROOT_2) / 2) - t * t / 2
    central = np.where(low, 0, wide)
    return np.where(low, tail, np.log1p(-_erfc(central / _ROOT_2) / 2))


def ndtri_array(p: Array) -> Array:
    """The number below which a normal variable is with the chance p."""
    wide = _long(p)
    inside = (wide > 0) & (wide < 1)
    chance = np.where(inside, wide, 0.5)
    tail = np.where(np.abs(chance - 0.5) < 0.4, 0.1, np.minimum(chance, 1 - chance))
    z = np.sqrt(-2 * np.log(tail))
    for _ in range(60):
        mills = erfcx_array(z / _ROOT_2) / 2
        distance = np.log(mills) - z * z / 2 - np.log(tail)
        z = z + distance * mills * np.sqrt(np.longdouble(2)) * _ROOT_PI
    outer = np.where(chance < 0.5, -z, z)
    quantile = np.where(np.abs(chance - 0.5) < 0.4, _ROOT_2 * erfinv_array(2 * chance - 1), outer)
    return np.where(inside, quantile, np.where(wide == 0, -np.inf, np.where(wide == 1, np.inf, np.nan)))


def log_of_sum_array(a: Array, b: Array, base: float) -> Array:
    """The logarithm, to a base, of the sum of its powers."""
    if a.dtype.kind == "c":
        a, b = np.broadcast_arrays(a, b)
        low, high = np.where(np.real(a) < np.real(b), (a, b), (b, a))
        return np.where(np.isneginf(high.real), high, np.log1p(np.exp(low - high)) + high)
    a, b = np.broadcast_arrays(_long(a), _long(b))
    large, small = np.maximum(a, b), np.minimum(a, b)
    same = np.isinf(a) & (a == b)
    scale = np.log(np.longdouble(base)) if base == 2 else np.longdouble(1)
    gap = np.where(same, 0, small - large)
    return np.where(same, a, large + np.log1p(np.exp(gap * scale)) / scale)


def times_log_array(x: Array, y: Array, shift: int) -> Array:
    """x log(shift + y), and 0 where x is 0 and y is a number."""
    x, y = np.broadcast_arrays(_long(x), _long(y))
    return np.where(np.isnan(y), y, np.where(x == 0, 0, x * (np.log1p(y) if shift else np.log(y))))


def sinc_array(x: Array) -> Array:
    """sin(pi x) / (pi x)."""
    if x.dtype.kind == "c":
        return np.where(x == 0, 1, np.sin(np.pi * x) / (np.pi * np.where(x == 0, 1, x)))
    wide = _long(x)
    pi = _ROOT_PI * _ROOT_PI
    nearest = np.round(wide)
    r = np.where(np.isfinite(wide), wide - nearest, 0)
    sine = np.where(np.fmod(nearest, 2) == 0, 1, -1) * np.sin(pi * r)
    result = np.where(np.abs(wide) < 1e-12, 1, sine / (pi * np.where(wide == 0, 1, wide)))
    return np.where(np.isinf(wide), 0, result)
