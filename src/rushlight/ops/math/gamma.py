"""The gamma function's logarithm, that function's derivatives, and Hurwitz's zeta function.

Arguments from 8 on take asymptotic series; smaller ones are moved by the recurrence to an interval of length 1 or 2 on
which a polynomial is exact in the zeros. What is not positive is reflected.
"""

from __future__ import annotations

import math
from fractions import Fraction

from rushlight.ir.scalar import Scalar, apply, fma, select
from rushlight.ops.math.core import INF, NAN, like, magnitude, polynomial
from rushlight.ops.math.fitted import in_float64
from rushlight.ops.math.logarithm import log
from rushlight.ops.math.power import power
from rushlight.ops.math.special_tables import DIGAMMA, DIGAMMA_NEAR, LGAMMA_NEAR, SINE_PI, STIRLING

# From here on the asymptotic series are precise to the last place.
_FAR = 8.0
_LOG_PI = 1.1447298858494002
_HALF_LOG_2PI = 0.9189385332046728
# The positive zero of digamma less 3/2, in two parts.
_DIGAMMA_ZERO = (-0.03836785503163766, -1.6445603550442201e-18)


def sine_of_half_turns(r: Scalar, precise: bool) -> Scalar:
    """sin(pi r) for |r| <= 1/2."""
    return r * SINE_PI(r * r, precise)


def from_nearest(x: Scalar) -> Scalar:
    """x less the integer nearest to it: exact."""
    return x - apply("round_even", x)


def tangent_inverse(r: Scalar, precise: bool) -> Scalar:
    """1 / tan(pi r) for |r| <= 1/2."""
    return sine_of_half_turns(0.5 - magnitude(r), precise) / sine_of_half_turns(r, precise)


def log_gamma_pair(t: Scalar, precise: bool) -> tuple[Scalar, Scalar]:
    """The logarithms of gamma at t >= 0, and at 1 + t where t < 1; both are precise at their zeros."""
    small, far = t < 1.0, t >= _FAR
    z, product = select(far, like(t, _FAR), t), like(t, 1.0)
    for _ in range(6):
        above = z >= 3.0
        z = select(above, z - 1.0, z)
        product = select(above, product * z, product)
    # d (1 + d) N(d) is the logarithm at 2 + d: with 2 + d = 1 + t where t < 1, else 2 + d = z.
    d, following = select(small, z - 1.0, z - 2.0), select(small, z, z - 1.0)
    near = d * following * LGAMMA_NEAR(d, precise)
    logarithm = log(select(small | far, t, product))
    inverse = 1.0 / select(far, t, like(t, _FAR))
    rest = fma(STIRLING(inverse * inverse, precise), inverse, like(t, _HALF_LOG_2PI - 0.5))
    beyond = select(t < INF, fma(t - 0.5, logarithm - 1.0, rest), t)
    here = select(far, beyond, select(small, near - logarithm, near + logarithm))
    return here, near


@in_float64
def lgamma(x: Scalar, precise: bool) -> Scalar:
    """The logarithm of the magnitude of the gamma function."""
    t = magnitude(x)
    positive, next_of_small = log_gamma_pair(t, precise)
    # gamma(x) gamma(1 - x) sin(pi x) = pi. The logarithm at 1 + |x| is that at |x| and one more: taken with the sine's.
    sine = sine_of_half_turns(from_nearest(t), precise)
    small = t < 1.0
    after = select(small, next_of_small, positive)
    reflected = (_LOG_PI - log(magnitude(sine) * select(small, like(t, 1.0), t))) - after
    pole = apply("trunc", x).equals(x)
    return select(x > 0.0, positive, select(x.differs(x), x, select(pole, like(x, INF), reflected)))


def _digamma_positive(y: Scalar, precise: bool) -> Scalar:
    small, far = y < 1.0, y >= _FAR
    z = select(far, like(y, _FAR), y)
    # The sum of 1/(y-1), 1/(y-2), ... as one quotient.
    above, below = like(y, 0.0), like(y, 1.0)
    for _ in range(6):
        moves = z >= 2.0
        z = select(moves, z - 1.0, z)
        above, below = select(moves, fma(above, z, below), above), select(moves, below * z, below)
    above, below = select(small, like(y, -1.0), above), select(small, y, below)
    s = select(small, z - 0.5, z - 1.5)
    near = ((s - _DIGAMMA_ZERO[0]) - _DIGAMMA_ZERO[1]) * DIGAMMA_NEAR(s, precise) + above / below
    inverse = 1.0 / select(far, y, like(y, _FAR))
    beyond = log(select(far, y, like(y, _FAR))) - inverse * fma(
        DIGAMMA(inverse * inverse, precise), inverse, like(y, 0.5)
    )
    return select(far, beyond, near)


@in_float64
def digamma(x: Scalar, precise: bool) -> Scalar:
    """The derivative of the logarithm of gamma: NaN at negative integers, infinite at 0 with the sign's opposite."""
    reflects = x <= 0.0
    positive = _digamma_positive(select(reflects, 1.0 - x, x), precise)
    r = from_nearest(x)
    reflected = positive - tangent_inverse(r, precise) * math.pi
    pole = apply("trunc", x).equals(x)
    reflected = select(pole, select(x.equals(0.0), -1.0 / x, like(x, NAN)), reflected)
    return select(reflects, reflected, positive)


def _bernoulli(count: int) -> list[Fraction]:
    """The first Bernoulli numbers."""
    numbers = [Fraction(1)]
    for n in range(1, count):
        numbers.append(-sum((math.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0)) / (n + 1))
    return numbers


# B_2j / (2j)!, j from 1: the weights of Euler's and Maclaurin's summation.
_TERMS = 12
_WEIGHTS = [float(number / math.factorial(2 * j)) for j, number in enumerate(_bernoulli(2 * _TERMS + 1)[::2]) if j]
_DIRECT = 10  # terms that are added one by one before the rest is summed by derivatives


def _whole_power(x: Scalar, exponent: int) -> Scalar:
    """x to a positive whole power by repeated squaring."""
    result: Scalar | None = None
    while True:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        if not exponent:
            break
        x = x * x
    assert result is not None
    return result


def _zeta_of_whole(s: int, x: Scalar) -> Scalar:
    """The sum of (x + k)^-s over k >= 0, for x > 0 and a whole s > 1."""
    end = x + float(_DIRECT)
    inverse = 1.0 / end
    rising, coefficients = float(s), [_WEIGHTS[0] * s]
    for j in range(1, _TERMS):
        rising *= float(s + 2 * j - 1) * float(s + 2 * j)
        coefficients.append(_WEIGHTS[j] * rising)
    rest = fma(polynomial(inverse * inverse, coefficients), inverse, like(x, 0.5)) + end * (1.0 / (s - 1))
    total = _whole_power(inverse, s) * rest
    for k in reversed(range(_DIRECT)):
        total = total + _whole_power(1.0 / (x + float(k)), s)
    return select(x < INF, total, 1.0 / x)


def _cotangent_derivative(n: int) -> list[int]:
    """The nth derivative of the cotangent as a polynomial in it, lowest degree first."""
    coefficients = [0, 1]
    for _ in range(n):
        slope = [degree * factor for degree, factor in enumerate(coefficients)][1:]
        coefficients = [0] * (len(slope) + 2)
        for degree, factor in enumerate(slope):
            coefficients[degree] -= factor
            coefficients[degree + 2] -= factor
    return coefficients


def polygamma(n: int, x: Scalar) -> Scalar:
    """The derivative of order n >= 0 of digamma."""
    if n == 0:
        return digamma(x)

    @in_float64
    def scalar(x: Scalar, precise: bool) -> Scalar:
        factorial = float(math.factorial(n)) if n <= 170 else INF
        reflects = x <= 0.0
        series = _zeta_of_whole(n + 1, select(reflects, 1.0 - x, x)) * factorial
        sign = 1.0 if n % 2 else -1.0
        slopes = [float(c) for c in _cotangent_derivative(n)] if n <= 60 else [0.0, sign * INF]
        cotangent = tangent_inverse(from_nearest(x), precise)
        # The polynomial is odd or even: by the square, with the cotangent in front where it is odd.
        odd = n % 2 == 0
        of_cotangent = polynomial(cotangent * cotangent, slopes[1::2] if odd else slopes[::2])
        of_cotangent = of_cotangent * cotangent if odd else of_cotangent
        reflected = -series - of_cotangent * math.pi ** min(n + 1, 600)
        pole = apply("trunc", x).equals(x)
        reflected = select(pole, like(x, sign * INF), reflected)
        return select(reflects, reflected, series * sign)

    return scalar(x)


@in_float64
def zeta(s: Scalar, q: Scalar, precise: bool) -> Scalar:
    """Hurwitz's zeta function: the sum of (q + k)^-s over k >= 0; 1 has a pole, less than 1 is NaN."""
    del precise
    inside = (s > 1.0) & (q > 0.0)
    base, exponent = select(inside & (q < INF), q, like(q, 1.0)), select(inside & (s < INF), -s, like(s, -2.0))
    end = base + float(_DIRECT)
    inverse = 1.0 / end
    square = inverse * inverse
    # w^-s (w/(s-1) + 1/2 + s/w (W1 + (s+1)(s+2)/w^2 (W2 + ...))), the innermost first.
    rest = like(s, _WEIGHTS[-1])
    for j in reversed(range(1, _TERMS)):
        rest = fma(rest * square, (2.0 * j - 1.0 - exponent) * (2.0 * j - exponent), like(s, _WEIGHTS[j - 1]))
    rest = end / (-exponent - 1.0) + (0.5 - exponent * inverse * rest)
    total = power(end, exponent) * rest
    for k in reversed(range(_DIRECT)):
        total = total + power(base + float(k), exponent)
    limit = select(q.equals(1.0), like(s, 1.0), select(q < 1.0, like(s, INF), like(s, 0.0)))
    total = select(inside, select((s < INF) & (q < INF), total, limit), like(s, NAN))
    whole = apply("floor", q).equals(q)
    total = select((q <= 0.0) & whole & (s > 1.0), like(s, INF), total)
    total = select(s.equals(1.0), like(s, INF), total)
    return select(s.differs(s) | q.differs(q), like(s, NAN), total)
