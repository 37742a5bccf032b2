"""Elementary functions of complex numbers, from real functions of their parts.

Parts of complex64 are computed in float64 and rounded once. Branch cuts, signed zeros, infinities and NaN are those of
annex G of C99. Inverse functions follow W. Kahan, "Branch cuts for complex elementary functions" (1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from rushlight.ir.dtype import float64, real_dtype
from rushlight.ir.scalar import Scalar, apply, cast, is_nan, select
from rushlight.ops.math import exponential, inverse_trigonometry, logarithm, trigonometry
from rushlight.ops.math.core import (
    INF,
    NAN,
    clamped,
    length,
    like,
    magnitude,
    negative,
    sign_of,
    two_product,
    two_sum,
    with_sign,
)

Parts: TypeAlias = tuple[Scalar, Scalar]

_LN2 = math.log(2.0)
_HALF_PI = math.pi / 2
# Where exp overflows soon: what is beyond is divided by exp(_SHIFT) and multiplied by it again at the end.
_SHIFT = 709.0
_EXP_OF_SHIFT = math.exp(_SHIFT)
# Numbers whose squares, and four times that, are finite.
_LARGE = 1e150


def by_kind(real: Callable[[Scalar], Scalar], whole: Callable[[Scalar, Scalar], Parts]) -> Callable[[Scalar], Scalar]:
    """A function of real scalars and, by parts, of complex ones."""

    def scalar(z: Scalar) -> Scalar:
        return of_parts(whole, z) if z.type.is_complex else real(z)

    return scalar


def parts_of(z: Scalar) -> Parts:
    """The parts of a complex scalar, as float64."""
    return cast(apply("real", z), float64), cast(apply("imag", z), float64)


def of_parts(function: Callable[..., Parts], *operands: Scalar) -> Scalar:
    """A function of the float64 parts of complex scalars, rounded to their dtype."""
    real = real_dtype(operands[0].type)
    first, second = function(*[part for operand in operands for part in parts_of(operand)])
    return apply("complex", cast(first, real), cast(second, real))


def either_part(test: Callable[[Scalar], Scalar], every: bool = False) -> Callable[[Scalar], Scalar]:
    """Whether a test holds for a part of a complex scalar, or for both; a real one is tested itself."""

    def scalar(z: Scalar) -> Scalar:
        if not z.type.is_complex:
            return test(z)
        first, second = test(apply("real", z)), test(apply("imag", z))
        return first & second if every else first | second

    return scalar


# Pieces.


def _finite(x: Scalar) -> Scalar:
    return magnitude(x) < INF


def _infinite(x: Scalar) -> Scalar:
    return magnitude(x).equals(INF)


def _signed(size: Scalar | float, sign: Scalar) -> Scalar:
    """A magnitude with the sign of another number."""
    return with_sign(size if isinstance(size, Scalar) else like(sign, size), sign_of(sign))


def _or_zero(x: Scalar, y: Scalar) -> Scalar:
    """x * y, and 0 where one of them is 0 and the other infinite or NaN."""
    nothing = x.equals(0.0) | y.equals(0.0)
    return select(nothing, with_sign(like(x, 0.0), sign_of(x) ^ sign_of(y)), x * y)


def _log_length(x: Scalar, y: Scalar) -> Scalar:
    """log |x + iy|, precise also where that is near 0."""
    a, b = magnitude(x), magnitude(y)
    large, small = select(a > b, a, b), select(a > b, b, a)
    ratio = select(large.equals(0.0), like(x, 0.0), small / large)
    far = logarithm.log(large) + logarithm.log1p(ratio * ratio) * 0.5
    near = logarithm.log1p(_square_less_one(large, small)) * 0.5
    log_length = select((large > 0.5) & (large < 1.5), near, far)
    return select(_infinite(x) | _infinite(y), like(x, INF), select(is_nan(x) | is_nan(y), like(x, NAN), log_length))


def _square_less_one(x: Scalar, y: Scalar) -> Scalar:
    """x^2 + y^2 - 1 for an x near 1, rounded about once: products and sums carry their errors along."""
    up, lost = two_sum(x, like(x, 1.0))
    product, product_error = two_product(x - 1.0, up)
    square, square_error = two_product(y, y)
    total, error = two_sum(product, square)
    return total + (error + (product_error + square_error + (x - 1.0) * lost))


# Exponentials.


def exp(x: Scalar, y: Scalar) -> Parts:
    """e^z."""
    over = x > _SHIFT
    size = exponential.exp(select(over, x - _SHIFT, x))
    scale = select(over, like(x, _EXP_OF_SHIFT), like(x, 1.0))
    real = size * trigonometry.cos(y) * scale
    imag = size * trigonometry.sin(y) * scale
    gone = x.equals(-INF) & ~_finite(y)
    real = select(gone, like(x, 0.0), select(x.equals(INF) & ~_finite(y), like(x, INF), real))
    straight = y.equals(0.0)
    return select(straight, exponential.exp(x), real), select(straight, y, select(gone, like(x, 0.0), imag))


def exp2(x: Scalar, y: Scalar) -> Parts:
    """2^z."""
    return exp(x * _LN2, y * _LN2)


def expm1(x: Scalar, y: Scalar) -> Parts:
    """e^z - 1, precise near 0."""
    real, imag = exp(x, y)
    half = trigonometry.sin(y * 0.5)
    near = exponential.expm1(x) * trigonometry.cos(y) - half * half * 2.0
    return select(magnitude(x) < 1.0, near, real - 1.0), imag


def sigmoid(x: Scalar, y: Scalar) -> Parts:
    """1 / (1 + e^-z)."""
    below = x < 0.0
    real, imag = exp(select(below, x, -x), select(below, y, -y))
    one = like(x, 1.0)
    return quotient(select(below, real, one), select(below, imag, like(x, 0.0)), one + real, imag)


def quotient(a: Scalar, b: Scalar, c: Scalar, d: Scalar) -> Parts:
    """(a + ib) / (c + id), for parts of moderate size."""
    square = c * c + d * d
    return (a * c + b * d) / square, (b * c - a * d) / square


# Logarithms.


def log(x: Scalar, y: Scalar) -> Parts:
    """The natural logarithm, cut along the negative numbers."""
    return _log_length(x, y), inverse_trigonometry.atan2(y, x)


def _log_to(base: float) -> Callable[[Scalar, Scalar], Parts]:
    def log_to(x: Scalar, y: Scalar) -> Parts:
        real, imag = log(x, y)
        return real / math.log(base), imag / math.log(base)

    return log_to


log2, log10 = _log_to(2.0), _log_to(10.0)


def log1p(x: Scalar, y: Scalar) -> Parts:
    """log(1 + z), precise near 0."""
    product, product_error = two_product(x, x)
    square, square_error = two_product(y, y)
    first, first_error = two_sum(x * 2.0, product)
    total, error = two_sum(first, square)
    near = logarithm.log1p(total + (error + first_error + product_error + square_error)) * 0.5
    small = (magnitude(x) < 0.5) & (magnitude(y) < 1.0)
    return select(small, near, _log_length(x + 1.0, y)), inverse_trigonometry.atan2(y, x + 1.0)


# Roots, signs and powers.


def log_of_sum(a: Scalar, b: Scalar, c: Scalar, d: Scalar) -> Parts:
    """log(e^(a + bi) + e^(c + di)): the number with the larger real part, plus log1p(e^(difference))."""
    swap = a < c
    high = select(swap, c, a), select(swap, d, b)
    low = select(swap, a, c), select(swap, b, d)
    real, imag = log1p(*exp(low[0] - high[0], low[1] - high[1]))
    nothing = high[0].equals(-INF)
    return select(nothing, high[0], real + high[0]), select(nothing, high[1], imag + high[1])


def sqrt(x: Scalar, y: Scalar) -> Parts:
    """The square root in the right half plane."""
    size = select(magnitude(x) > magnitude(y), magnitude(x), magnitude(y))
    large, tiny = size > _LARGE, size < 1e-290
    scale = select(large, like(x, 2.0**-4), select(tiny, like(x, 2.0**200), like(x, 1.0)))
    back = select(large, like(x, 4.0), select(tiny, like(x, 2.0**-100), like(x, 1.0)))
    a, b = x * scale, y * scale
    root = apply("sqrt", (magnitude(a) + length(a, b)) * 0.5)
    other = magnitude(b) / (root * 2.0)
    root, other = root * back, other * back
    right = ~negative(x)
    real, imag = select(right, root, other), _signed(select(right, other, root), y)
    nothing = x.equals(0.0) & y.equals(0.0)
    wide = _infinite(y)
    real = select(wide, like(x, INF), select(nothing, like(x, 0.0), real))
    return real, select(wide | nothing, y, imag)


def sgn(x: Scalar, y: Scalar) -> Parts:
    """z / |z|, and 0 for 0."""
    size = select(magnitude(x) > magnitude(y), magnitude(x), magnitude(y))
    scale = select(size > 1.0, like(x, 0.5), select(size < 1e-200, like(x, 2.0**500), like(x, 1.0)))
    a, b = x * scale, y * scale
    whole = length(a, b)
    nothing = whole.equals(0.0)
    return select(nothing, like(x, 0.0), a / whole), select(nothing, like(x, 0.0), b / whole)


def power(x: Scalar, y: Scalar, u: Scalar, v: Scalar) -> Parts:
    """z^w = e^(w log z), and products where w is 1, 2 or 3.

    1 for a w of 0, 0 for a z of 0 and a w with a positive real part.
    """
    real, imag = log(x, y)
    first = select(v.equals(0.0), u * real, u * real - v * imag)
    second = select(v.equals(0.0), u * imag, u * imag + v * real)
    real, imag = exp(first, second)
    twice = x * x - y * y, x * y * 2.0
    products = (x, y), twice, (twice[0] * x - twice[1] * y, twice[0] * y + twice[1] * x)
    for exponent, (product_real, product_imag) in enumerate(products, 1):
        chosen = u.equals(exponent) & v.equals(0.0)
        real, imag = select(chosen, product_real, real), select(chosen, product_imag, imag)
    one, zero = like(x, 1.0), like(x, 0.0)
    nothing, plain = x.equals(0.0) & y.equals(0.0), u.equals(0.0) & v.equals(0.0)
    at_zero = select(u > 0.0, zero, like(x, NAN))
    real = select(nothing, at_zero, real)
    return select(plain, one, real), select(plain, zero, select(nothing, at_zero, imag))


# Hyperbolic functions, and circular ones as those of iz.


def _halved_exp(x: Scalar) -> Scalar:
    """e^|x| / 2 / e^_SHIFT, where that is no longer told from cosh and sinh."""
    return exponential.exp(magnitude(x) - _SHIFT) * 0.5


def _scaled(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """sinh and cosh of a real number over a scale under which they do not overflow, and that scale."""
    over = magnitude(x) > _SHIFT
    scale = select(over, like(x, _EXP_OF_SHIFT), like(x, 1.0))
    size = _halved_exp(x)
    return select(over, _signed(size, x), exponential.sinh(x)), select(over, size, exponential.cosh(x)), scale


def sinh(x: Scalar, y: Scalar) -> Parts:
    """The hyperbolic sine."""
    low, high, scale = _scaled(x)
    real = _or_zero(low, trigonometry.cos(y)) * scale
    imag = _or_zero(high, trigonometry.sin(y)) * scale
    return select(_infinite(x) & ~_finite(y), x, real), imag


def cosh(x: Scalar, y: Scalar) -> Parts:
    """The hyperbolic cosine."""
    low, high, scale = _scaled(x)
    real = _or_zero(high, trigonometry.cos(y)) * scale
    imag = _or_zero(low, trigonometry.sin(y)) * scale
    return select(_infinite(x) & ~_finite(y), magnitude(x), real), imag


def tanh(x: Scalar, y: Scalar) -> Parts:
    """The hyperbolic tangent, by Kahan's form of it."""
    far = (magnitude(x) > 22.0) & (_finite(y) | _infinite(x))
    near = clamped(x, -23.0, 23.0)
    tangent = trigonometry.tan(y)
    beta = fma_one(tangent)
    low = exponential.sinh(near)
    below = beta * low * low + 1.0
    real = beta * apply("sqrt", fma_one(low)) * low / below
    imag = tangent / below
    wave = select(_finite(y), trigonometry.sin(y) * trigonometry.cos(y), y * 0.0)
    wave = select(_infinite(x) & ~_finite(y), _signed(0.0, y), wave * 4.0 * exponential.exp(magnitude(x) * -2.0))
    flat = x.equals(0.0) & ~_finite(y)
    real = select(far, _signed(1.0, x), select(flat, x, real))
    straight = y.equals(0.0)
    return select(straight, exponential.tanh(x), real), select(straight, y, select(far, wave, imag))


def fma_one(x: Scalar) -> Scalar:
    """x^2 + 1, rounded once."""
    return apply("fma", x, x, like(x, 1.0))


def asinh(x: Scalar, y: Scalar) -> Parts:
    """The inverse hyperbolic sine, cut along the imaginary axis beyond i and -i."""
    a, b = sqrt(1.0 - y, x)  # of 1 + iz
    c, d = sqrt(1.0 + y, -x)  # of 1 - iz
    real = logarithm.asinh(a * -d + b * c)
    imag = inverse_trigonometry.atan2(y, a * c - b * d)
    far = _beyond(x, y)
    real = select(far, _log_length(x * 0.5, y * 0.5) + 2 * _LN2, magnitude(real))
    imag = select(far, inverse_trigonometry.atan2(y, magnitude(x)), imag)
    return _signed(real, x), select(y.equals(0.0), y, imag)


def _beyond(x: Scalar, y: Scalar) -> Scalar:
    """Whether 1 + z is z, and its square near to overflow."""
    return (magnitude(x) > _LARGE) | (magnitude(y) > _LARGE)


def atanh(x: Scalar, y: Scalar) -> Parts:
    """The inverse hyperbolic tangent, cut along the real axis beyond 1 and -1."""
    a = magnitude(x)
    less, more = 1.0 - a, 1.0 + a
    real = logarithm.log1p(a * 4.0 / (less * less + y * y)) * 0.25
    imag = inverse_trigonometry.atan2(y * 2.0, less * more - y * y) * 0.5
    far = _beyond(x, y)
    size = length(x * 0.5, y * 0.5)
    distant = select(_infinite(x) | _infinite(y), like(x, 0.0), a * 0.25 / size / size)
    thin = a.equals(1.0) & (magnitude(y) < 1e-150)
    close = (_LN2 - logarithm.log(magnitude(y))) * 0.5
    real = select(far, distant, select(thin, close, real))
    real = select(x.equals(0.0) & is_nan(y), like(x, 0.0), real)
    return _signed(real, x), select(far, select(is_nan(y), y, _signed(_HALF_PI, y)), imag)


def acos(x: Scalar, y: Scalar) -> Parts:
    """The arc cosine, cut along the real axis beyond 1 and -1."""
    a, b = sqrt(1.0 - x, -y)
    c, d = sqrt(1.0 + x, y)
    real = inverse_trigonometry.atan2(a, c) * 2.0
    imag = logarithm.asinh(c * b - d * a)
    far = _beyond(x, y)
    real = select(far, inverse_trigonometry.atan2(magnitude(y), x), real)
    real = select(x.equals(0.0) & is_nan(y), like(x, _HALF_PI), real)
    size = select(far, _log_length(x * 0.5, y * 0.5) + 2 * _LN2, magnitude(imag))
    return real, -_signed(size, y)


def acosh(x: Scalar, y: Scalar) -> Parts:
    """The inverse hyperbolic cosine, with a positive real part."""
    real, imag = acos(x, y)
    return magnitude(imag), _signed(real, y)


def turned(function: Callable[[Scalar, Scalar], Parts]) -> Callable[[Scalar, Scalar], Parts]:
    """-i f(iz): sin from sinh, and so on."""

    def circular(x: Scalar, y: Scalar) -> Parts:
        real, imag = function(-y, x)
        return imag, -real

    return circular


sin, tan, asin, atan = turned(sinh), turned(tanh), turned(asinh), turned(atanh)


def cos(x: Scalar, y: Scalar) -> Parts:
    """cosh(iz)."""
    return cosh(-y, x)


def sinc(x: Scalar, y: Scalar) -> Parts:
    """sin(pi z) / (pi z), and 1 for 0."""
    a, b = x * math.pi, y * math.pi
    quotient = apply("complex", *sin(a, b)) / apply("complex", a, b)
    is_zero = x.equals(0.0) & y.equals(0.0)
    real, imag = apply("real", quotient), apply("imag", quotient)
    return select(is_zero, like(x, 1.0), real), select(is_zero, like(x, 0.0), imag)
