"""log, log2, log10, log1p and what is made of them: asinh, acosh, atanh.

All split x = m * 2^e with m in [2/3, 4/3), so that e is 0 around 1 and nothing cancels there.
"""

from __future__ import annotations

from rushlight.ir.dtype import DType, float32, float64
from rushlight.ir.scalar import Scalar, apply, bitcast, cast, constant, fma, select
from rushlight.ops.math.core import FORMS, INF, NAN, fast_two_sum, like, magnitude, polynomial, sign_of, with_sign
from rushlight.ops.math.exponential import LN2_HIGH, LN2_LOW

# (log(1+f) - f + f^2/2) / f^3, |f| <= 1/3
_LOG1P_F32 = (0.33333224, -0.24999687, 0.20010038, -0.1668556, 0.14010994, -0.121137135, 0.13962099, -0.13197991)
# (atanh(s) - s) / s^3 by s^2, |s| <= 1/5
_ATANH_F64 = (
    0.333333333333333,
    0.2000000000002832,
    0.1428571427792059,
    0.1111111214739023,
    0.09090832992550521,
    0.07695554096152857,
    0.06586832339834903,
    0.06921292588060793,
)
# The bits of 2/3.
_TWO_THIRDS: dict[DType, int] = {float32: 0x3F2AAAAB, float64: 0x3FE5555555555555}
# Logarithms of e and of 2, each in two parts; those of 2 such that e * high is exact.
_LOG2_OF_E: dict[DType, tuple[float, float]] = {
    float32: (1.4426950216293335, 1.925963033500011e-08),
    float64: (1.4426950408889634, 2.0355273740931033e-17),
}
_LOG10_OF_E: dict[DType, tuple[float, float]] = {
    float32: (0.4342944920063019, -1.0103049952192578e-08),
    float64: (0.4342944819032518, 1.098319650216765e-17),
}
_LOG10_OF_2: dict[DType, tuple[float, float]] = {
    float32: (0.301025390625, 4.605039066518657e-06),
    float64: (0.30102999566395283, 2.8363394551044964e-14),
}


def exponent_bits(x: Scalar) -> Scalar:
    """The exponent e of x = m * 2^e, m in [2/3, 4/3), as a signed integer in its place among the bits."""
    form = FORMS[x.type]
    distance = bitcast(x, form.signed) - _TWO_THIRDS[x.type]
    return distance & constant(-1 << form.fraction, form.signed)


def split(x: Scalar) -> tuple[Scalar, Scalar]:
    """(m - 1, e) of a positive x, denormal ones too: x = m * 2^e, m in [2/3, 4/3), e as a float."""
    form = FORMS[x.type]
    tiny = x < form.least_normal
    normal = select(tiny, x * 2.0**form.fraction, x)
    placed = exponent_bits(normal)
    fraction = bitcast(bitcast(normal, form.signed) - placed, x.type) - 1.0
    exponent = cast(placed >> form.fraction, x.type)
    return fraction, select(tiny, exponent - float(form.fraction), exponent)


def _tail(f: Scalar) -> Scalar:
    """log(1+f) - f for |f| <= 1/3."""
    if f.type is float32:
        return f * f * fma(f, polynomial(f, _LOG1P_F32), like(f, -0.5))
    half_square = f * f * 0.5
    s = f / (f + 2.0)
    z = s * s
    return fma(s, fma(z * 2.0, polynomial(z, _ATANH_F64), half_square), -half_square)


def _joined(f: Scalar, exponent: Scalar) -> Scalar:
    """log(1+f) + exponent * log(2)."""
    tail = fma(exponent, like(f, LN2_LOW[f.type]), _tail(f))
    return fma(exponent, like(f, LN2_HIGH[f.type]), f + tail)


def _in_domain(x: Scalar, result: Scalar) -> Scalar:
    """The logarithm of x with its values at 0, below 0, at infinity and NaN."""
    finite = select(x < INF, result, x)
    return select(x > 0.0, finite, select(x.equals(0.0), like(x, -INF), like(x, NAN)))


def log(x: Scalar) -> Scalar:
    """Natural logarithm."""
    f, exponent = split(x)
    return _in_domain(x, _joined(f, exponent))


def _log_of_base(x: Scalar, of_e: tuple[float, float], of_2: tuple[float, float]) -> Scalar:
    f, exponent = split(x)
    high, low = fast_two_sum(f, _tail(f))
    fraction = fma(high, like(x, of_e[0]), fma(high, like(x, of_e[1]), low * of_e[0]))
    whole = fma(exponent, like(x, of_2[1]), fraction) if of_2[1] else fraction
    return _in_domain(x, fma(exponent, like(x, of_2[0]), whole))


def log2(x: Scalar) -> Scalar:
    """Logarithm to base 2; exact for powers of two."""
    return _log_of_base(x, _LOG2_OF_E[x.type], (1.0, 0.0))


def log10(x: Scalar) -> Scalar:
    """Logarithm to base 10."""
    return _log_of_base(x, _LOG10_OF_E[x.type], _LOG10_OF_2[x.type])


def log1p(x: Scalar) -> Scalar:
    """log(1 + x), precise near 0."""
    form = FORMS[x.type]
    total = x + 1.0
    placed = exponent_bits(total)
    # f = (1 + x) * 2^-e - 1 with one rounding. Four times the power, since 2^-e alone may be below the normal numbers.
    power = bitcast(bitcast(like(x, 4.0), form.signed) - placed, x.type)
    f = fma(x * 0.25, power, power * 0.25 - 1.0)
    result = _in_domain(total, _joined(f, cast(placed >> form.fraction, x.type)))
    return select(total.equals(1.0), x, result)


def asinh(x: Scalar) -> Scalar:
    """Inverse hyperbolic sine."""
    t = magnitude(x)
    large = 2.0**28
    inner = select(t > large, like(x, 1.0), t)
    near = log1p(inner + inner * inner / (apply("sqrt", fma(inner, inner, like(x, 1.0))) + 1.0))
    return with_sign(select(t > large, log(t) + LN2_HIGH[x.type] + LN2_LOW[x.type], near), sign_of(x))


def acosh(x: Scalar) -> Scalar:
    """Inverse hyperbolic cosine; NaN below 1."""
    large = 2.0**28
    inner = select(x > large, like(x, 1.0), x) - 1.0
    near = log1p(inner + apply("sqrt", inner * (inner + 2.0)))
    far = log(x) + LN2_HIGH[x.type] + LN2_LOW[x.type]
    return select(x < 1.0, like(x, NAN), select(x > large, far, near))


def atanh(x: Scalar) -> Scalar:
    """Inverse hyperbolic tangent; infinite at 1 and -1, NaN beyond."""
    t = magnitude(x)
    return with_sign(log1p((t + t) / (1.0 - t)) * 0.5, sign_of(x))
