"""Inverses and logarithms of the error function and the normal distribution, and logarithms of sums."""

from __future__ import annotations

import math
from collections.abc import Callable

from rushlight.ir.scalar import Scalar, apply, fma, select
from rushlight.ops.math.core import INF, NAN, like, magnitude, polynomial, two_product
from rushlight.ops.math.error_function import normal_cdf, scaled_tail
from rushlight.ops.math.exponential import exp, exp2
from rushlight.ops.math.fitted import in_float64
from rushlight.ops.math.logarithm import log, log1p
from rushlight.ops.math.special_tables import (
    ERFINV_FAR,
    ERFINV_MIDDLE,
    ERFINV_NEAR,
    QUANTILE_FAR,
    QUANTILE_MIDDLE,
    QUANTILE_NEAR,
    SINE_PI,
)

_ROOT_2 = (1.4142135623730951, -9.667293313452913e-17)
_INVERSE_ROOT_2PI = 0.3989422804014327
# Beyond this the tail is its asymptotic series: 1 - 1/t^2 + 3/t^4 - 15/t^6 + ...
_FAR = 38.0
_FAR_SERIES = (1.0, -1.0, 3.0, -15.0, 105.0, -945.0)


def _mills(t: Scalar) -> Scalar:
    """exp(t^2/2) times the chance that a normal variable exceeds t >= 0."""
    far = t > _FAR
    inverse = 1.0 / select(far, t, like(t, _FAR))
    beyond = polynomial(inverse * inverse, _FAR_SERIES) * inverse * _INVERSE_ROOT_2PI
    return select(far, beyond, scaled_tail(select(far, like(t, _FAR), t)))


@in_float64
def erfinv(x: Scalar, precise: bool) -> Scalar:
    """The number whose error function is x: a polynomial of -log(1 - x^2), or of its root."""
    inside = magnitude(x) < 1.0
    inner = select(inside, x, like(x, 0.0))
    w = -log((1.0 - inner) * (inner + 1.0))
    root = apply("sqrt", w)
    near, middle = w < 6.25, root < 4.0
    ratio = select(
        near,
        ERFINV_NEAR(select(near, w, like(w, 0.0)), precise),
        select(
            middle,
            ERFINV_MIDDLE(select(middle, root, like(root, 3.0)), precise),
            ERFINV_FAR(select(middle, like(root, 5.0), root), precise),
        ),
    )
    edge = select(magnitude(x).equals(1.0), x * INF, like(x, NAN))
    return select(inside, x * ratio, edge)


@in_float64
def erfcx(x: Scalar, precise: bool) -> Scalar:
    """exp(x^2) erfc(x), which for x < 0 is 2 exp(x^2) less that at -x."""
    del precise
    t = magnitude(x)
    # t sqrt(2) in two parts: the rest counts as a change of the square.
    product, rest = two_product(t, like(t, _ROOT_2[0]))
    near = product < _FAR
    rest = select(near, fma(t, like(t, _ROOT_2[1]), rest), like(t, 0.0))
    mills = _mills(product)
    # M(p + rest) = M(p) + rest (p M(p) - 1/sqrt(2 pi))
    slope = select(near, product, like(t, 0.0)) * mills - _INVERSE_ROOT_2PI
    positive = fma(rest, slope, mills) * 2.0
    square, square_rest = two_product(select(t < 30.0, t, like(t, 30.0)), select(t < 30.0, t, like(t, 30.0)))
    grown = exp(square) * 2.0
    grown = select(grown < INF, fma(grown, square_rest, grown), grown)
    return select(x < 0.0, grown - positive, select(x.differs(x), x, positive))


@in_float64
def log_normal_cdf(x: Scalar, precise: bool) -> Scalar:
    """The logarithm of the chance that a normal variable is below x."""
    del precise
    low = x < -1.0
    t = select(low, -x, like(x, 1.0))
    square, rest = two_product(t, t)
    tail = log(_mills(t)) - select(t < 1e100, rest, like(x, 0.0)) * 0.5 - square * 0.5
    tail = select(t < INF, tail, -t)
    upper = normal_cdf(-select(low, like(x, 0.0), x))
    return select(low, tail, select(x.differs(x), x, log1p(-upper)))


@in_float64
def normal_quantile(p: Scalar, precise: bool) -> Scalar:
    """The number below which a normal variable is with the chance p."""
    inside = (p > 0.0) & (p < 1.0)
    inner = select(inside, p, like(p, 0.5))
    centre = inner - 0.5
    # Around 1/2 by erfinv's polynomial of 2p - 1.
    doubled = centre * 2.0
    w = -log(fma(-doubled, doubled, like(p, 1.0)))
    central = magnitude(centre) < 0.4
    middle = doubled * ERFINV_NEAR(select(central, w, like(w, 0.0)), precise) * _ROOT_2[0]
    below = centre < 0.0
    tail = select(below, inner, 1.0 - inner)
    s = apply("sqrt", log(select(central, like(p, 0.01), tail)) * -2.0)
    inverse = 1.0 / s
    correction = select(
        s < 4.0,
        QUANTILE_NEAR(select(s < 4.0, s, like(s, 2.0)), precise),
        select(
            s < 10.0,
            QUANTILE_MIDDLE(select(s < 10.0, inverse, like(s, 0.2)), precise),
            QUANTILE_FAR(select(s < 10.0, like(s, 0.05), inverse), precise),
        ),
    )
    outer = fma(correction, inverse, s)
    result = select(central, middle, select(below, -outer, outer))
    edge = select(p.equals(0.0), like(p, -INF), select(p.equals(1.0), like(p, INF), like(p, NAN)))
    return select(inside, result, edge)


def negative_entropy_term(x: Scalar) -> Scalar:
    """-x log(x): 0 at 0, minus infinity below."""
    inner = select(x > 0.0, x, like(x, 1.0))
    term = -x * log(inner)
    return select(x > 0.0, term, select(x.equals(0.0), like(x, 0.0), select(x < 0.0, like(x, -INF), x)))


def times_log(x: Scalar, y: Scalar) -> Scalar:
    """x log(y), 0 where x is 0 and y is a number."""
    return _times(x, y, log)


def times_log1p(x: Scalar, y: Scalar) -> Scalar:
    """x log(1 + y), 0 where x is 0 and y is a number."""
    return _times(x, y, log1p)


def _times(x: Scalar, y: Scalar, logarithm: Callable[[Scalar], Scalar]) -> Scalar:
    return select(y.differs(y), y, select(x.equals(0.0), like(x, 0.0), x * logarithm(y)))


@in_float64
def log_of_sum(a: Scalar, b: Scalar, precise: bool) -> Scalar:
    """log(exp(a) + exp(b)) without overflow; in float64, since the two parts may nearly cancel."""
    del precise
    return _joined(a, b, exp, 1.0)


@in_float64
def log2_of_sum(a: Scalar, b: Scalar, precise: bool) -> Scalar:
    """log2(2^a + 2^b) without overflow; in float64, as `log_of_sum`."""
    del precise
    return _joined(a, b, exp2, 1.0 / math.log(2.0))


def _joined(a: Scalar, b: Scalar, grown: Callable[[Scalar], Scalar], scale: float) -> Scalar:
    large, small = select(a < b, b, a), select(a < b, a, b)
    same = a.equals(b) & magnitude(a).equals(INF)
    gap = select(same, like(a, 0.0), small - large)
    joined = fma(log1p(grown(gap)), like(a, scale), large)
    nan = a.differs(a) | b.differs(b)
    return select(nan, a + b, select(same, a, joined))


@in_float64
def sinc(x: Scalar, precise: bool) -> Scalar:
    """sin(pi x) / (pi x): 1 at 0, 0 at other whole numbers and at infinity."""
    nearest = apply("round_even", x)
    half = nearest * 0.5
    odd = apply("trunc", half).differs(half)
    r = x - nearest
    here = SINE_PI(r * r, precise) * (1.0 / math.pi)
    outside = magnitude(x) > 0.5
    ratio = select(outside, r / select(outside, x, like(x, 1.0)), like(x, 1.0))
    result = select(odd, -ratio, ratio) * here
    return select(magnitude(x) < INF, result, select(x.differs(x), x, like(x, 0.0)))
