"""What the Bessel functions mean, in numpy: trapezoids over their integrals, asymptotic series beyond."""

from __future__ import annotations

import math

import numpy as np

from rushlight.ops.pointwise.definition import Array

_PI = np.longdouble("3.14159265358979323846264338327950288")
_EULER = np.longdouble("0.57721566490153286060651209008240243")
_FAR = 50  # beyond this the asymptotic series are precise to the last place


def _long(x: Array) -> Array:
    return np.asarray(x).astype(np.longdouble)


def _angles(count: int) -> tuple[Array, Array]:
    """Points from 0 to pi and the trapezoidal rule's weights, which add up to 1."""
    points = np.arange(count + 1).astype(np.longdouble) * (_PI / count)
    weights = np.full(count + 1, 1 / np.longdouble(count))
    weights[[0, -1]] /= 2
    return points, weights


def _amplitudes(order: float, t: Array) -> tuple[Array, Array]:
    """The even and odd part of Hankel's series, terms of ((4 n^2 - 1) (4 n^2 - 9) ...) / (k! (8 t)^k)."""
    term, parts = np.ones_like(t), [np.zeros_like(t), np.zeros_like(t)]
    for k in range(26):
        parts[k % 2] = parts[k % 2] + term
        term = term * (4 * order * order - (2 * k + 1) ** 2) / ((k + 1) * 8 * t)
    return parts[0], parts[1]


def _signed_amplitudes(order: float | np.longdouble, t: Array) -> tuple[Array, Array]:
    """P and Q of the waves: the same terms with signs in turn."""
    p, q, term = np.zeros_like(t), np.zeros_like(t), np.ones_like(t)
    for k in range(26):
        sign = -1 if k % 4 >= 2 else 1
        p, q = (p + sign * term, q) if k % 2 == 0 else (p, q + sign * term)
        term = term * (4 * order * order - (2 * k + 1) ** 2) / ((k + 1) * 8 * t)
    return p, q


def scaled_i_array(order: int, x: Array) -> Array:
    """exp(-|x|) I(x)."""
    wide = _long(x)
    t = np.abs(wide)
    points, weights = _angles(160)
    near = np.where(t < _FAR, t, 0)[..., None]
    value = (np.exp(near * (np.cos(points) - 1)) * np.cos(order * points) * weights).sum(-1)
    far = np.where(t < _FAR, _FAR, np.where(np.isinf(t), _FAR, t))
    even, odd = _amplitudes(order, far)
    beyond = (even - odd) / np.sqrt(2 * _PI * far)
    value = np.where(t < _FAR, value, np.where(np.isinf(t), 0, beyond))
    if order:  # the integral cancels near 0
        small = np.where(t < 0.5, t, 0)
        series = small / 2 * sum((small * small / 4) ** k / _factorials(k, order) for k in range(12))
        value = np.where(t < 0.5, series * np.exp(-small), value) * np.where(np.signbit(wide), -1, 1)
    return np.where(np.isnan(wide), wide, value)


def _factorials(k: int, order: int) -> np.longdouble:
    """k! (k + order)!"""
    return np.longdouble(math.factorial(k)) * np.longdouble(math.factorial(k + order))


def i_array(order: int, x: Array) -> Array:
    """I(x)."""
    half = np.exp(np.abs(_long(x)) / 2)
    result = scaled_i_array(order, x) * half * half
    return np.where(np.isinf(x), np.abs(x) if order == 0 else x, result)


def scaled_k_array(order: float | np.longdouble, x: Array) -> Array:
    """exp(x) K(x): an integral over exp(-x (cosh(u) - 1)) cosh(order u)."""
    wide = _long(x)
    inside = (wide > 0) & (wide < np.inf)
    t = np.where(inside, wide, 1)
    end = np.arccosh(1 + 50 / t)
    steps = np.arange(401).astype(np.longdouble) / 400
    u = steps * end[..., None]
    weights = np.full(401, 1 / np.longdouble(400))
    weights[[0, -1]] /= 2
    # 2 sinh(u/2)^2 is cosh(u) - 1 without cancellation.
    total = (np.exp(-2 * t[..., None] * np.sinh(u / 2) ** 2) * np.cosh(order * u) * weights).sum(-1) * end
    return np.where(inside, total, np.where(wide == 0, np.inf, np.where(np.isnan(wide) | (wide < 0), np.nan, 0)))


def k_array(order: int, x: Array) -> Array:
    """K(x)."""
    result = scaled_k_array(order, x) * np.exp(-_long(x))
    return np.where(np.isinf(x) & (np.asarray(x) > 0), 0, result)


def _j_near(order: int, t: Array) -> Array:
    points, weights = _angles(240)
    phase = order * points - t[..., None] * np.sin(points)
    return (np.cos(phase) * weights).sum(-1)


def _j_of_orders(orders: range, t: Array) -> Array:
    """J of several orders, which are the first axis: the cosine of a difference takes phases of `t` once for all."""
    points, weights = _angles(240)
    turned = np.arange(orders.start, orders.stop, orders.step)[:, None] * points
    phase = t[..., None] * np.sin(points)
    sums = np.cos(phase) @ (np.cos(turned) * weights).T + np.sin(phase) @ (np.sin(turned) * weights).T
    return np.moveaxis(sums, -1, 0)


def _wave(order: int, t: Array, second: bool) -> Array:
    p, q = _signed_amplitudes(order, t)
    sine, cosine = np.sin(t), np.cos(t)
    total, difference = (sine + cosine) / np.sqrt(np.longdouble(2)), (sine - cosine) / np.sqrt(np.longdouble(2))
    along, across = (difference, -total) if order else (total, difference)
    wave = p * across + q * along if second else p * along - q * across
    return wave * np.sqrt(2 / (_PI * t))


def j_array(order: int, x: Array) -> Array:
    """J(x)."""
    wide = _long(x)
    t = np.abs(wide)
    near = _j_near(order, np.where(t < _FAR, t, 0))
    far = _wave(order, np.where((t < _FAR) | np.isinf(t), _FAR, t), False)
    value = np.where(t < _FAR, near, np.where(np.isinf(t), 0, far))
    if order:  # the integral cancels near 0
        small = np.where(t < 0.5, t, 0)
        series = small / 2 * sum((-small * small / 4) ** k / _factorials(k, order) for k in range(12))
        value = np.where(t < 0.5, series, value) * np.where(np.signbit(wide), -1, 1)
    return np.where(np.isnan(wide), wide, value)


def y_array(order: int, x: Array) -> Array:
    """Y(x): Neumann's series of J of even orders."""
    wide = _long(x)
    inside = (wide > 0) & (wide < np.inf)
    t = np.where(inside & (wide < _FAR), wide, 1)
    logarithm = 2 / _PI * (np.log(t / 2) + _EULER)
    if order:
        value = logarithm * _j_near(1, t) - 2 / _PI * _j_near(0, t) / t
        odd = _j_of_orders(range(1, 97, 2), t)
        terms = (odd[:-1] - odd[1:]) / 2
        value = value + 4 / _PI * sum((-1) ** k * term / k for k, term in enumerate(terms, 1))
    else:
        terms = _j_of_orders(range(2, 96, 2), t)
        value = logarithm * _j_near(0, t) - 4 / _PI * sum((-1) ** k * term / k for k, term in enumerate(terms, 1))
    far = _wave(order, np.where(inside & (wide >= _FAR), wide, _FAR), True)
    value = np.where(wide < _FAR, value, np.where(np.isinf(wide), 0, far))
    return np.where(wide > 0, value, np.where(wide == 0, -np.inf, np.nan))


def spherical_j0_array(x: Array) -> Array:
    """sin(x) / x."""
    wide = _long(x)
    inner = np.where(np.isinf(wide) | (wide == 0), 1, wide)
    return np.where(np.isinf(wide), 0, np.where(wide == 0, 1, np.sin(inner) / inner))


def airy_array(x: Array) -> Array:
    """Ai(x): its power series near 0, modified Bessel functions above, waves below."""
    wide = _long(x)
    t = np.abs(wide)
    z = np.where((t > 2) & (t < np.inf), t, 2)
    phase = 2 * z * np.sqrt(z) / 3
    above = np.sqrt(z / 3) / _PI * scaled_k_array(1 / np.longdouble(3), phase) * np.exp(-phase)
    p, q = _signed_amplitudes(1 / np.longdouble(3), np.where(z > 9, phase, 20))
    angle = phase - _PI / 4
    # Hankel's terms of order 1/3 are those of Ai, with the odd ones' sign turned.
    below = (p * np.cos(angle) + -q * np.sin(angle)) / np.sqrt(_PI * np.sqrt(z))
    near = np.clip(wide, -9, 2)
    first, second = np.ones_like(near), near.copy()
    total_first, total_second = first, second
    for k in range(1, 60):
        first = first * near**3 / ((3 * k - 1) * (3 * k))
        second = second * near**3 / ((3 * k) * (3 * k + 1))
        total_first, total_second = total_first + first, total_second + second
    series = np.longdouble("0.35502805388781723926006318600418318") * total_first
    series = series - np.longdouble("0.25881940379280679840518356018920396") * total_second
    value = np.where(wide > 2, above, np.where(wide < -9, below, series))
    return np.where(np.isinf(wide), 0, np.where(np.isnan(wide), wide, value))
