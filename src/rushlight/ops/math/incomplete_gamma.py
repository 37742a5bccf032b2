"""The regularised incomplete gamma functions P and Q: the smaller is computed, the other is 1 less that.

Four ways, by where (a, x) lies: Temme's uniform expansion for a >= 20 around x = a; a power series of P left of x = a;
a continued fraction of Q right of it; and for a < 1, x < 2 a series of Q that keeps its digits as a goes to 0. Series
and fraction are evaluated from the last term that counts to the first, as one quotient, in as many steps for all.
"""

from __future__ import annotations

from rushlight.ir.scalar import Scalar, apply, fma, guard, select
from rushlight.ops.math.core import INF, NAN, like, polynomial
from rushlight.ops.math.error_function import scaled_tail
from rushlight.ops.math.exponential import exp, expm1
from rushlight.ops.math.fitted import in_float64, surface
from rushlight.ops.math.gamma import log_gamma_pair
from rushlight.ops.math.logarithm import log
from rushlight.ops.math.special_tables import LOG_GAP, STIRLING, UNIFORM_NARROW, UNIFORM_WIDE
from rushlight.support.frozen import frozen

# Steps of the series, of the fraction and of the series for small a: for float64 and for float32. The first two were
# measured on a <= 20, x around a + 2, where they are needed most: errors below 2^-53 and 2^-30.
_SERIES, _FRACTION, _SMALL = (54, 34), (50, 30), (30, 18)
_UNIFORM_FROM = 20.0
_UNIFORM_GAP = 0.405  # 0.9^2 / 2: the tables are for |eta| <= 0.9
_STIRLING_FROM = 8.0
_TWO_PI = 6.283185307179586
# exp(-s) by s, for the 0 <= s <= 1/96 of Stirling's formula.
_EXP_SMALL = (1.0, -1.0, 1 / 2, -1 / 6, 1 / 24, -1 / 120, 1 / 720, -1 / 5040)


def _series(a: Scalar, x: Scalar, steps: int) -> Scalar:
    """1 + x/(a+1) (1 + x/(a+2) (1 + ...)), for an x that is not far above a."""
    scale = 1.0 / (a + float(steps))
    above = below = like(a, 1.0)
    y = x * scale
    for k in range(steps, 0, -1):
        below = below * ((a + float(k)) * scale)
        above = fma(y, above, below)
    return above / below


def _fraction(a: Scalar, x: Scalar, steps: int) -> Scalar:
    """x + 1 - a + (a-1)/(x + 3 - a + 2(a-2)/(x + 5 - a + ...)), for an x well above a."""
    base = x - a
    scale = 1.0 / (base + float(2 * steps + 1))
    above, below = like(a, 1.0), scale
    for k in range(steps, 0, -1):
        # With the scale's powers taken out of both, nothing overflows.
        partial = (base + float(2 * k - 1)) * scale
        above, below = fma(partial, above, (a - float(k)) * float(k) * scale * below), above * scale
    return above / below


def _small_sum(a: Scalar, x: Scalar, steps: int) -> Scalar:
    """The sum of (-x)^(n-1) / (n! (a+n)) over n >= 1."""
    above, below = like(a, 1.0), a + float(steps)
    for n in range(steps - 1, 0, -1):
        shifted = a + float(n)
        above, below = fma(x * (-1.0 / (n + 1)) * shifted, above, below), below * shifted
    return above / below


@frozen
class Parts:
    """One of P and Q as `value`, and which."""

    value: Scalar
    is_upper: Scalar


@frozen
class _Region:
    """What the ways share: (a, x), brought to where none overflows, and the exponential factors."""

    a: Scalar
    x: Scalar
    uniform: Scalar
    gap: Scalar
    # exp(-a gap), and x^a exp(-x) / gamma(1 + a)
    bell: Scalar
    factor: Scalar
    # log(x) and the logarithm of gamma at 1 + a, where a < 8
    logarithm: Scalar
    log_gamma: Scalar


def _region(a: Scalar, x: Scalar, precise: bool) -> _Region:
    far = a >= _STIRLING_FROM
    ratio = x / a
    logarithm = log(select(far, ratio, x))
    d = (x - a) / a
    near = (d > -0.3125) & (d < 0.3125)
    gap = select(near, d * d * LOG_GAP(select(near, d, like(d, 0.0)), precise), d - logarithm)
    here, after = log_gamma_pair(select(far, like(a, _STIRLING_FROM), a), precise)
    small = a < 1.0
    log_gamma = select(small, after, here + log(select(small | far, like(a, 1.0), a)))
    exponent = select(far, -a * gap, fma(a, logarithm, -x) - log_gamma)
    bell = exp(exponent)
    inverse = 1.0 / select(far, a, like(a, _STIRLING_FROM))
    left = polynomial(STIRLING(inverse * inverse, precise) * inverse, _EXP_SMALL)
    factor = select(far, bell * left * apply("sqrt", inverse * (1.0 / _TWO_PI)), bell)
    uniform = (a >= _UNIFORM_FROM) & (gap <= _UNIFORM_GAP)
    return _Region(a, x, uniform, gap, bell, factor, logarithm, log_gamma)


def _uniform(region: _Region, precise: bool) -> Scalar:
    """Temme's expansion: a normal tail by eta, eta^2/2 = x/a - 1 - log(x/a), and a correction. P below a, else Q."""
    a, below = region.a, region.x < region.a
    gap = select(region.uniform, region.gap, like(a, 0.0))
    size = apply("sqrt", gap * 2.0)
    eta = select(below, -size, size)
    inverse = 1.0 / select(region.uniform, a, like(a, _UNIFORM_FROM))
    rows = UNIFORM_WIDE if precise else UNIFORM_NARROW
    correction = surface(eta * (1.0 / 0.9), inverse * 40.0 - 1.0, rows)
    correction = correction * apply("sqrt", inverse * (1.0 / _TWO_PI))
    tail = scaled_tail(apply("sqrt", a * (gap * 2.0)))
    return region.bell * (tail + select(below, -correction, correction))


def _parts(a: Scalar, x: Scalar, precise: bool) -> tuple[_Region, Parts]:
    """P or Q inside the domain, whichever is not close to 1."""
    valid = (a > 0.0) & (x > 0.0) & (a < INF) & (x < INF)
    a, x = select(valid, a, like(a, 1.0)), select(valid, x, like(x, 1.0))
    region = _region(a, x, precise)
    start = select(a < 1.0, like(a, 2.0), a + 2.0)
    by_fraction = (x >= start) & ~region.uniform
    by_series = (x < start) & ~region.uniform
    row = 0 if precise else 1
    # Each way is computed where some element of a vector needs it; elsewhere its operands are harmless.
    zero = like(a, 0.0)
    wide, high = select(by_fraction, a, like(a, 1.0)), select(by_fraction, x, like(x, 4.0))
    fraction = guard(by_fraction, region.factor * a / _fraction(wide, high, _FRACTION[row]), zero)
    narrow, low = select(by_series, a, like(a, 1.0)), select(by_series, x, like(x, 1.0))
    series = guard(by_series, region.factor * _series(narrow, low, _SERIES[row]), zero)
    uniform = guard(region.uniform, _uniform(region, precise), zero)
    value = select(region.uniform, uniform, select(by_fraction, fraction, series))
    return region, Parts(value, by_fraction | (region.uniform & (x >= a)))


def _with_limits(a: Scalar, x: Scalar, value: Scalar, empty: float) -> Scalar:
    """The value, or what holds outside the open quadrant: `empty` at x = 0 and infinite a, NaN for what is negative."""
    full = like(a, 1.0 - empty)
    value = select(
        a.equals(INF), select(x.equals(INF), like(a, NAN), like(a, empty)), select(x.equals(INF), full, value)
    )
    value = select(x.equals(0.0), like(a, empty), value)
    value = select(a.equals(0.0), select(x > 0.0, full, like(a, NAN)), value)
    return select((a >= 0.0) & (x >= 0.0), value, like(a, NAN))


@in_float64
def lower(a: Scalar, x: Scalar, precise: bool) -> Scalar:
    """P(a, x)."""
    _, parts = _parts(a, x, precise)
    return _with_limits(a, x, select(parts.is_upper, 1.0 - parts.value, parts.value), 0.0)


@in_float64
def upper(a: Scalar, x: Scalar, precise: bool) -> Scalar:
    """Q(a, x)."""
    region, parts = _parts(a, x, precise)
    small = (region.a < 1.0) & (region.x < 2.0)
    base, point = select(small, region.a, like(a, 0.5)), select(small, region.x, like(x, 1.0))
    power = expm1(select(small, fma(region.a, region.logarithm, -region.log_gamma), like(a, 0.0)))
    rest = base * point * _small_sum(base, point, _SMALL[0 if precise else 1])
    near = fma(power + 1.0, rest, -power)
    value = select(parts.is_upper, parts.value, 1.0 - parts.value)
    return _with_limits(a, x, select(small, near, value), 1.0)
