"""What the gamma functions mean, in numpy's long doubles and by the plainest ways."""

from __future__ import annotations

import math

import numpy as np

from rushlight.ops.pointwise.definition import Array

_PI = np.longdouble("3.14159265358979323846264338327950288")
_LOG_2PI = np.log(2 * _PI)
# B_2j / (2j (2j-1)) and B_2j / 2j, of Stirling's formula and its derivative.
_BERNOULLI = ("1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510", "43867/798", "-174611/330")
_NUMBERS = [np.longdouble(text.split("/")[0]) / np.longdouble(text.split("/")[1]) for text in _BERNOULLI]
_FAR = 24


def _long(x: Array) -> Array:
    return np.asarray(x).astype(np.longdouble)


def _positive_lgamma(x: Array) -> Array:
    far = x >= _FAR
    near = np.where(far, 1, x)
    product = np.ones_like(x)
    for step in range(_FAR):
        product = product * (near + step)
    z = np.where(far, x, near + _FAR)
    rest = sum(number / ((2 * j) * (2 * j - 1)) * z ** (1 - 2 * j) for j, number in enumerate(_NUMBERS, 1))
    stirling = (z - np.longdouble(0.5)) * np.log(z) - z + _LOG_2PI / 2 + rest
    result = np.where(np.isinf(x), x, stirling - np.where(far, 0, np.log(product)))
    return np.where((x == 1) | (x == 2), 0, result)


def lgamma_array(x: Array) -> Array:
    """The logarithm of the magnitude of the gamma function."""
    wide = _long(x)
    above = _positive_lgamma(np.where(wide > 0, wide, 1))
    reflected = np.where(wide > 0, 0, 1 - wide)
    turn = wide - np.round(wide)
    below = np.log(_PI / np.abs(np.sin(_PI * turn))) - _positive_lgamma(np.where(wide > 0, 1, reflected))
    pole = (wide <= 0) & (np.isinf(wide) | (turn == 0))
    return np.where(wide > 0, above, np.where(pole, np.inf, np.where(np.isnan(wide), wide, below)))


def digamma_array(x: Array) -> Array:
    """The derivative of the logarithm of gamma."""
    wide = _long(x)
    y = np.where(wide > 0, wide, 1 - wide)
    far = y >= _FAR
    near = np.where(far, 1, y)
    total = sum(1 / (near + step) for step in range(_FAR))
    z = np.where(far, y, near + _FAR)
    rest = sum(number / (2 * j) * z ** (-2 * j) for j, number in enumerate(_NUMBERS, 1))
    above = np.log(z) - 1 / (2 * z) - rest - np.where(far, 0, total)
    turn = wide - np.round(wide)
    below = above - _PI / np.tan(_PI * np.where(turn == 0, 0.5, turn))
    below = np.where(np.isinf(wide) | (turn == 0), np.where(wide == 0, -1 / wide, np.nan), below)
    return np.where(wide > 0, above, below)


def zeta_array(s: Array, q: Array) -> Array:
    """Hurwitz's zeta function for s > 1 and q > 0: terms one by one, then Euler's and Maclaurin's formula."""
    s, q = np.broadcast_arrays(_long(s), _long(q))
    inside = (s > 1) & (q > 0)
    s_in, q_in = np.where(inside, s, 2), np.where(inside, q, 1)
    total = sum((q_in + step) ** -s_in for step in range(_FAR))
    end = q_in + _FAR
    total = total + end ** (1 - s_in) / (s_in - 1) + end**-s_in / 2
    factor = s_in * end ** (-s_in - 1)
    for j, number in enumerate(_NUMBERS, 1):
        total = total + number / math.factorial(2 * j) * factor
        factor = factor * (s_in + 2 * j - 1) * (s_in + 2 * j) / (end * end)
    pole = (s == 1) | ((s > 1) & (q <= 0) & (np.floor(q) == q))
    total = np.where(inside, np.where(np.isinf(q) | np.isinf(s), _limit(s, q), total), np.where(pole, np.inf, np.nan))
    return np.where(np.isnan(s) | np.isnan(q), np.nan, total)


def _limit(s: Array, q: Array) -> Array:
    """Hurwitz's zeta function where an argument is infinite."""
    return np.where(np.isinf(q) | (q > 1), 0, np.where(q == 1, 1, np.inf))


def polygamma_array(n: int, x: Array) -> Array:
    """The derivative of order n of digamma; what is below 0 is moved above it step by step."""
    if n == 0:
        return digamma_array(x)
    wide = _long(x)
    pole = (wide <= 0) & (np.isinf(wide) | (np.floor(wide) == wide))
    z = np.where(pole, 1, wide)
    total = np.zeros_like(z)
    while np.any(z <= 0):
        total, z = np.where(z <= 0, total + z ** np.longdouble(-n - 1), total), np.where(z <= 0, z + 1, z)
    total = np.where(pole, np.inf, total + zeta_array(np.asarray(n + 1), z))
    return (1 if n % 2 else -1) * np.longdouble(math.factorial(n)) * total


def incomplete_gamma_arrays(a: Array, x: Array) -> tuple[Array, Array]:
    """P and Q: a series left of a + 1, a continued fraction right of it, until nothing changes."""
    a, x = np.broadcast_arrays(_long(a), _long(x))
    inside = (a > 0) & (x > 0) & (a < np.inf) & (x < np.inf)
    a_in, x_in = np.where(inside, a, 1), np.where(inside, x, 1)
    factor = np.exp(a_in * np.log(x_in) - x_in - _positive_lgamma(a_in))
    left = x_in < a_in + 1
    series = factor * _series_array(a_in, np.where(left, x_in, a_in))
    fraction = factor / _fraction_array(a_in, np.where(left, a_in + 1, x_in))
    lower = np.where(left, series, 1 - fraction)
    upper = np.where(left, 1 - series, fraction)
    return _outside(a, x, np.where(inside, lower, np.nan), 0), _outside(a, x, np.where(inside, upper, np.nan), 1)


def _series_array(a: Array, x: Array) -> Array:
    term = 1 / a
    total = term
    for step in range(1, 2000):
        term = term * x / (a + step)
        total = total + term
        if np.all(term <= total * 1e-20):
            break
    return total


def _fraction_array(a: Array, x: Array) -> Array:
    value = x + 2 * 400 + 1 - a
    for k in range(400, 0, -1):
        value = x + 2 * k - 1 - a + k * (a - k) / value
    return value


def _outside(a: Array, x: Array, value: Array, empty: int) -> Array:
    valid = (a >= 0) & (x >= 0)
    value = np.where(valid & np.isinf(x), np.where(np.isinf(a), np.nan, 1 - empty), value)
    value = np.where(valid & np.isinf(a) & ~np.isinf(x), empty, value)
    value = np.where(valid & (x == 0), empty, value)
    return np.where(valid & (a == 0), np.where(x > 0, 1 - empty, np.nan), value)
