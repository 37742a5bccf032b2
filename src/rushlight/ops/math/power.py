"""pow, with C99's special values."""

from __future__ import annotations

from rushlight.ir.dtype import float32, float64
from rushlight.ir.scalar import Scalar, apply, bitcast, cast, fma, select
from rushlight.ops.math.core import (
    FORMS,
    INF,
    NAN,
    clamped,
    fast_two_sum,
    like,
    magnitude,
    nearest,
    negative,
    polynomial,
    power_of_two,
    scaled,
    two_product,
)
from rushlight.ops.math.exponential import LN2_HIGH, LN2_LOW, LOG2_E, exp_of_reduced, reduced
from rushlight.ops.math.logarithm import exponent_bits, split

# For float32 computed in float64: (atanh(s) - s) / s^3 by s^2, |s| <= 1/5, and (2^r - 1 - r*log(2)) / r^2, |r| <= 1/2
_ATANH = (
    0.33333333333073834,
    0.20000000125448375,
    0.1428569411482425,
    0.1111259889700382,
    0.09035694265049704,
    0.08687899841858002,
)
_EXP2 = (
    0.24022651069421624,
    0.05550410928854688,
    0.009618037651975588,
    0.001333344991026559,
    0.00015466910632252185,
    1.53115211067115e-05,
)
_LN2 = 0.6931471805599453
# For float64: (atanh(s) - s - s^3/3) / s^5 by s^2, |s| <= 1/5; and 1/3 in two parts.
_ATANH_REST = (
    0.19999999999999862,
    0.1428571428578866,
    0.11111111095623945,
    0.09090910763048102,
    0.07692203319590907,
    0.0667057252769904,
    0.05796172585166312,
    0.06285770641641941,
)
_THIRD = (0.3333333333333333, 1.850371707708594e-17)


def _power_f32(x: Scalar, y: Scalar) -> Scalar:
    """x^y for a positive finite float32 x."""
    wide = cast(x, float64)
    form = FORMS[float64]
    placed = exponent_bits(wide)
    f = bitcast(bitcast(wide, form.signed) - placed, float64) - 1.0
    s = f / (f + 2.0)
    z = s * s
    log_m = fma(s * z, polynomial(z, _ATANH), s)
    log2_x = fma(log_m, like(s, 2.0 * LOG2_E), cast(placed >> form.fraction, float64))
    t = clamped(cast(y, float64) * log2_x, -400.0, 400.0)
    n, exponent = nearest(t, 1.0)
    r = t - n
    grown = fma(r * r, polynomial(r, _EXP2), fma(r, like(r, _LN2), like(r, 1.0)))
    return cast(grown * power_of_two(exponent, float64), float32)


def _log_parts(x: Scalar) -> tuple[Scalar, Scalar]:
    """log(x) of a positive finite float64 in two parts, to some 2^-68 of its size."""
    f, exponent = split(x)
    below, below_rest = fast_two_sum(like(x, 2.0), f)
    inverse = 1.0 / below
    s = f * inverse
    s_rest = fma(-s, below_rest, fma(-s, below, f)) * inverse
    z, z_rest = two_product(s, s)
    z_rest = fma(s + s, s_rest, z_rest)
    tail = z * polynomial(z, _ATANH_REST)
    u, u_rest = fast_two_sum(like(x, _THIRD[0]), tail)
    u_rest = u_rest + _THIRD[1]
    w, w_rest = two_product(z, u)
    w_rest = fma(z, u_rest, fma(z_rest, u, w_rest))
    double, double_rest = s + s, s_rest + s_rest
    v, v_rest = two_product(double, w)
    v_rest = fma(double, w_rest, fma(double_rest, w, v_rest))
    high, low = fast_two_sum(double, v)
    low = low + (v_rest + double_rest)
    total, rest = fast_two_sum(exponent * LN2_HIGH[float64], high)
    total = select(exponent.equals(0.0), high, total)
    rest = select(exponent.equals(0.0), like(x, 0.0), rest)
    return total, rest + fma(exponent, like(x, LN2_LOW[float64]), low)


def _power_f64(x: Scalar, y: Scalar) -> Scalar:
    """x^y for a positive finite float64 x."""
    high, low = _log_parts(x)
    t = y * high
    rest = fma(y, high, -t) + y * low
    inside = magnitude(t) < 800.0
    t = clamped(t, -800.0, 800.0)
    r, n, _ = reduced(t)
    return scaled(exp_of_reduced(r + select(inside, rest, like(x, 0.0))), n)


def power(x: Scalar, y: Scalar) -> Scalar:
    """x to the power y: 1 for y = 0 and for x = 1, NaN for a negative x and a y that is no integer."""
    t = magnitude(x)
    zero, infinite = t.equals(0.0), t.equals(INF)
    inner = select(zero | infinite, like(x, 1.0), t)
    result = _power_f32(inner, y) if x.type is float32 else _power_f64(inner, y)
    # 0^y and inf^-y are 0 for a positive y, infinite for a negative one.
    vanishing = select(zero, y, -y) > 0.0
    result = select(zero | infinite, select(vanishing, like(x, 0.0), like(x, INF)), result)
    result = select(t.equals(1.0), like(x, 1.0), result)
    result = select(x.differs(x) | y.differs(y), like(x, NAN), result)
    half = y * 0.5
    whole = apply("trunc", y).equals(y)
    odd = whole & apply("trunc", half).differs(half)
    result = select(negative(x) & odd, -result, result)
    result = select((x < 0.0) & ~whole & ~infinite, like(x, NAN), result)
    return select(x.equals(1.0) | y.equals(0.0), like(x, 1.0), result)
