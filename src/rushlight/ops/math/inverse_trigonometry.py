"""asin, acos, atan, atan2."""

from __future__ import annotations

from rushlight.ir.dtype import DType, float32, float64
from rushlight.ir.scalar import Scalar, apply, fma, is_nan, select
from rushlight.ops.math.core import NAN, like, magnitude, negative, polynomial, sign_of, with_sign

PI: dict[DType, tuple[float, float]] = {
    float32: (3.1415927410125732, -8.742277657347586e-08),
    float64: (3.141592653589793, 1.2246467991473532e-16),
}
# (atan(x) - x) / x^3 by x^2, |x| <= 1
_ATAN: dict[DType, tuple[float, ...]] = {
    float32: (
        -0.33333302,
        0.19998626,
        -0.14265092,
        0.10956658,
        -0.0841646,
        0.05817802,
        -0.031394374,
        0.011028895,
        -0.0018186913,
    ),
    float64: (
        -0.33333333333333093,
        0.19999999999955473,
        -0.1428571428280447,
        0.11111111013716966,
        -0.090909071204019,
        0.07692281199723772,
        -0.06666415099696717,
        0.0588059314159941,
        -0.052538080822807066,
        0.047233016862015836,
        -0.0422173899473638,
        0.03669394567552206,
        -0.02998621391101992,
        0.022085919620163624,
        -0.013995694778042082,
        0.007263850434132416,
        -0.0029195924580671657,
        0.000843572300994289,
        -0.00015481592649573244,
        1.3491160821453556e-05,
    ),
}
# (asin(x) - x) / x^3 by x^2, |x| <= 1/2
_ASIN: dict[DType, tuple[float, ...]] = {
    float32: (0.16666754, 0.074952535, 0.045475796, 0.024153393, 0.042209525),
    float64: (
        0.16666666666666763,
        0.07499999999970182,
        0.044642857175177256,
        0.030381942681097368,
        0.02237221573679686,
        0.017351598527234526,
        0.013980982989251104,
        0.011397575375163877,
        0.010787792460517668,
        0.0036777492284421503,
        0.021777616879420186,
        -0.021098977567869354,
        0.03269148556936838,
    ),
}


def _atan_up_to_one(x: Scalar) -> Scalar:
    z = x * x
    return fma(x * z, polynomial(z, _ATAN[x.type]), x)


def _less_than(x: Scalar, turns: float, value: Scalar) -> Scalar:
    """turns * pi - value, the constant in two parts."""
    high, low = PI[x.type]
    return (like(x, low * turns) - value) + high * turns


def atan(x: Scalar) -> Scalar:
    """Arc tangent, in [-pi/2, pi/2]."""
    t = magnitude(x)
    inverted = t > 1.0
    angle = _atan_up_to_one(select(inverted, 1.0 / t, t))
    return with_sign(select(inverted, _less_than(x, 0.5, angle), angle), sign_of(x))


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), in [-pi, pi]; signs of zeros count."""
    a, b = magnitude(y), magnitude(x)
    steep = a > b
    large, small = select(steep, a, b), select(steep, b, a)
    # Equal magnitudes cover infinities; two zeros give the angle 0.
    ratio = select(large.equals(small), like(x, 1.0), small / large)
    ratio = select(large.equals(0.0), like(x, 0.0), ratio)
    angle = _atan_up_to_one(ratio)
    # Added to, or taken from, 0, pi/2 or pi in two parts.
    backward = negative(x)
    turned = select(steep ^ backward, -angle, angle)
    high, low = [
        select(steep, like(x, part * 0.5), select(backward, like(x, part), like(x, 0.0))) for part in PI[x.type]
    ]
    angle = high + (turned + low)
    return select(is_nan(x) | is_nan(y), like(x, NAN), with_sign(angle, sign_of(y)))


def _asin_parts(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """(whether |x| > 1/2, s, rest): s + rest is asin(|x|), or there asin(sqrt((1 - |x|)/2))."""
    t = magnitude(x)
    large = t > 0.5
    z = select(large, fma(t, like(x, -0.5), like(x, 0.5)), t * t)
    s = select(large, apply("sqrt", z), t)
    return large, s, s * z * polynomial(z, _ASIN[x.type])


def asin(x: Scalar) -> Scalar:
    """Arc sine; NaN outside [-1, 1]."""
    large, s, rest = _asin_parts(x)
    high, low = PI[x.type]
    # pi/2 - 2s is exact where it is small.
    far = fma(s, like(x, -2.0), like(x, high * 0.5)) + fma(rest, like(x, -2.0), like(x, low * 0.5))
    return with_sign(select(large, far, s + rest), sign_of(x))


def acos(x: Scalar) -> Scalar:
    """Arc cosine; NaN outside [-1, 1]."""
    large, s, rest = _asin_parts(x)
    angle = s + rest
    double = angle + angle
    far = select(negative(x), _less_than(x, 1.0, double), double)
    return select(large, far, _less_than(x, 0.5, with_sign(angle, sign_of(x))))
