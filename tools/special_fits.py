"""Writes `ops/math/special_tables.py`: polynomials of the special functions, by interpolation in 40 digits.

    python -m tools.special_fits            writes every table
    python -m tools.special_fits lgamma     prints those whose name starts so, with their errors

Each table approximates g on [low, high] at Chebyshev points, as a polynomial in t = scale * s + shift, which is in
[-1, 1]. The degree is the least whose error is below 2^-55 (wide, for float64) or 2^-32 (narrow, for float32 that is
computed in float64). Needs mpmath, which Rushlight itself does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp  # pyright: ignore[reportMissingTypeStubs,reportMissingImports]

mp.mp.dps = 40
Function = Callable[[Any], Any]
TARGET = Path(__file__).resolve().parent.parent / "src/rushlight/ops/math/special_tables.py"
WIDE, NARROW = mp.mpf(2) ** -55, mp.mpf(2) ** -32


def chebyshev(g: Function, low: Any, high: Any, count: int) -> list[Any]:
    """The coefficients of Chebyshev polynomials that take g's values at `count` Chebyshev points."""
    nodes = [mp.cos(mp.pi * (i + mp.mpf(1) / 2) / count) for i in range(count)]
    values = [g((low + high) / 2 + node * (high - low) / 2) for node in nodes]
    rows = [
        2 * mp.fsum(v * mp.cos(mp.pi * k * (i + mp.mpf(1) / 2) / count) for i, v in enumerate(values)) / count
        for k in range(count)
    ]
    return [rows[0] / 2, *rows[1:]]


def monomials(series: list[Any]) -> list[Any]:
    """A sum of Chebyshev polynomials by powers of t, lowest first."""
    before, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    total = [mp.mpf(0)] * len(series)
    for coefficient in series:
        for power, factor in enumerate(before):
            total[power] += coefficient * factor
        after = [mp.mpf(0), *[2 * factor for factor in current]]
        for power, factor in enumerate(before):
            after[power] -= factor
        before, current = current, after
    return total


def shortened(series: list[Any], bound: Any) -> list[Any]:
    """The leading coefficients: what is left out adds up to less than `bound` of the greatest."""
    scale = max(abs(c) for c in series)
    kept = len(series)
    while kept > 1 and mp.fsum(abs(c) for c in series[kept - 1 :]) < bound * scale:
        kept -= 1
    return series[:kept]


def lgamma_near(d: Any) -> Any:
    """lgamma(2 + d) / (d (1 + d))."""
    d = mp.mpf(d)
    if abs(d) < mp.mpf(10) ** -15:
        d += mp.mpf(10) ** -14
    if abs(d + 1) < mp.mpf(10) ** -15:
        d += mp.mpf(10) ** -14
    return mp.loggamma(2 + d) / (d * (1 + d))


def stirling(u: Any) -> Any:
    """z times what Stirling's formula leaves of lgamma(z), by u = 1/z^2."""
    z = 1 / mp.sqrt(u)
    with mp.workdps(60):
        return z * (mp.loggamma(z) - (z - mp.mpf(1) / 2) * mp.log(z) + z - mp.log(2 * mp.pi) / 2)


def digamma_rest(u: Any) -> Any:
    """z^2 (log(z) - 1/(2z) - digamma(z)) by u = 1/z^2."""
    z = 1 / mp.sqrt(u)
    with mp.workdps(60):
        return z * z * (mp.log(z) - 1 / (2 * z) - mp.digamma(z))


def digamma_near(s: Any) -> Any:
    """digamma(3/2 + s) over its distance from the positive zero."""
    x = mp.mpf(3) / 2 + s
    with mp.workdps(80):
        return mp.digamma(x) / (x - mp.findroot(mp.digamma, mp.mpf("1.46")))


def sine_pi(u: Any) -> Any:
    """sin(pi r) / r by u = r^2."""
    r = mp.sqrt(u)
    return mp.sin(mp.pi * r) / r


def cosine_pi(u: Any) -> Any:
    """cos(pi r) by u = r^2."""
    return mp.cos(mp.pi * mp.sqrt(u))


def inverse_error(w: Any) -> Any:
    """erfinv(x) / x by w = -log(1 - x^2)."""
    with mp.workdps(80):
        x = mp.sqrt(-mp.expm1(-w))
        return mp.erfinv(x) / x


def inverse_error_root(v: Any) -> Any:
    """erfinv(x) / x by v = sqrt(-log(1 - x^2))."""
    return inverse_error(v * v)


def normal_quantile(s: Any) -> Any:
    """The point above which the normal distribution has exp(-s^2/2), less s, times s."""
    logarithm = -s * s / 2
    x = s - mp.log(s * mp.sqrt(2 * mp.pi)) / s if s > 2 else mp.mpf(s) * mp.mpf("0.5")
    with mp.workdps(60):
        for _ in range(60):
            tail = mp.erfc(x / mp.sqrt(2)) / 2
            step = tail * (mp.log(tail) - logarithm) * mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)
            x += step
            if abs(step) < mp.mpf(10) ** -45:
                break
    return (x - s) * s


def quantile_far(u: Any) -> Any:
    """`normal_quantile` by u = 1/s."""
    return normal_quantile(1 / u)


def log_gap(d: Any) -> Any:
    """(d - log(1 + d)) / d^2."""
    d = mp.mpf(d)
    if abs(d) < mp.mpf(10) ** -3:
        return mp.fsum((-d) ** k / (k + 2) for k in range(30))
    return (d - mp.log1p(d)) / d**2


def hankel(order: int, u: Any) -> Any:
    """(P + iQ) of J + iY by u = (8/x)^2."""
    x = 8 / mp.sqrt(u)
    phase = x - mp.pi / 4 - order * mp.pi / 2
    return mp.sqrt(mp.pi * x / 2) * (mp.besselj(order, x) + 1j * mp.bessely(order, x)) * mp.exp(-1j * phase)


def quotient(g: Function) -> Function:
    """g of the root, divided by it."""
    return lambda u: g(mp.sqrt(u)) / mp.sqrt(u)


def bessel_y0_rest(x: Any) -> Any:
    """Y0 less its logarithm."""
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def bessel_y1_rest(x: Any) -> Any:
    """Y1 less its logarithm and its pole."""
    return mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)


def airy_positive(u: Any) -> Any:
    """Ai(x) exp(z) x^(1/4) by u = 1/z, z = 2/3 x^(3/2)."""
    z = 1 / u
    x = (3 * z / 2) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * mp.exp(z) * x ** (mp.mpf(1) / 4)


def airy_negative(u: Any) -> Any:
    """(P + iQ) of Ai(-x) = x^(-1/4) / sqrt(pi) (P cos(z - pi/4) - Q sin(z - pi/4)) by u = 1/z^2."""
    z = 1 / mp.sqrt(u)
    x = (3 * z / 2) ** (mp.mpf(2) / 3)
    value = mp.airyai(-x) - 1j * mp.airybi(-x)
    return value * mp.sqrt(mp.pi) * x ** (mp.mpf(1) / 4) * mp.exp(-1j * (z - mp.pi / 4))


half = mp.mpf(1) / 2
FITS: dict[str, tuple[Function, Any, Any]] = {
    "SINE_PI": (sine_pi, 0, mp.mpf(1) / 4),
    "LGAMMA_NEAR": (lgamma_near, -1, 1),
    "STIRLING": (stirling, 0, mp.mpf(1) / 64),
    "DIGAMMA_NEAR": (digamma_near, -half, half),
    "DIGAMMA": (digamma_rest, 0, mp.mpf(1) / 64),
    "ERFINV_NEAR": (inverse_error, 0, mp.mpf("6.25")),
    "ERFINV_MIDDLE": (inverse_error_root, mp.mpf("2.5"), 4),
    "ERFINV_FAR": (inverse_error_root, 4, mp.mpf("6.125")),
    "QUANTILE_NEAR": (normal_quantile, mp.mpf("1.625"), 4),
    "QUANTILE_MIDDLE": (quantile_far, mp.mpf("0.1"), mp.mpf("0.25")),
    "QUANTILE_FAR": (quantile_far, mp.mpf(1) / 39, mp.mpf("0.1")),
    "LOG_GAP": (log_gap, mp.mpf("-0.3125"), mp.mpf("0.3125")),
    "I0_NEAR": (lambda x: mp.besseli(0, x) * mp.exp(-x), 0, 8),
    "I0_FAR": (lambda u: mp.sqrt(8 / u) * mp.besseli(0, 8 / u) * mp.exp(-8 / u), 0, 1),
    "I1_NEAR": (lambda x: mp.besseli(1, x) * mp.exp(-x) / x, 0, 8),
    "I1_FAR": (lambda u: mp.sqrt(8 / u) * mp.besseli(1, 8 / u) * mp.exp(-8 / u), 0, 1),
    "I0_SMALL": (lambda u: mp.besseli(0, mp.sqrt(u)), 0, 4),
    "I1_SMALL": (lambda u: mp.besseli(1, mp.sqrt(u)) / mp.sqrt(u), 0, 4),
    "K0_NEAR": (lambda u: mp.besselk(0, mp.sqrt(u)) + mp.log(u) / 2 * mp.besseli(0, mp.sqrt(u)), 0, 4),
    "K0_FAR": (lambda u: mp.sqrt(2 / u) * mp.besselk(0, 2 / u) * mp.exp(2 / u), 0, 1),
    "K1_NEAR": (
        lambda u: (mp.besselk(1, mp.sqrt(u)) - mp.log(u) / 2 * mp.besseli(1, mp.sqrt(u))) * mp.sqrt(u),
        0,
        4,
    ),
    "K1_FAR": (lambda u: mp.sqrt(2 / u) * mp.besselk(1, 2 / u) * mp.exp(2 / u), 0, 1),
    "J0_NEAR": (lambda u: mp.besselj(0, mp.sqrt(u)), 0, 64),
    "J1_NEAR": (quotient(lambda x: mp.besselj(1, x)), 0, 64),
    "Y0_NEAR": (lambda u: bessel_y0_rest(mp.sqrt(u)), 0, 64),
    "Y1_NEAR": (quotient(bessel_y1_rest), 0, 64),
    "P0_FAR": (lambda u: hankel(0, u).real, 0, 1),
    "Q0_FAR": (quotient(lambda v: hankel(0, v * v).imag), 0, 1),
    "P1_FAR": (lambda u: hankel(1, u).real, 0, 1),
    "Q1_FAR": (quotient(lambda v: hankel(1, v * v).imag), 0, 1),
    "AIRY_NEAR": (mp.airyai, -5, mp.mpf("2.125")),
    "AIRY_POSITIVE": (airy_positive, 0, half),
    "AIRY_P": (lambda u: airy_negative(u).real, 0, mp.mpf("0.02")),
    "AIRY_Q": (quotient(lambda v: airy_negative(v * v).imag), 0, mp.mpf("0.02")),
}


def uniform_gamma(eta: Any, v: Any) -> Any:
    """S of Q(a, x) = erfc(eta sqrt(a/2))/2 + exp(-a eta^2/2) / sqrt(2 pi a) S, with v = 1/a."""
    a = 1 / v
    with mp.workdps(60):
        ratio = 1 + eta + eta * eta / 3
        for _ in range(60):
            step = (ratio - 1 - mp.log(ratio) - eta * eta / 2) / (1 - 1 / ratio)
            ratio -= step
            if abs(step) < mp.mpf(10) ** -50:
                break
        x = a * ratio
        # The smaller of the two parts, since the other is 1 up to what is asked for.
        tail = mp.erfc(abs(eta) * mp.sqrt(a / 2)) / 2
        if eta < 0:
            rest = tail - mp.gammainc(a, 0, x, regularized=True)
        else:
            rest = mp.gammainc(a, x, mp.inf, regularized=True) - tail
        return rest * mp.sqrt(2 * mp.pi * a) * mp.exp(a * eta * eta / 2)


ETA = (mp.mpf("-0.9"), mp.mpf("0.9"))
INVERSE_A = (mp.mpf(0), mp.mpf(1) / 20)


def uniform_table(bound: Any, counts: tuple[int, int]) -> list[list[float]]:
    """Rows by powers of 1/a, each a polynomial in eta, both scaled to [-1, 1]."""
    by_eta = [mp.cos(mp.pi * (i + half) / counts[0]) for i in range(counts[0])]
    middle, width = (ETA[0] + ETA[1]) / 2, (ETA[1] - ETA[0]) / 2
    columns = [chebyshev(lambda v, n=n: uniform_gamma(middle + width * n, v), *INVERSE_A, counts[1]) for n in by_eta]
    rows = []
    for power in range(counts[1]):
        values = [monomials(column)[power] for column in columns]
        series = [
            2 * mp.fsum(v * mp.cos(mp.pi * k * (i + half) / counts[0]) for i, v in enumerate(values)) / counts[0]
            for k in range(counts[0])
        ]
        series[0] /= 2
        while len(series) > 1 and abs(series[-1]) < bound / 4:
            series.pop()
        rows.append([float(c) for c in monomials(series)])
    while len(rows) > 1 and max(abs(c) for c in rows[-1]) < bound:
        rows.pop()
    return rows


def fitted(name: str) -> tuple[float, float, list[float], list[float]]:
    """Scale, shift and the wide and narrow coefficients of a table."""
    g, low, high = FITS[name]
    low, high = mp.mpf(low), mp.mpf(high)
    series = chebyshev(g, low, high, 44)
    wide, narrow = [[float(c) for c in monomials(shortened(series, bound))] for bound in (WIDE, NARROW)]
    return float(2 / (high - low)), float(-(high + low) / (high - low)), wide, narrow


def written(values: list[float]) -> str:
    """A tuple as the formatter writes it."""
    return "(" + "".join(f"\n        {value!r}," for value in values) + "\n    )"


def main(prefixes: list[str]) -> None:
    """Writes all tables, or prints the chosen ones."""
    lines = [
        "# generated by tools/special_fits.py: change that instead\n",
        '"""Polynomials of the special functions; `tools/special_fits.py` says what each approximates."""\n\n',
        "from rushlight.ops.math.fitted import Fitted\n",
    ]
    for name in FITS:
        if prefixes and not any(name.lower().startswith(prefix) for prefix in prefixes):
            continue
        scale, shift, wide, narrow = fitted(name)
        print(name, len(wide), len(narrow), flush=True)
        lines.append(
            f"\n{name} = Fitted(\n    {scale!r},\n    {shift!r},\n    {written(wide)},\n    {written(narrow)},\n)"
        )
    for name, bound, counts in (("WIDE", WIDE, (22, 9)), ("NARROW", NARROW, (12, 6))):
        if prefixes:
            break
        rows = uniform_table(bound, counts)
        print(name, [len(row) for row in rows], flush=True)
        body = "".join(["\n    (" + "".join(f"\n        {v!r}," for v in row) + "\n    )," for row in rows])
        lines.append(f"\nUNIFORM_{name}: tuple[tuple[float, ...], ...] = ({body}\n)")
    if not prefixes:
        TARGET.write_text("".join(lines[:3]) + "".join(lines[3:]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
