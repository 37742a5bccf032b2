"""Rounding, extrema of pairs, bounds, and what replaces NaN and infinities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import DType, Kind
from rushlight.ir.interpret import maximum_array, minimum_array
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, constant, is_nan, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.math.core import INF, like
from rushlight.ops.pointwise.comparison import eq, isfinite, isnan, logical_and, logical_or
from rushlight.ops.pointwise.definition import (
    Array,
    At,
    binary,
    computed,
    lowered,
    sample_array,
    typed_result,
    unary,
    zero_gradient,
)
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import Fact, Gradients, Operator, Sample, define
from rushlight.support.errors import require

# Rounding: integers are their own.


def _rounding(name: str, doc: str, ref: Callable[..., Any], word: str) -> Operator:
    op = unary(
        name,
        doc,
        ref=lambda x: ref(x) if x.dtype.kind == "f" else x,
        scalar=lambda x: apply(word, x) if x.type.kind is Kind.FLOAT else x,
        domain="smooth",
    )

    @op.vjp
    def rounding_vjp(g: Value) -> Value | None:
        return zero_gradient(g)

    return op


floor = _rounding("floor", "The greatest integer not above.", np.floor, "floor")
ceil = _rounding("ceil", "The least integer not below.", np.ceil, "ceil")
trunc = _rounding("trunc", "The integer part.", np.trunc, "trunc")

frac = unary(
    "frac",
    "What truncation leaves, with the sign of input.",
    ref=lambda x: x - np.trunc(x),
    scalar=lambda x: x - apply("trunc", x),
    dtypes="float",
    domain="smooth",
)


@frac.vjp
def frac_vjp(g: Value) -> Value:
    return g


round_ = define(
    "round(Tensor input, *, int decimals=0) -> Tensor",
    "The nearest integer, halves to even; or the nearest multiple of 10^-decimals.",
    facts=Fact.POINTWISE,
    dtypes="real",
    variants="function method inplace out",
)


@round_.meta
def round_meta(input: TensorType, decimals: int) -> TensorType:
    result = typed_result(round_, [input])
    fits = decimals == 0 or result.dtype.kind is Kind.FLOAT
    require(fits, "D001", "round: decimals are for floating-point tensors", input=input)
    return result


def _power(decimals: int) -> float:
    """Return 10 to the power of the magnitude of `decimals`.

    It is infinite where float64 has no such number, so that the rounded value is NaN.
    """
    return 10.0 ** abs(decimals) if abs(decimals) <= 308 else INF


@round_.ref
def round_ref(input: ArrayLike, decimals: int) -> Array:
    def function(x: Array) -> Array:
        if x.dtype.kind != "f":
            return x
        if decimals == 0:
            return np.rint(x)
        power = x.dtype.type(_power(decimals))
        return np.rint(x * power) / power if decimals > 0 else np.rint(x / power) * power

    return computed(round_, function, [input])


@round_.lower
def round_lower(at: At, input: Operand, decimals: int) -> Scalar:
    def scalar(x: Scalar) -> Scalar:
        if x.type.kind is not Kind.FLOAT:
            return x
        power = like(x, _power(decimals))
        if decimals == 0:
            return apply("round_even", x)
        return apply("round_even", x * power) / power if decimals > 0 else apply("round_even", x / power) * power

    return lowered(round_, scalar, at, [input])


@round_.vjp
def round_vjp(g: Value) -> Value | None:
    return zero_gradient(g)


@round_.samples
def round_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = sample_array(rng, (3, 5), "smooth")
    yield Sample(x, domain="smooth")
    yield Sample(x * 10, decimals=1)
    yield Sample(x * 100, decimals=-1)


# Extrema of pairs.


def _halved_at_ties(g: Value, of: object, other: object, loses: Value) -> Value | None:
    """g, half of it where the operands tie, nothing where `of` loses."""
    if not isinstance(of, Value):
        return None
    return unbroadcast(where(loses, 0.0, where(eq(of, other), g * 0.5, g)), of)


def _pairwise(name: str, doc: str, ref: Callable[..., Any]) -> Operator:
    def scalar(a: Scalar, b: Scalar) -> Scalar:
        if a.type.kind is Kind.BOOL:
            return a | b if name == "maximum" else a & b
        return apply(name, a, b)

    return binary(name, doc, ref=ref, scalar=scalar)


maximum = _pairwise("maximum", "The larger of each pair; NaN if one is.", maximum_array)
minimum = _pairwise("minimum", "The smaller of each pair; NaN if one is.", minimum_array)


@maximum.vjp
def maximum_vjp(g: Value, input: Value, other: Value) -> Gradients:
    return (
        _halved_at_ties(g, input, other, input < other),
        _halved_at_ties(g, other, input, input > other),
    )


@minimum.vjp
def minimum_vjp(g: Value, input: Value, other: Value) -> Gradients:
    return (
        _halved_at_ties(g, input, other, input > other),
        _halved_at_ties(g, other, input, input < other),
    )


def _ignoring_nan(word: str) -> Callable[[Scalar, Scalar], Scalar]:
    def scalar(a: Scalar, b: Scalar) -> Scalar:
        if a.type.kind is Kind.BOOL:
            return a | b if word == "maximum" else a & b
        chosen = apply(word, a, b)
        if a.type.kind is not Kind.FLOAT:
            return chosen
        return select(is_nan(a), b, select(is_nan(b), a, chosen))

    return scalar


def _numbers(function: Callable[..., Array]) -> Callable[..., Array]:
    """The other operand where one is NaN."""
    return lambda a, b: np.where(a != a, b, np.where(b != b, a, function(a, b)))


fmax = binary(
    "fmax",
    "The larger of each pair; of a number and NaN the number.",
    ref=_numbers(maximum_array),
    scalar=_ignoring_nan("maximum"),
)
fmin = binary(
    "fmin",
    "The smaller of each pair; of a number and NaN the number.",
    ref=_numbers(minimum_array),
    scalar=_ignoring_nan("minimum"),
)


def _taken(g: Value, input: Value | float, other: Value | float, first: Value) -> Gradients:
    """The gradient to the operand that was taken; the first one at ties."""
    if isinstance(other, Value):
        first = logical_or(first, isnan(other))
    return (
        unbroadcast(where(first, g, 0.0), input) if isinstance(input, Value) else None,
        unbroadcast(where(first, 0.0, g), other) if isinstance(other, Value) else None,
    )


@fmax.vjp
def fmax_vjp(g: Value, input: Value, other: Value) -> Gradients:
    return _taken(g, input, other, input >= other)


@fmin.vjp
def fmin_vjp(g: Value, input: Value, other: Value) -> Gradients:
    return _taken(g, input, other, input <= other)


# Bounds.

clamp = define(
    "clamp(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor",
    "min(max(input, min), max): NaN stays, and max wins where the bounds cross.",
    facts=Fact.POINTWISE | Fact.FITTING,
    dtypes="real",
    variants="function method inplace out",
)


@clamp.meta
def clamp_meta(input: TensorType, min: TensorType | None, max: TensorType | None) -> TensorType:
    require(min is not None or max is not None, "A004", "clamp: at least one of min and max is needed", input=input)
    return typed_result(clamp, [input, min, max])


@clamp.ref
def clamp_ref(input: ArrayLike, min: ArrayLike | None, max: ArrayLike | None) -> Array:
    def function(x: Array, low: Array | None, high: Array | None) -> Array:
        x = x if low is None else maximum_array(x, low)
        return x if high is None else minimum_array(x, high)

    return computed(clamp, function, [input, min, max])


@clamp.lower
def clamp_lower(at: At, input: Operand, min: Operand | None, max: Operand | None) -> Scalar:
    def bounded(word: str, x: Scalar, bound: Scalar | None) -> Scalar:
        if bound is None:
            return x
        if x.type.kind is Kind.BOOL:
            return x | bound if word == "maximum" else x & bound
        return apply(word, x, bound)

    def scalar(x: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
        return bounded("minimum", bounded("maximum", x, low), high)

    return lowered(clamp, scalar, at, [input, min, max])


@clamp.vjp
def clamp_vjp(g: Value, input: Value, min: Value | None, max: Value | None) -> Gradients:
    inside: Value | None = None
    for bound, test in ((min, input.__ge__), (max, input.__le__)):
        if bound is not None:
            inside = test(bound) if inside is None else logical_and(inside, test(bound))
    by_min = by_max = None
    if isinstance(min, Value):
        below = input < min if max is None else logical_and(input < min, min < max)
        by_min = unbroadcast(where(below, g, 0.0), min)
    if isinstance(max, Value):
        above = input > max if min is None else logical_or(input > max, max < min)
        by_max = unbroadcast(where(above, g, 0.0), max)
    return unbroadcast(where(inside, g, 0.0), input), by_min, by_max


@clamp.samples
def clamp_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = sample_array(rng, (3, 5), "smooth")
    yield Sample(x, -0.5, 0.5, domain="smooth")
    yield Sample(x, min=0.0)
    yield Sample(x, max=1.0)
    yield Sample(x, sample_array(rng, (5,)), sample_array(rng, (3, 1)))
    yield Sample(x, max=sample_array(rng, (5,)))


clamp_min = binary(
    "clamp_min", "The larger of input and other.", ref=maximum_array, scalar=lambda a, b: apply("maximum", a, b)
)


@clamp_min.vjp
def clamp_min_vjp(g: Value, input: Value, other: Value) -> Gradients:
    by_bound = unbroadcast(where(input < other, g, 0.0), other) if isinstance(other, Value) else None
    return unbroadcast(where(input >= other, g, 0.0), input), by_bound


clamp_max = binary(
    "clamp_max", "The smaller of input and other.", ref=minimum_array, scalar=lambda a, b: apply("minimum", a, b)
)


@clamp_max.vjp
def clamp_max_vjp(g: Value, input: Value, other: Value) -> Gradients:
    by_bound = unbroadcast(where(input > other, g, 0.0), other) if isinstance(other, Value) else None
    return unbroadcast(where(input <= other, g, 0.0), input), by_bound


# Replacing NaN and infinities.

_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


def largest(dtype: DType) -> float:
    """The largest finite number of a float dtype."""
    return _LARGEST.get(dtype.name, 1.7976931348623157e308)


nan_to_num = define(
    "nan_to_num(Tensor input, float? nan=0.0, float? posinf=None, float? neginf=None) -> Tensor",
    "input with NaN and infinities replaced, the latter by the largest numbers unless others are given.",
    facts=Fact.POINTWISE,
    dtypes="real",
    variants="function method inplace out",
)


@nan_to_num.meta
def nan_to_num_meta(input: TensorType, nan: float | None, posinf: float | None, neginf: float | None) -> TensorType:
    return typed_result(nan_to_num, [input])


@nan_to_num.ref
def nan_to_num_ref(input: ArrayLike, nan: float | None, posinf: float | None, neginf: float | None) -> Array:
    x = np.asarray(input)
    if x.dtype.kind in "biu":
        return x.copy()
    limit = _LARGEST.get(x.dtype.name, float(np.finfo(np.float64).max))
    high = limit if posinf is None else posinf
    low = -limit if neginf is None else neginf
    replaced = np.where(x == np.inf, high, np.where(x == -np.inf, low, x))
    return np.where(np.isnan(x), nan or 0.0, replaced).astype(x.dtype)


@nan_to_num.lower
def nan_to_num_lower(at: At, input: Operand, nan: float | None, posinf: float | None, neginf: float | None) -> Scalar:
    limit = largest(input.dtype)

    def scalar(x: Scalar) -> Scalar:
        if x.type.kind is not Kind.FLOAT:
            return x
        high = like(x, limit if posinf is None else posinf)
        low = like(x, -limit if neginf is None else neginf)
        finite = select(x.equals(INF), high, select(x.equals(-INF), low, x))
        return select(is_nan(x), constant(nan or 0.0, x.type), finite)

    return lowered(nan_to_num, scalar, at, [input])


@nan_to_num.vjp
def nan_to_num_vjp(g: Value, input: Value) -> Value:
    return where(isfinite(input), g, 0.0)


@nan_to_num.samples
def nan_to_num_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)))
    yield Sample(sample_array(rng, (8,)), 1.0, 2.0, -3.0)
