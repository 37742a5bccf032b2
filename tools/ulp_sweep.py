"""Measures the errors of `rushlight.ops.math_*` in units in the last place.

    python -m tools.ulp_sweep                   a table: 2^20 stratified values per function, float32 and float64
    python -m tools.ulp_sweep --all exp tanh    these float32 functions over all 2^32 values (minutes each)
    python -m tools.ulp_sweep --target x86-64-v3 ...

float32 is compared with numpy's float64, float64 with numpy's long double; both are some 2^10 times finer. atan2 and
pow, of two arguments, are sampled. Exits with 1 when a function is over its bound.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, float32, float64
from rushlight.ops.math import error_function, exponential, inverse_trigonometry, logarithm, power, trigonometry
from tools.scalar_driver import Compiled

Array = Any


@dataclass(frozen=True)
class Row:
    """A function, what it should be in wider arithmetic, and the error allowed."""

    name: str
    function: Callable[..., Any]
    oracle: Callable[..., Array]
    bound: float = 2.0
    operands: int = 1
    low: float = -math.inf
    high: float = math.inf


def series_erf(x: Array) -> Array:
    """erf for long doubles: a series of positive terms near 0, a continued fraction of its complement beyond 2."""
    t = np.minimum(np.abs(x), 12)
    term = t * 2 / np.sqrt(np.longdouble("3.14159265358979323846264338327950288")) * np.exp(-t * t)
    total = term.copy()
    for n in range(1, 260):
        term = term * (2 * t * t) / (2 * n + 1)
        total = total + term
    return np.where(np.isnan(x), x, np.copysign(np.where(t > 2, 1 - fraction_erfc(np.maximum(t, 1)), total), x))


def fraction_erfc(t: Array) -> Array:
    """erfc for long doubles of at least 1, by a continued fraction."""
    value = np.zeros_like(t)
    for n in range(300, 0, -1):
        value = np.longdouble(n) / 2 / (t + value)
    # t*t in two parts: its rounding error would be seen in the exponential.
    scale = np.longdouble(2.0**32 + 1)
    head = t * scale - (t * scale - t)
    rest = ((head * head - t * t) + 2 * head * (t - head)) + (t - head) ** 2
    root = np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))
    return np.exp(-t * t) * (1 - rest) / (root * (t + value))


def erf_oracle(x: Array) -> Array:
    """erf one step wider than the argument's own dtype."""
    if x.dtype == np.longdouble:
        return series_erf(x)
    return np.fromiter(map(math.erf, x.tolist()), np.float64, x.size)


def erfc_oracle(x: Array) -> Array:
    """erfc one step wider than the argument's own dtype."""
    if x.dtype == np.longdouble:
        far = fraction_erfc(np.clip(np.abs(x), 1, 110))
        small = np.abs(x) < 1
        return np.where(
            np.isnan(x), x, np.where(small, 1 - series_erf(np.where(small, x, 0)), np.where(x < 0, 2 - far, far))
        )
    return np.fromiter(map(math.erfc, x.tolist()), np.float64, x.size)


def sigmoid_oracle(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def normal_cdf_oracle(x: Array) -> Array:
    """The normal distribution function."""
    root = np.sqrt(np.asarray(2, x.dtype))
    return erfc_oracle(-x / root) / 2


ROWS = (
    Row("exp", exponential.exp, np.exp),
    Row("exp2", exponential.exp2, np.exp2),
    Row("expm1", exponential.expm1, np.expm1),
    Row("log", logarithm.log, np.log),
    Row("log2", logarithm.log2, np.log2),
    Row("log10", logarithm.log10, np.log10),
    Row("log1p", logarithm.log1p, np.log1p),
    Row("sin", trigonometry.sin, np.sin),
    Row("cos", trigonometry.cos, np.cos),
    Row("tan", trigonometry.tan, np.tan),
    Row("asin", inverse_trigonometry.asin, np.arcsin),
    Row("acos", inverse_trigonometry.acos, np.arccos),
    Row("atan", inverse_trigonometry.atan, np.arctan),
    Row("atan2", inverse_trigonometry.atan2, np.arctan2, operands=2),
    Row("sinh", exponential.sinh, np.sinh, 3.0),
    Row("cosh", exponential.cosh, np.cosh, 3.0),
    Row("tanh", exponential.tanh, np.tanh),
    Row("asinh", logarithm.asinh, np.arcsinh, 4.0),
    Row("acosh", logarithm.acosh, np.arccosh, 4.0),
    Row("atanh", logarithm.atanh, np.arctanh, 4.0),
    Row("sigmoid", exponential.sigmoid, sigmoid_oracle, 2.5),
    Row("erf", error_function.erf, erf_oracle),
    Row("erfc", error_function.erfc, erfc_oracle, 5.0),
    Row("normal_cdf", error_function.normal_cdf, normal_cdf_oracle, 4.0),
    Row("pow", power.power, np.power, operands=2),
)


def stratified(dtype: DType, count: int, rng: np.random.Generator) -> Array:
    """Values of every sign and exponent alike, denormals included, and the special ones."""
    bits = 32 if dtype is float32 else 64
    step = (1 << bits) // count
    places = np.arange(count, dtype=np.uint64) * np.uint64(step) + rng.integers(0, step, count, dtype=np.uint64)
    values = places.astype(np.uint32 if bits == 32 else np.uint64).view(dtype.numpy)
    tiny, largest = (2.0**-149, 2.0**127 * (2 - 2.0**-23)) if bits == 32 else (5e-324, sys.float_info.max)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, tiny, -tiny, largest, -largest]
    near = np.concatenate(
        [rng.uniform(-1, 1, count // 8), rng.uniform(-100, 100, count // 8), 1 + rng.uniform(-1, 1, count // 16) / 64]
    )
    return np.concatenate([values, near.astype(dtype.numpy), np.array(special, dtype.numpy)])


def errors_in_ulp(found: Array, exact: Array) -> Array:
    """The distance from the exact values, in steps of the dtype; infinite where NaN, infinity or sign of 0 differ."""
    dtype = found.dtype
    limits = np.finfo(dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        _, exponent = np.frexp(exact)
        scale = np.ldexp(np.ones_like(exact), np.maximum(exponent - 1, limits.minexp) - limits.nmant)
        distance = np.abs(found.astype(exact.dtype) - exact) / scale
        overflow = np.isinf(rounded) | np.isinf(found)
        top = np.abs(exact) >= limits.max
        distance = np.where(
            overflow, np.where((rounded == found) | (top & (np.abs(found) == limits.max)), 0, np.inf), distance
        )
        both_nan = np.isnan(found) & np.isnan(rounded)
        distance = np.where(np.isnan(found) != np.isnan(rounded), np.inf, np.where(both_nan, 0, distance))
        wrong_zero = (rounded == 0) & (found == 0) & (exact == 0) & (np.signbit(found) != np.signbit(exact))
    return np.where(wrong_zero, np.inf, distance).astype(np.float64)


def wider(dtype: DType) -> Any:
    """The numpy dtype in which results of `dtype` are judged."""
    return np.float64 if dtype is float32 else np.longdouble


def arguments(row: Row, dtype: DType, count: int, rng: np.random.Generator) -> list[Array]:
    """Stratified arguments of a function."""
    if row.operands == 1:
        return [stratified(dtype, count, rng)]
    first, second = stratified(dtype, count // 2, rng), stratified(dtype, count // 2, rng)
    if row.name == "pow":
        # Random exponents mostly overflow: half of the pairs have a result of ordinary size.
        base = np.abs(stratified(dtype, count // 2, rng))
        with np.errstate(all="ignore"):
            size = rng.uniform(-1, 1, base.size) * (150 if dtype is float32 else 1080)
            exponents = (size / np.log2(base.astype(np.longdouble))).astype(dtype.numpy)
        whole = np.arange(-64, 65, dtype=dtype.numpy).repeat(64)
        around = rng.uniform(-3, 3, whole.size).astype(dtype.numpy)
        first, second = (
            np.concatenate([first, base, around]),
            np.concatenate([rng.permutation(second), exponents, whole]),
        )
        return [first, second]
    return [first, rng.permutation(second)]


def worst(compiled: Compiled, row: Row, arrays: list[Array], dtype: DType) -> tuple[float, list[float]]:
    """The greatest error, and the arguments where it is."""
    found = compiled(*arrays)
    with np.errstate(all="ignore"):
        exact = row.oracle(*[array.astype(wider(dtype)) for array in arrays])
        # What is rounded correctly is off by half a step at most; only the rest is worth a closer look.
        bits = np.uint32 if dtype is float32 else np.uint64
        places = np.flatnonzero(found.view(bits) != exact.astype(found.dtype).view(bits))
    if not places.size:
        return 0.5, [float(array[0]) for array in arrays]
    errors = errors_in_ulp(found[places], np.asarray(exact)[places])
    worst_of = int(np.argmax(errors))
    return float(errors[worst_of]), [float(array[places[worst_of]]) for array in arrays]


def measure(row: Row, dtype: DType, count: int, target: str = "native", seed: int = 0) -> tuple[float, list[float]]:
    """The greatest error over stratified values."""
    lanes = 16 if dtype is float32 else 8
    compiled = Compiled(row.function, (dtype,) * row.operands, target, lanes)
    return worst(compiled, row, arguments(row, dtype, count, np.random.default_rng(seed)), dtype)


def every_float32(chunk: int = 1 << 22) -> Iterator[Array]:
    """All 2^32 bit patterns, in chunks."""
    for start in range(0, 1 << 32, chunk):
        yield np.arange(start, start + chunk, dtype=np.uint64).astype(np.uint32).view(np.float32)


def sweep(row: Row, target: str) -> tuple[float, list[float]]:
    """The greatest error over all float32 values."""
    compiled = Compiled(row.function, (float32,), target)
    result: tuple[float, list[float]] = (-1.0, [])
    for array in every_float32():
        result = max(result, worst(compiled, row, [array], float32))
    return result


def main(argv: list[str]) -> int:
    """Prints one line per function."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="all 2^32 float32 values")
    parser.add_argument("--target", default="native")
    parser.add_argument("--count", type=int, default=1 << 20)
    options = parser.parse_args(argv)
    over = 0
    for row in ROWS:
        if options.names and row.name not in options.names:
            continue
        if options.all and row.operands == 1:
            results = [("float32, all values", sweep(row, options.target))]
        else:
            results = [
                (
                    dtype.name,
                    measure(row, dtype, options.count if dtype is float32 else options.count // 8, options.target),
                )
                for dtype in (float32, float64)
            ]
        for what, (error, place) in results:
            over += error > row.bound
            mark = "  OVER" if error > row.bound else ""
            print(f"{row.name:12} {what:20} {error:8.4f} ulp at {', '.join(map(repr, place))}{mark}", flush=True)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
