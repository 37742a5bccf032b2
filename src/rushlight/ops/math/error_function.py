"""erf, erfc and the normal distribution function, of which gelu is made.

Far from 0 all are exp(-t^2/2) * R(t) with a smooth R. The square is taken in two parts, since its rounding error would
grow with it in the exponential.
"""

from __future__ import annotations

from rushlight.ir.dtype import DType, float32, float64
from rushlight.ir.scalar import Scalar, fma, lift, select
from rushlight.ops.math.core import like, magnitude, polynomial, sign_of, two_product, two_sum, with_sign
from rushlight.ops.math.exponential import exp

# erf(x)/x - 1 by x^2, |x| <= 1
_ERF: dict[DType, tuple[float, ...]] = {
    float32: (0.12837917, -0.3761263, 0.11283618, -0.026855126, 0.005190731, -0.0008030731, 7.9202546e-05),
    float64: (
        0.1283791670955126,
        -0.37612638903184104,
        0.11283791670971748,
        -0.026866170648217624,
        0.005223977655048656,
        -0.0008548328698100327,
        0.00012055392962052411,
        -1.492706184679674e-05,
        1.6484200557584125e-06,
        -1.6592737521337065e-07,
        1.6266317360411368e-08,
        -1.7489209206765839e-09,
        1.6145414390548935e-10,
    ),
}
# (t + 4) exp(t^2/2) P(normal > t) by (t - 4)/(t + 4), t >= 0
_CENTRE = 4.0
_TAIL: dict[DType, tuple[float, ...]] = {
    float32: (
        0.75528514,
        -0.6078966,
        0.38713732,
        -0.18652156,
        0.060398147,
        -0.007542908,
        -0.0034912836,
        0.0016371044,
        0.00017092712,
        -0.00022208525,
        -4.632945e-05,
    ),
    float64: (
        0.7552851304157515,
        -0.6078966419718921,
        0.3871374007422194,
        -0.18652185795966583,
        0.06039657489067054,
        -0.007540188966421703,
        -0.0034796923616883207,
        0.001630818453073453,
        0.00013334424930267578,
        -0.00023109490194224227,
        -1.9078481655287136e-06,
        3.514456039171281e-05,
        7.149887629257396e-07,
        -5.919980624820296e-06,
        -6.252523493579929e-07,
        1.021793109379397e-06,
        2.641752282620119e-07,
        -1.5650982998907985e-07,
        -7.720972113028815e-08,
        1.6010189939028332e-08,
        1.4604138725690575e-08,
        -3.2090501164024785e-10,
        -1.1886668594516478e-09,
    ),
}
# (P(normal < x) - 1/2) / x by x^2, |x| <= 5/4
_CENTRAL: dict[DType, tuple[float, ...]] = {
    float32: (
        0.3989423,
        -0.06649053,
        0.009974164,
        -0.0011883704,
        0.00011622813,
        -9.613278e-06,
        5.7641745e-07,
    ),
    float64: (
        0.3989422804014327,
        -0.06649038006690687,
        0.009973557010060889,
        -0.0011873282156898383,
        0.00011543468861045398,
        -9.444659210877452e-06,
        6.659751229376526e-07,
        -4.123430836981709e-08,
        2.2804025276662956e-09,
        -1.1715924465881406e-10,
        6.716019222554877e-12,
        -5.696968961072502e-13,
        4.231588345593655e-14,
    ),
}
_SQRT2: dict[DType, float] = {float32: 1.4142135381698608, float64: 1.4142135623730951}
# Beyond these the tail is 0; clamped, so that infinity makes no NaN.
_FAR: dict[DType, float] = {float32: 16.0, float64: 40.0}


def _tail(t: Scalar, square: Scalar, square_rest: Scalar) -> Scalar:
    """exp(-(square + square_rest)) R(t): the chance that a normal variable exceeds t, if that sum is t^2/2."""
    return exp(-square) * scaled_tail(t, square_rest)


def scaled_tail(t: Scalar, square_rest: Scalar | float = 0.0) -> Scalar:
    """R(t) exp(-square_rest) for a t >= 0 and a tiny rest: exp(t^2/2) times the chance to exceed t."""
    divisor, divisor_rest = two_sum(t, like(t, _CENTRE))
    inverse = 1.0 / divisor
    # What the roundings of the divisor, the inverse and the square leave, as one small relative correction.
    rest = fma(-inverse, divisor, like(t, 1.0)) - fma(inverse, divisor_rest, lift(square_rest, t.type))
    smooth = polynomial((t - _CENTRE) * inverse, _TAIL[t.type]) * inverse
    return fma(smooth, rest, smooth)


def normal_cdf(x: Scalar) -> Scalar:
    """The chance that a normal variable is below x, precise in the lower tail."""
    t = magnitude(x)
    far = _FAR[x.type]
    t = select(t > far, like(x, far), t)
    square, rest = two_product(t, t)
    tail = _tail(t, square * 0.5, rest * 0.5)
    # Around 0: 1/2 + x * (c + x^2 * ...); half and the first product are added exactly where they nearly cancel.
    first, *others = _CENTRAL[x.type]
    slope, slope_rest = two_product(x, like(x, first))
    central = (slope + 0.5) + fma(x * square, polynomial(square, others), slope_rest)
    return select(t < 1.25, central, select(x < 0.0, tail, 1.0 - tail))


def _erfc_of(t: Scalar) -> Scalar:
    """erfc(t) for t >= 0."""
    far = _FAR[t.type]
    t = select(t > far, like(t, far), t)
    square, rest = two_product(t, t)
    return _tail(t * _SQRT2[t.type], square, rest) * 2.0


def _erf_near(x: Scalar) -> Scalar:
    """erf(x) for |x| <= 1."""
    return fma(x, polynomial(x * x, _ERF[x.type]), x)


def erf(x: Scalar) -> Scalar:
    """Error function."""
    t = magnitude(x)
    return with_sign(select(t < 1.0, _erf_near(t), 1.0 - _erfc_of(t)), sign_of(x))


def erfc(x: Scalar) -> Scalar:
    """1 - erf(x), precise for large x."""
    t = magnitude(x)
    upper = _erfc_of(t)
    # Around 0 the difference is more precise, in two steps of which the first is nearly exact.
    near = (1.0 - x) - x * polynomial(x * x, _ERF[x.type])
    return select(t < 1.0, near, select(x < 0.0, 2.0 - upper, upper))


def gelu(x: Scalar) -> Scalar:
    """x times the normal distribution function of x."""
    return x * normal_cdf(x)
