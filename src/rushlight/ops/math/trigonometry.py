"""sin, cos, tan over the whole range of arguments.

x = q*pi/2 + r with |r| <= pi/4. Below a bound the product is subtracted in parts (Cody and Waite); above it, the digits
of 2/pi that matter are picked by the exponent and multiplied as integers (Payne and Hanek). The second way stands under
a `guard`, so that a code generator may skip it where no element needs it. float32 is reduced in float64.
"""

from __future__ import annotations

from rushlight.ir.dtype import float32, float64, int32, int64, uint32, uint64
from rushlight.ir.scalar import Scalar, apply, bitcast, cast, constant, fma, guard, select
from rushlight.ops.math.core import (
    INF,
    NAN,
    bits_of,
    fast_two_sum,
    like,
    magnitude,
    nearest,
    polynomial,
    sign_of,
    two_product,
    two_sum,
    with_sign,
)
from rushlight.support.frozen import frozen

TWO_OVER_PI = 0.6366197723675814
# pi/2 in three parts of 53 bits.
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
# The binary digits of 2/pi behind 64 zeros.
_TWO_OVER_PI_WORDS = (
    0x0,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 by r^2, |r| <= pi/4
_SIN_F32 = (-0.16666655, 0.008332192, -0.00019518803)
_COS_F32 = (0.041666646, -0.0013887301, 2.4430667e-05)
_SIN_F64 = (
    -0.16666666666666666,
    0.008333333333333038,
    -0.00019841269840955826,
    2.7557319069529676e-06,
    -2.5052069567381923e-08,
    1.6054119807193869e-10,
    -7.379217298349306e-13,
)
_COS_F64 = (
    0.041666666666666664,
    -0.0013888888888888376,
    2.480158730116157e-05,
    -2.755731905007665e-07,
    2.087671924641691e-09,
    -1.1466517919311835e-11,
    4.576187189753055e-14,
)
# Up to these magnitudes the first way is precise enough.
_F32_BOUND = 2.0**27
_F64_BOUND = 2.0**26


@frozen
class Reduced:
    """x = quadrant*pi/2 + high + low; only the quadrant's two low bits count."""

    high: Scalar
    low: Scalar
    quadrant: Scalar


def _reduced_f32(t: Scalar) -> Reduced:
    """For a nonnegative float32 t; high is float64, low 0, the quadrant of 32 bits."""
    x = cast(t, float64)
    n, whole = nearest(x, TWO_OVER_PI)
    r = fma(n, like(x, -HALF_PI[1]), fma(n, like(x, -HALF_PI[0]), x))
    huge = t >= _F32_BOUND
    high, low = _turns_of_float32(t)
    quadrant = (high + (1 << 29)) >> 30
    fraction = cast(bitcast(high - (quadrant << 30), int32), float64) * 2.0**32 + cast(low, float64)
    high_part = select(huge, fraction * (HALF_PI[0] * 2.0**-62), r)
    return Reduced(high_part, like(x, 0.0), select(huge, bitcast(quadrant, int32), cast(whole, int32)))


def _turns_of_float32(t: Scalar) -> tuple[Scalar, Scalar]:
    """For a float32 of at least 2^27: its quarter turns modulo 4 in units of 2^-62, as two words."""
    bits = bits_of(t)
    mantissa = (bits & 0x7FFFFF) | 0x800000
    # As `_reduced_by_digits`, in words of 32 bits and without the zeros in front.
    position = (bits >> 23) - (150 + 2)
    words = [constant(half, uint32) for word in _TWO_OVER_PI_WORDS[1:5] for half in (word >> 32, word & 0xFFFFFFFF)]
    index = position >> 5
    for step, kept in ((2, 5), (1, 4)):
        moved = (index & step).differs(0)
        words = [select(moved, words[i + step], words[i]) for i in range(kept)]
    shift = position & 31
    back = shift ^ 31
    first, second, third = [(words[i] << shift) | ((words[i + 1] >> 1) >> back) for i in range(3)]
    carried = apply("mulhi", mantissa, third)
    low = mantissa * second + carried
    high = mantissa * first + apply("mulhi", mantissa, second) + cast(low < carried, uint32)
    huge = t >= _F32_BOUND
    zero = constant(0, uint32)
    return guard(huge, high, zero), guard(huge, low, zero)


def _reduced_f64(t: Scalar) -> Reduced:
    """For a nonnegative float64 t."""
    n, quadrant = nearest(t, TWO_OVER_PI)
    first, first_error = two_product(n, like(t, HALF_PI[0]))
    second, second_error = two_product(n, like(t, HALF_PI[1]))
    left, left_error = two_sum(t - first, -first_error)
    high, high_error = two_sum(left, -second)
    low = high_error + left_error - second_error - n * HALF_PI[2]
    high, low = fast_two_sum(high, low)
    huge = t >= _F64_BOUND
    big = _reduced_by_digits(t)
    return Reduced(select(huge, big.high, high), select(huge, big.low, low), select(huge, big.quadrant, quadrant))


def _window(position: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """The three words of digits that start at a bit position of the table."""
    words = [constant(word, uint64) for word in _TWO_OVER_PI_WORDS]
    index = position >> 6
    for step, kept in ((16, 19), (8, 11), (4, 7), (2, 5), (1, 4)):
        moved = (index & step).differs(0)
        words = [
            select(moved, words[i + step], words[i]) if i + step < len(words) else words[i]
            for i in range(min(kept, len(words)))
        ]
    shift = position & 63
    back = shift ^ 63
    first, second, third = [(words[i] << shift) | ((words[i + 1] >> 1) >> back) for i in range(3)]
    return first, second, third


def _reduced_by_digits(x: Scalar) -> Reduced:
    """For a float64 x of at least 2^-9: x = m * 2^e, and m times the digits of 2/pi from 2^(1-e) on, modulo 4."""
    bits = bits_of(x)
    mantissa = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    # Digit i has weight 2^-i, counted from 1, behind 64 zeros; x has exponent field - 1075.
    position = (bits >> 52) - (1075 + 2 - 64)
    first, second, third = _window(position)
    carried = apply("mulhi", mantissa, third)
    low = mantissa * second + carried
    carry = cast(low < carried, uint64)
    high = mantissa * first + apply("mulhi", mantissa, second) + carry
    huge, zero = x >= _F64_BOUND, constant(0, uint64)
    high, low = guard(huge, high, zero), guard(huge, low, zero)
    quadrant = (high + (1 << 61)) >> 62
    fraction = bitcast(high - (quadrant << 62), int64)
    # The fraction of a quarter turn in units of 2^-62, as head + rest.
    head = cast(fraction, float64)
    rest = cast(fraction - cast(head, int64), float64) + cast(low, float64) * 2.0**-64
    head, rest = fast_two_sum(head, rest)
    product, error = two_product(head, like(x, HALF_PI[0]))
    error = fma(head, like(x, HALF_PI[1]), fma(rest, like(x, HALF_PI[0]), error))
    product, error = fast_two_sum(product, error)
    return Reduced(product * 2.0**-62, error * 2.0**-62, bitcast(quadrant, int64))


def _sin_cos_f32(r: Scalar) -> tuple[Scalar, Scalar]:
    """sin(r) and cos(r) to the precision of float32, computed in r's dtype."""
    z = r * r
    sine = fma(r * z, polynomial(z, _SIN_F32), r)
    cosine = fma(z, fma(z, polynomial(z, _COS_F32), like(r, -0.5)), like(r, 1.0))
    return sine, cosine


def _sin_f64(r: Scalar, low: Scalar) -> tuple[Scalar, Scalar]:
    """sin(r + low) in two parts."""
    z = r * r
    tail = fma(r * z, polynomial(z, _SIN_F64), fma(z * -0.5, low, low))
    return fast_two_sum(r, tail)


def _cos_f64(r: Scalar, low: Scalar) -> tuple[Scalar, Scalar]:
    """cos(r + low) in two parts."""
    z = r * r
    half, half_error = z * 0.5, fma(r, r, -z) * 0.5
    head, error = fast_two_sum(like(r, 1.0), -half)
    tail = fma(z * z, polynomial(z, _COS_F64), fma(-r, low, error - half_error))
    return fast_two_sum(head, tail)


def _circular(x: Scalar, shift: int) -> Scalar:
    """sin of x plus `shift` quarter turns."""
    t = magnitude(x)
    if x.type is float32:
        reduced = _reduced_f32(t)
        quadrant = reduced.quadrant + shift
        sine, cosine = _sin_cos_f32(cast(reduced.high, float32))
        turned = bitcast(quadrant << 30, uint32)
    else:
        reduced = _reduced_f64(t)
        quadrant = reduced.quadrant + shift
        sine, cosine = _sin_f64(reduced.high, reduced.low)[0], _cos_f64(reduced.high, reduced.low)[0]
        turned = bitcast(quadrant << 62, uint64)
    value = select((quadrant & 1).equals(0), sine, cosine)
    sign = sign_of(bitcast(turned, x.type))
    if not shift:
        sign = sign ^ sign_of(x)
    return select(t < INF, with_sign(value, sign), like(x, NAN))


def cos_of_quarter(r: Scalar, quadrant: Scalar) -> Scalar:
    """cos(quadrant * pi/2 + r) for |r| <= pi/4; the quadrant is an unsigned integer of 0 to 3, or 4."""
    if r.type is float32:
        sine, cosine = _sin_cos_f32(r)
    else:
        sine, cosine = _sin_f64(r, like(r, 0.0))[0], _cos_f64(r, like(r, 0.0))[0]
    odd = (quadrant & 1).differs(0)
    value = select(odd, sine, cosine)
    # Below 0 in the second and third quarters of a turn.
    return select(((quadrant + 1) & 2).differs(0), -value, value)


def sin(x: Scalar) -> Scalar:
    """Sine."""
    return _circular(x, 0)


def cos(x: Scalar) -> Scalar:
    """Cosine."""
    return _circular(x, 1)


def tan(x: Scalar) -> Scalar:
    """Tangent; float32 is computed in float64."""
    t = magnitude(x)
    if x.type is float32:
        return _tan_f32(x, t)
    reduced = _reduced_f64(t)
    sine, sine_rest = _sin_f64(reduced.high, reduced.low)
    cosine, cosine_rest = _cos_f64(reduced.high, reduced.low)
    even = (reduced.quadrant & 1).equals(0)
    above, above_rest = select(even, sine, -cosine), select(even, sine_rest, -cosine_rest)
    below, below_rest = select(even, cosine, sine), select(even, cosine_rest, sine_rest)
    quotient = above / below
    rest = fma(-quotient, below, above) + fma(-quotient, below_rest, above_rest)
    corrected = quotient + rest / below
    quotient = select(magnitude(quotient) < 2.0**900, corrected, quotient)
    return select(t < INF, with_sign(quotient, sign_of(x)), like(x, NAN))


def _tan_f32(x: Scalar, t: Scalar) -> Scalar:
    reduced = _reduced_f32(t)
    sine, cosine = _sin_cos_f32(reduced.high)
    even = (reduced.quadrant & 1).equals(0)
    quotient = cast(select(even, sine, -cosine) / select(even, cosine, sine), float32)
    return select(t < INF, with_sign(quotient, sign_of(x)), like(x, NAN))
