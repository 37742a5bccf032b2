"""Building blocks of the vector math: polynomials, powers of two, sums in two parts, signs.

The functions of `math_*` take and return scalar terms of float32 or float64 and are expanded where they are used, so
every vector width computes the same bits. There are no tables in memory and no branches: what differs by range is
selected.
Coefficients are derived by `tools/minimax.py`; errors are measured by `tools/ulp_sweep.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight.ir.dtype import DType, float32, float64, int32, int64, uint32, uint64
from rushlight.ir.scalar import Scalar, apply, bitcast, constant, fma, select
from rushlight.support.frozen import frozen

INF = math.inf
NAN = math.nan


@frozen
class FloatLayout:
    """The layout of a float dtype: fraction bits, exponent bias, and integers of its width.

    `magic` added to a number of magnitude below 2^(fraction - 1) leaves its nearest integer in the low bits of the sum.
    """

    fraction: int
    bias: int
    signed: DType
    unsigned: DType

    @property
    def magic(self) -> float:
        """1.5 * 2^fraction."""
        return 1.5 * 2.0**self.fraction

    @property
    def sign_bit(self) -> int:
        """The mask of the sign."""
        return 1 << (8 * self.unsigned.itemsize - 1)

    @property
    def least_normal(self) -> float:
        """The least positive normal number."""
        return 2.0 ** (1 - self.bias)


FORMS: dict[DType, FloatLayout] = {
    float32: FloatLayout(23, 127, int32, uint32),
    float64: FloatLayout(52, 1023, int64, uint64),
}


def like(x: Scalar, value: float) -> Scalar:
    """A constant of x's dtype."""
    return constant(value, x.type)


def polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Horner's rule by fma; coefficients lowest degree first."""
    value = like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = fma(value, x, like(x, coefficient))
    return value


def power_of_two(exponent: Scalar, dtype: DType) -> Scalar:
    """2^exponent for an integer exponent in the range of normal numbers."""
    form = FORMS[dtype]
    return bitcast((exponent + form.bias) << form.fraction, dtype)


def scaled(x: Scalar, n: Scalar) -> Scalar:
    """x * 2^n for an x near 1 and an integral float n, right into overflow and denormals."""
    return apply("scale", x, n)


def nearest(x: Scalar, factor: Scalar | float) -> tuple[Scalar, Scalar]:
    """The integer nearest to x*factor, as a float and as an integer of its width; small magnitudes only."""
    form = FORMS[x.type]
    magic = like(x, form.magic)
    shifted = fma(x, factor if isinstance(factor, Scalar) else like(x, factor), magic)
    return shifted - magic, bitcast(shifted, form.signed) - bitcast(magic, form.signed)


def bits_of(x: Scalar) -> Scalar:
    """The bit pattern as an unsigned integer."""
    return bitcast(x, FORMS[x.type].unsigned)


def sign_of(x: Scalar) -> Scalar:
    """The sign bit alone, as an unsigned integer."""
    return bits_of(x) & FORMS[x.type].sign_bit


def with_sign(x: Scalar, sign: Scalar) -> Scalar:
    """x with its sign flipped where `sign` (a sign bit) is set."""
    return bitcast(bits_of(x) ^ sign, x.type)


def magnitude(x: Scalar) -> Scalar:
    """The absolute value."""
    return apply("abs", x)


def negative(x: Scalar) -> Scalar:
    """Whether the sign bit is set: for -0.0 too."""
    return sign_of(x).differs(0)


def fast_two_sum(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """a + b and its rounding error, for |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """a + b and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """a * b and its rounding error."""
    product = a * b
    return product, fma(a, b, -product)


def clamped(x: Scalar, low: float, high: float) -> Scalar:
    """x within [low, high]; NaN stays."""
    raised = select(x < low, like(x, low), x)
    return select(raised > high, like(x, high), raised)


def length(a: Scalar, b: Scalar) -> Scalar:
    """sqrt(a*a + b*b), scaled by the larger so that nothing overflows on the way."""
    x, y = magnitude(a), magnitude(b)
    large, small = select(x > y, x, y), select(x > y, y, x)
    ratio = select(
        large.equals(small) | large.equals(0.0), select(large.equals(0.0), large, like(x, 1.0)), small / large
    )
    hypotenuse = large * apply("sqrt", fma(ratio, ratio, like(x, 1.0)))
    infinite = x.equals(math.inf) | y.equals(math.inf)
    return select(infinite, like(x, math.inf), select(a.differs(a) | b.differs(b), like(x, math.nan), hypotenuse))
