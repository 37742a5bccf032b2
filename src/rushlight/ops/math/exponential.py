"""exp, exp2, expm1 and what is made of them: sigmoid, tanh, sinh, cosh.

All reduce x = n*log(2) + r with |r| <= log(2)/2, the product in two parts of which the first is exact.
"""

from __future__ import annotations

from rushlight.ir.dtype import DType, float32, float64
from rushlight.ir.scalar import Scalar, fma, select
from rushlight.ops.math.core import (
    clamped,
    like,
    magnitude,
    nearest,
    polynomial,
    power_of_two,
    scaled,
    sign_of,
    with_sign,
)

LOG2_E = 1.4426950408889634

# log(2) = high + low; n * high is exact for every exponent n.
LN2_HIGH: dict[DType, float] = {float32: 0.693145751953125, float64: 0.6931471805598903}
LN2_LOW: dict[DType, float] = {float32: 1.428606765330187e-06, float64: 5.497923018708371e-14}

# (exp(r) - 1 - r) / r^2, |r| <= log(2)/2
_EXP: dict[DType, tuple[float, ...]] = {
    float32: (0.5, 0.16666521, 0.04166639, 0.008368674, 0.0013941873),
    float64: (
        0.5000000000000012,
        0.166666666666667,
        0.04166666666651889,
        0.00833333333330726,
        0.0013888888946249425,
        0.00019841269917193587,
        2.480149063936572e-05,
        2.755721651442746e-06,
        2.763105600834227e-07,
        2.5117783565381926e-08,
    ),
}
# The same, with the error relative to r.
_EXPM1: dict[DType, tuple[float, ...]] = {
    float32: (0.5, 0.16666545, 0.041666403, 0.008366395, 0.0013940632),
    float64: (
        0.5,
        0.16666666666666677,
        0.04166666666666667,
        0.00833333333332139,
        0.0013888888888883592,
        0.00019841269886801486,
        2.4801587323727852e-05,
        2.755724347239634e-06,
        2.7557277409664067e-07,
        2.5109312052185283e-08,
        2.091277382363484e-09,
    ),
}
# (2^r - 1 - r*log(2)) / r^2, |r| <= 1/2
_EXP2: dict[DType, tuple[float, ...]] = {
    float32: (0.2402265, 0.05550362, 0.0096180625, 0.0013390206, 0.00015462878),
    float64: (
        0.24022650695910133,
        0.05550410866482161,
        0.009618129107593491,
        0.0013333558146403628,
        0.00015403530457812735,
        1.5252733848937791e-05,
        1.3215434959985753e-06,
        1.0178052734576003e-07,
        7.073835378170491e-09,
        4.456601519484481e-10,
    ),
}
# log(2) to twice the precision.
_LN2_ROUNDED: dict[DType, tuple[float, float]] = {
    float32: (0.6931471824645996, -1.9046542121259336e-09),
    float64: (0.6931471805599453, 2.3190468138462996e-17),
}
# (tanh(x) - x) / x^3 by x^2, |x| <= 0.625
_TANH: dict[DType, tuple[float, ...]] = {
    float32: (-0.33333284, 0.13331483, -0.05374279, 0.02064817, -0.005714249),
    float64: (
        -0.3333333333333333,
        0.13333333333332978,
        -0.05396825396801524,
        0.021869488528074518,
        -0.008863235368389066,
        0.003592125958550486,
        -0.0014558162788825349,
        0.0005899173500038256,
        -0.0002386553284959891,
        9.546955166807399e-05,
        -3.618411339557136e-05,
        1.1392515303698663e-05,
        -2.1100842627874516e-06,
    ),
}
_TANH_SPLIT = 0.625

# Arguments beyond these give 0 and infinity.
_EXP_RANGE: dict[DType, tuple[float, float]] = {float32: (-104.0, 90.0), float64: (-746.0, 711.0)}
_EXP2_RANGE: dict[DType, tuple[float, float]] = {float32: (-151.0, 129.0), float64: (-1076.0, 1025.0)}
# Below these expm1 is -1, above them infinite.
_EXPM1_RANGE: dict[DType, tuple[float, float]] = {float32: (-18.0, 89.0), float64: (-38.0, 710.0)}
# Numbers so small that expm1, sinh and their like are the identity.
_TINY: dict[DType, float] = {float32: 2.0**-26, float64: 2.0**-55}


def reduced(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """(r, n, integer n) with x = n*log(2) + r."""
    n, exponent = nearest(x, LOG2_E)
    r = fma(n, like(x, -LN2_HIGH[x.type]), x)
    return fma(n, like(x, -LN2_LOW[x.type]), r), n, exponent


def exp_of_reduced(r: Scalar) -> Scalar:
    """exp(r) for |r| <= log(2)/2."""
    return fma(r * r, polynomial(r, _EXP[r.type]), r) + 1.0


def exp(x: Scalar) -> Scalar:
    """e to the power x."""
    low, high = _EXP_RANGE[x.type]
    r, n, _ = reduced(_within(x, low, high))
    return select(x < low, like(x, 0.0), scaled(exp_of_reduced(r), n))


def _within(x: Scalar, low: float, high: float) -> Scalar:
    """At most `high`, and 0 for what is below `low`.

    A product that underflows takes a hundred cycles: in an attention, one for each masked score.
    """
    return select(x < low, like(x, 0.0), select(x > high, like(x, high), x))


def half_exp(x: Scalar) -> Scalar:
    """exp(x)/2 without overflow where exp(x) alone would."""
    low, high = _EXP_RANGE[x.type]
    r, n, _ = reduced(clamped(x, low, high + 2.0))
    return scaled(exp_of_reduced(r), n - 1.0)


def exp2(x: Scalar) -> Scalar:
    """2 to the power x."""
    least, most = _EXP2_RANGE[x.type]
    in_range = _within(x, least, most)
    n, _ = nearest(in_range, 1.0)
    r = in_range - n
    high, low = _LN2_ROUNDED[x.type]
    tail = r * fma(r, polynomial(r, _EXP2[x.type]), like(x, low))
    return select(x < least, like(x, 0.0), scaled(fma(r, like(x, high), tail) + 1.0, n))


def expm1(x: Scalar) -> Scalar:
    """exp(x) - 1, precise near 0."""
    r, _, exponent = reduced(clamped(x, *_EXPM1_RANGE[x.type]))
    grown = fma(r * r, polynomial(r, _EXPM1[x.type]), r)
    # Half the power of two, since the whole one may overflow where the result does not.
    half = power_of_two(exponent - 1, x.type)
    result = fma(grown, half, half - 0.5) * 2.0
    return select(magnitude(x) < _TINY[x.type], x, result)


def sigmoid(x: Scalar) -> Scalar:
    """1 / (1 + exp(-x)), precise in both tails."""
    e = exp(-magnitude(x))
    return select(x < 0.0, e, like(x, 1.0)) / (e + 1.0)


def tanh(x: Scalar) -> Scalar:
    """Hyperbolic tangent."""
    t = magnitude(x)
    square = t * t
    near = fma(t * square, polynomial(square, _TANH[x.type]), t)
    # exp(2t) stays far from overflow once tanh is 1.
    double = t + t
    r, _, exponent = reduced(select(double > 44.0, like(x, 44.0), double))
    far = 1.0 - 2.0 / (exp_of_reduced(r) * power_of_two(exponent, x.type) + 1.0)
    return with_sign(select(t < _TANH_SPLIT, near, far), sign_of(x))


def sinh(x: Scalar) -> Scalar:
    """Hyperbolic sine."""
    t = magnitude(x)
    grown = expm1(t)
    near = (grown + grown / (grown + 1.0)) * 0.5
    half = half_exp(t)
    return with_sign(select(t < 1.0, near, half - 0.25 / half), sign_of(x))


def cosh(x: Scalar) -> Scalar:
    """Hyperbolic cosine."""
    half = half_exp(magnitude(x))
    return half + 0.25 / half
