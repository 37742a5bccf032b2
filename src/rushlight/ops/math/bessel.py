"""Bessel functions of orders 0 and 1, and Airy's function Ai.

Near 0 each is a polynomial, with its logarithm and pole taken out; beyond it is an exponential or a wave of which the
amplitude and the phase's correction are polynomials of the inverse.
"""

from __future__ import annotations

from rushlight.ir.scalar import Scalar, apply, fma, select
from rushlight.ops.math.core import INF, NAN, like, magnitude, sign_of, with_sign
from rushlight.ops.math.exponential import exp
from rushlight.ops.math.fitted import Fitted, in_float64
from rushlight.ops.math.logarithm import log
from rushlight.ops.math.special_tables import (
    AIRY_NEAR,
    AIRY_P,
    AIRY_POSITIVE,
    AIRY_Q,
    I0_FAR,
    I0_NEAR,
    I0_SMALL,
    I1_FAR,
    I1_NEAR,
    I1_SMALL,
    J0_NEAR,
    J1_NEAR,
    K0_FAR,
    K0_NEAR,
    K1_FAR,
    K1_NEAR,
    P0_FAR,
    P1_FAR,
    Q0_FAR,
    Q1_FAR,
    Y0_NEAR,
    Y1_NEAR,
)
from rushlight.ops.math.trigonometry import cos, sin

_TWO_OVER_PI = 0.6366197723675814
_INVERSE_ROOT_PI = 0.5641895835477563
_ROOT_HALF = 0.7071067811865476


def _root(x: Scalar) -> Scalar:
    return apply("sqrt", x)


def _grown(value: Scalar, t: Scalar) -> Scalar:
    """value * exp(t) in two steps, so that nothing overflows before the product does."""
    half = exp(t * 0.5)
    return value * half * half


# Modified functions.


def _scaled_i(t: Scalar, near: Scalar, far_table: Fitted, precise: bool) -> Scalar:
    far = t >= 8.0
    z = select(far, t, like(t, 8.0))
    return select(far, far_table(8.0 / z, precise) / _root(z), near)


def _i0_of(t: Scalar, precise: bool) -> Scalar:
    """exp(-t) I0(t) for t >= 0."""
    near = I0_NEAR(select(t < 8.0, t, like(t, 8.0)), precise)
    return select(t.differs(t), t, _scaled_i(t, near, I0_FAR, precise))


def _i1_of(t: Scalar, precise: bool) -> Scalar:
    """exp(-t) I1(t) for t >= 0."""
    near = t * I1_NEAR(select(t < 8.0, t, like(t, 8.0)), precise)
    return select(t.differs(t), t, _scaled_i(t, near, I1_FAR, precise))


@in_float64
def i0(x: Scalar, precise: bool) -> Scalar:
    """The modified function of the first kind and order 0."""
    t = magnitude(x)
    return select(t < INF, _grown(_i0_of(t, precise), t), t)


@in_float64
def i0e(x: Scalar, precise: bool) -> Scalar:
    """exp(-|x|) I0(x)."""
    return _i0_of(magnitude(x), precise)


@in_float64
def i1(x: Scalar, precise: bool) -> Scalar:
    """The modified function of the first kind and order 1."""
    t = magnitude(x)
    return with_sign(select(t < INF, _grown(_i1_of(t, precise), t), t), sign_of(x))


@in_float64
def i1e(x: Scalar, precise: bool) -> Scalar:
    """exp(-|x|) I1(x)."""
    return with_sign(_i1_of(magnitude(x), precise), sign_of(x))


def _k_parts(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Whether x is near 0; x brought there, and x brought beyond."""
    near = x < 2.0
    return near, select(near & (x > 0.0), x, like(x, 1.0)), select(near, like(x, 2.0), x)


def _k_limits(x: Scalar, value: Scalar) -> Scalar:
    """The value, infinite at 0 and NaN below."""
    value = select(x > 0.0, value, select(x.equals(0.0), like(x, INF), like(x, NAN)))
    return select(x.equals(INF), like(x, 0.0), value)


def _k0_near(x: Scalar, precise: bool) -> Scalar:
    square = x * x
    return fma(-log(x), I0_SMALL(square, precise), K0_NEAR(square, precise))


def _k1_near(x: Scalar, precise: bool) -> Scalar:
    square = x * x
    return fma(log(x) * x, I1_SMALL(square, precise), K1_NEAR(square, precise) / x)


@in_float64
def k0(x: Scalar, precise: bool) -> Scalar:
    """The modified function of the second kind and order 0."""
    near, low, high = _k_parts(x)
    beyond = K0_FAR(2.0 / high, precise) / _root(high) * exp(-high)
    return _k_limits(x, select(near, _k0_near(low, precise), beyond))


@in_float64
def k0e(x: Scalar, precise: bool) -> Scalar:
    """exp(x) K0(x)."""
    near, low, high = _k_parts(x)
    beyond = K0_FAR(2.0 / high, precise) / _root(high)
    return _k_limits(x, select(near, _k0_near(low, precise) * exp(low), beyond))


@in_float64
def k1(x: Scalar, precise: bool) -> Scalar:
    """The modified function of the second kind and order 1."""
    near, low, high = _k_parts(x)
    beyond = K1_FAR(2.0 / high, precise) / _root(high) * exp(-high)
    return _k_limits(x, select(near, _k1_near(low, precise), beyond))


@in_float64
def k1e(x: Scalar, precise: bool) -> Scalar:
    """exp(x) K1(x)."""
    near, low, high = _k_parts(x)
    beyond = K1_FAR(2.0 / high, precise) / _root(high)
    return _k_limits(x, select(near, _k1_near(low, precise) * exp(low), beyond))


# Functions of the first and second kind.


def _wave(t: Scalar, order: int, second: bool, precise: bool) -> Scalar:
    """J or Y of an order at t >= 8, from the amplitudes P and Q."""
    inverse = 8.0 / t
    square = inverse * inverse
    p = (P1_FAR if order else P0_FAR)(square, precise)
    q = (Q1_FAR if order else Q0_FAR)(square, precise) * inverse
    sine, cosine = sin(t), cos(t)
    total, difference = (sine + cosine) * _ROOT_HALF, (sine - cosine) * _ROOT_HALF
    # The phase is t - pi/4 for order 0, and a quarter turn less for order 1.
    along, across = (difference, -total) if order else (total, difference)
    wave = p * across + q * along if second else p * along - q * across
    return wave * _root(_TWO_OVER_PI / t)


def _split(t: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    far = t >= 8.0
    return far, select(far, like(t, 1.0), t), select(far & (t < INF), t, like(t, 8.0))


@in_float64
def j0(x: Scalar, precise: bool) -> Scalar:
    """The function of the first kind and order 0."""
    t = magnitude(x)
    far, low, high = _split(t)
    value = select(far, _wave(high, 0, False, precise), J0_NEAR(low * low, precise))
    return select(t.equals(INF), like(x, 0.0), value)


@in_float64
def j1(x: Scalar, precise: bool) -> Scalar:
    """The function of the first kind and order 1."""
    t = magnitude(x)
    far, low, high = _split(t)
    value = select(far, _wave(high, 1, False, precise), low * J1_NEAR(low * low, precise))
    return with_sign(select(t.equals(INF), like(x, 0.0), value), sign_of(x))


def _y_limits(x: Scalar, value: Scalar) -> Scalar:
    value = select(x > 0.0, value, select(x.equals(0.0), like(x, -INF), like(x, NAN)))
    return select(x.equals(INF), like(x, 0.0), value)


@in_float64
def y0(x: Scalar, precise: bool) -> Scalar:
    """The function of the second kind and order 0."""
    far, low, high = _split(select(x > 0.0, x, like(x, 1.0)))
    square = low * low
    near = fma(log(low) * _TWO_OVER_PI, J0_NEAR(square, precise), Y0_NEAR(square, precise))
    return _y_limits(x, select(far, _wave(high, 0, True, precise), near))


@in_float64
def y1(x: Scalar, precise: bool) -> Scalar:
    """The function of the second kind and order 1."""
    far, low, high = _split(select(x > 0.0, x, like(x, 1.0)))
    square = low * low
    smooth = fma(log(low) * _TWO_OVER_PI, J1_NEAR(square, precise), Y1_NEAR(square, precise))
    near = fma(low, smooth, -_TWO_OVER_PI / low)
    return _y_limits(x, select(far, _wave(high, 1, True, precise), near))


@in_float64
def spherical_j0(x: Scalar, precise: bool) -> Scalar:
    """sin(x) / x."""
    del precise
    infinite = magnitude(x).equals(INF)
    inner = select(infinite | x.equals(0.0), like(x, 1.0), x)
    value = select(x.equals(0.0), like(x, 1.0), sin(inner) / inner)
    return select(infinite, like(x, 0.0), value)


# Airy's function.


@in_float64
def airy(x: Scalar, precise: bool) -> Scalar:
    """Ai(x): 0 at both infinities."""
    t = magnitude(x)
    high = x > 2.1
    outside = high | (x < -5.0)
    inner = select(outside & (t < INF), t, like(x, 5.0))
    root = _root(inner)
    quarter = _root(root)
    z = inner * root * (2.0 / 3.0)
    inverse = 1.0 / z
    decay = AIRY_POSITIVE(select(high, inverse, like(x, 0.1)), precise) * exp(-z) / quarter
    square = select(high, like(x, 0.0), inverse * inverse)
    sine, cosine = sin(z), cos(z)
    along, across = (sine + cosine) * _ROOT_HALF, (sine - cosine) * _ROOT_HALF
    wave = AIRY_P(square, precise) * along - AIRY_Q(square, precise) * inverse * across
    wave = wave * _INVERSE_ROOT_PI / quarter
    near = AIRY_NEAR(select(outside, like(x, 0.0), x), precise)
    value = select(outside, select(high, decay, wave), near)
    return select(t.equals(INF), like(x, 0.0), value)
