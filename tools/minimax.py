"""Derives the polynomial coefficients of `rushlight.ops.math_*`: Remez exchange in 60 digits.

    python tools/minimax.py            prints every table below with its error
    python tools/minimax.py exp log    prints those whose name starts so

Each row approximates g on [low, high] by a polynomial of degree n so that the error of `weight * polynomial` is least.
Coefficients come lowest degree first. After one is rounded to its dtype, those of higher degree are fitted anew, so
their rounding is absorbed where it can be. Needs mpmath, which Rushlight itself does not.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp  # pyright: ignore[reportMissingTypeStubs,reportMissingImports]
import numpy as np

mp.mp.dps = 60

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Fit:
    """What to approximate: g by a polynomial of `degree` in `argument(x)`, with error scale `weight`, for a dtype.

    `at_once` rounds all coefficients together, as it must be where the argument is 0 inside the interval and errors
    count there.
    """

    name: str
    g: Function
    low: Any
    high: Any
    degree: int
    weight: Function
    dtype: Any
    argument: Function = operator.pos
    at_once: bool = False


def solve(
    g: Function, weight: Function, points: list[Any], argument: Function, powers: list[int]
) -> tuple[list[Any], Any]:
    """The coefficients whose weighted errors at the points alternate with one magnitude, and that magnitude."""
    rows = mp.matrix(len(points), len(powers) + 1)
    right = mp.matrix(len(points), 1)
    for row, x in enumerate(points):
        t = argument(x)
        for column, power in enumerate(powers):
            rows[row, column] = t**power
        rows[row, len(powers)] = (-1) ** row / weight(x)
        right[row] = g(x)
    found = mp.lu_solve(rows, right)
    return [found[i] for i in range(len(powers))], found[len(powers)]


def remez(fit: Fit, fixed: list[Any]) -> tuple[list[Any], Any]:
    """The best coefficients after the `fixed` leading ones, and the greatest weighted error."""
    first = len(fixed)
    powers = list(range(fit.degree + 1 - first))

    def rest(x: Any) -> Any:
        t = fit.argument(x)
        return (fit.g(x) - mp.fsum(c * t**i for i, c in enumerate(fixed))) / t**first

    def weight(x: Any) -> Any:
        return fit.weight(x) * abs(fit.argument(x)) ** first

    count = len(powers) + 1
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    middle, half = (low + high) / 2, (high - low) / 2
    points = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    grid = [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / (24 * count)) for i in range(24 * count)]
    # A weight may vanish at 0, where an error that is there already (a rounded coefficient's) must not count.
    hole = 0 if fit.at_once else half / 50
    points = [x if abs(x) > hole else x + hole * 5 / 4 for x in points]
    grid = [x for x in grid if abs(x) > hole]
    candidates = [(x, rest(x), weight(x), fit.argument(x)) for x in grid]
    coefficients: list[Any] = []
    worst: Any = mp.mpf(0)
    for _ in range(400):
        coefficients, level = solve(rest, weight, points, fit.argument, powers)
        errors = [
            (w * (target - mp.fsum(c * t**p for c, p in zip(coefficients, powers, strict=True))), x)
            for x, target, w, t in candidates
        ]
        peak, place = max(errors, key=lambda item: abs(item[0]))
        worst = abs(peak)
        if worst < abs(level) * mp.mpf("1.01"):
            break
        points = exchanged(points, place, (peak > 0) == (level > 0))
    return coefficients, worst


def exchanged(points: list[Any], place: Any, positive: bool) -> list[Any]:
    """The reference points with `place` instead of one of them, so that signs still alternate.

    Points of even position have the sign of the level; `positive` says whether the error at `place` has it.
    """
    after = sum(x < place for x in points)
    if after == 0:
        return [place, *points[1:]] if positive else [place, *points[:-1]]
    if after == len(points):
        same = ((after - 1) % 2 == 0) == positive
        return [*points[:-1], place] if same else [*points[1:], place]
    taken = after - 1 if ((after - 1) % 2 == 0) == positive else after
    return sorted([*points[:taken], place, *points[taken + 1 :]])


def rounded(fit: Fit) -> tuple[list[float], Any]:
    """The coefficients in the fit's dtype, and the greatest weighted error that they leave."""
    fixed: list[float] = []
    while len(fixed) <= fit.degree:
        coefficients, _ = remez(fit, fixed)
        # float64: beyond the first few terms a rounding error cannot be seen in the result any more.
        many = len(coefficients) if fit.at_once or (fit.dtype is F64 and len(fixed) >= 3) else 1
        fixed += [float(fit.dtype(float(c))) for c in coefficients[:many]]
    grid = [fit.low + (fit.high - fit.low) * mp.mpf(i) / 4000 for i in range(1, 4000)]
    worst = max(
        abs(fit.weight(x) * (fit.g(x) - mp.fsum(c * fit.argument(x) ** i for i, c in enumerate(fixed)))) for x in grid
    )
    return fixed, worst


def one(x: Any) -> Any:
    """The weight of an absolute error."""
    return mp.mpf(1)


LN2 = mp.log(2)
SQRT2 = mp.sqrt(2)
F32, F64 = np.float32, np.float64


def guarded(g: Function, at_zero: Any) -> Function:
    """g with its limit at 0."""
    return lambda x: g(x) if abs(x) > mp.mpf(10) ** -15 else mp.mpf(at_zero)


def quotient(g: Function, order: int) -> Function:
    """g(x) / x**order, by series where cancellation would spoil it."""
    return lambda x: g(mp.mpf(x)) / mp.mpf(x) ** order


def square(x: Any) -> Any:
    """The argument of odd and even functions."""
    return x * x


def exp_tail(x: Any) -> Any:
    """(exp(x) - 1 - x) / x^2"""
    return mp.fsum(x**k / mp.factorial(k + 2) for k in range(30)) if abs(x) < 0.05 else (mp.exp(x) - 1 - x) / x**2


def log1p_tail(x: Any) -> Any:
    """(log(1+x) - x + x^2/2) / x^3"""
    if abs(x) < 0.001:
        return mp.fsum((-x) ** k / (k + 3) for k in range(20))
    return (mp.log(1 + x) - x + x**2 / 2) / x**3


def sin_tail(x: Any) -> Any:
    """(sin(x) - x) / x^3"""
    return mp.fsum((-1) ** (k + 1) * x ** (2 * k) / mp.factorial(2 * k + 3) for k in range(20))


def cos_tail(x: Any) -> Any:
    """(cos(x) - 1 + x^2/2) / x^4"""
    return mp.fsum((-1) ** k * x ** (2 * k) / mp.factorial(2 * k + 4) for k in range(20))


def atanh_tail(x: Any) -> Any:
    """(atanh(x) - x) / x^3"""
    return mp.fsum(x ** (2 * k) / (2 * k + 3) for k in range(60))


def atanh_tail_5(x: Any) -> Any:
    """(atanh(x) - x - x^3/3) / x^5"""
    return mp.fsum(x ** (2 * k) / (2 * k + 5) for k in range(60))


def exp2_tail(x: Any) -> Any:
    """(2^x - 1 - x log(2)) / x^2"""
    return mp.fsum(LN2 ** (k + 2) * x**k / mp.factorial(k + 2) for k in range(40))


def normal_centre(x: Any) -> Any:
    """(P(normal < x) - 1/2) / x"""
    return mp.erf(x / SQRT2) / (2 * x)


def below(x: Any) -> Any:
    """The weight of an error relative to P(normal < -x), for a polynomial that is multiplied by x."""
    return 2 * x / mp.erfc(x / SQRT2)


TAIL_CENTRE = 4


def normal_tail(t: Any) -> Any:
    """(t + centre) exp(t^2/2) times the probability that a normal variable exceeds t."""
    return (t + TAIL_CENTRE) * mp.exp(t * t / 2) * mp.erfc(t / SQRT2) / 2


def relative(g: Function) -> Function:
    """The weight of a relative error."""
    return lambda x: 1 / abs(g(x))


def tail_argument(t: Any) -> Any:
    """Maps t >= 0 to [-1, 1)."""
    return (t - TAIL_CENTRE) / (t + TAIL_CENTRE)


def atan_tail(x: Any) -> Any:
    """(atan(x) - x) / x^3"""
    if abs(x) < 0.05:
        return mp.fsum((-1) ** (k + 1) * x ** (2 * k) / (2 * k + 3) for k in range(40))
    return (mp.atan(x) - x) / x**3


def asin_tail(x: Any) -> Any:
    """(asin(x) - x) / x^3"""
    if abs(x) < 0.05:
        series = (mp.binomial(2 * k, k) / mp.mpf(4) ** k * x ** (2 * k - 2) / (2 * k + 1) for k in range(1, 30))
        return mp.fsum(series)
    return (mp.asin(x) - x) / x**3


def tanh_tail(x: Any) -> Any:
    """(tanh(x) - x) / x^3"""
    return (mp.tanh(x) - x) / x**3 if abs(x) > 1e-6 else -mp.mpf(1) / 3


def erf_tail(x: Any) -> Any:
    """erf(x) / x - 1"""
    return mp.erf(x) / x - 1


FITS = (
    Fit("exp_f32", exp_tail, -LN2 / 2, LN2 / 2, 4, lambda x: x * x, F32),
    Fit("exp_f64", exp_tail, -LN2 / 2, LN2 / 2, 9, lambda x: x * x, F64),
    Fit("expm1_f32", exp_tail, -LN2 / 2, LN2 / 2, 4, lambda x: abs(x), F32),
    Fit("expm1_f64", exp_tail, -LN2 / 2, LN2 / 2, 10, lambda x: abs(x), F64),
    Fit("log1p_f32", log1p_tail, -mp.mpf(1) / 3, mp.mpf(1) / 3, 7, lambda x: x * x, F32),
    Fit("atanh_f64", atanh_tail, mp.mpf("1e-9"), mp.mpf("0.2"), 7, lambda x: x * x, F64, square),
    Fit("sin_f32", sin_tail, mp.mpf("1e-9"), mp.pi / 4, 2, lambda x: x * x, F32, square),
    Fit("cos_f32", cos_tail, mp.mpf("1e-9"), mp.pi / 4, 2, lambda x: x**4, F32, square),
    Fit("sin_f64", sin_tail, mp.mpf("1e-9"), mp.pi / 4, 6, lambda x: x * x, F64, square),
    Fit("cos_f64", cos_tail, mp.mpf("1e-9"), mp.pi / 4, 6, lambda x: x**4, F64, square),
    Fit("atan_f32", atan_tail, mp.mpf("1e-9"), mp.mpf(1), 8, lambda x: x * x, F32, square),
    Fit("atan_f64", atan_tail, mp.mpf("1e-9"), mp.mpf(1), 19, lambda x: x * x, F64, square),
    Fit("asin_f32", asin_tail, mp.mpf("1e-9"), mp.mpf("0.5"), 4, lambda x: x * x, F32, square),
    Fit("asin_f64", asin_tail, mp.mpf("1e-9"), mp.mpf("0.5"), 12, lambda x: x * x, F64, square),
    Fit("tanh_f64", tanh_tail, mp.mpf("1e-9"), mp.mpf("0.625"), 12, lambda x: x * x, F64, square),
    Fit("erf_f32", erf_tail, mp.mpf("1e-9"), mp.mpf(1), 6, one, F32, square),
    Fit("erf_f64", erf_tail, mp.mpf("1e-9"), mp.mpf(1), 12, one, F64, square),
    Fit("centre_f32", normal_centre, mp.mpf("1e-9"), mp.mpf("1.25"), 6, below, F32, square),
    Fit("centre_f64", normal_centre, mp.mpf("1e-9"), mp.mpf("1.25"), 12, below, F64, square),
    Fit(
        "tail_f32", normal_tail, mp.mpf(0), mp.mpf("14.5"), 10, relative(normal_tail), F32, tail_argument, at_once=True
    ),
    Fit(
        "tail_f64", normal_tail, mp.mpf(0), mp.mpf("38.7"), 22, relative(normal_tail), F64, tail_argument, at_once=True
    ),
    Fit("exp2_f32", exp2_tail, -mp.mpf("0.5"), mp.mpf("0.5"), 4, lambda x: x * x, F32),
    Fit("exp2_f64", exp2_tail, -mp.mpf("0.5"), mp.mpf("0.5"), 9, lambda x: x * x, F64),
    Fit("exp2_for_f32", exp2_tail, -mp.mpf("0.5"), mp.mpf("0.5"), 5, lambda x: x * x, F64),
    Fit("atanh5_f64", atanh_tail_5, mp.mpf("1e-9"), mp.mpf("0.2"), 7, lambda x: x**4, F64, square),
    Fit("atanh_for_f32", atanh_tail, mp.mpf("1e-9"), mp.mpf("0.2"), 5, lambda x: x * x, F64, square),
    Fit("tanh_f32", tanh_tail, mp.mpf("1e-9"), mp.mpf("0.625"), 4, lambda x: x * x, F32, square),
)


def main(prefixes: list[str]) -> None:
    """Prints the chosen tables."""
    for fit in FITS:
        if prefixes and not any(fit.name.startswith(prefix) for prefix in prefixes):
            continue
        coefficients, worst = rounded(fit)
        print(f"{fit.name.upper()} = (  # error 2^{float(mp.log(worst, 2)):.1f}")
        for value in coefficients:
            print(f"    {fit.dtype(value)!s},")
        print(")")


if __name__ == "__main__":
    main(sys.argv[1:])
