"""Powers and lengths."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import Kind, complex128, float64
from rushlight.ir.graph import number_dtype
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, constant, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.math import complex_elementary as whole
from rushlight.ops.math import power
from rushlight.ops.math.complex_elementary import of_parts
from rushlight.ops.math.core import length
from rushlight.ops.pointwise.arithmetic import reciprocal, square
from rushlight.ops.pointwise.comparison import eq, logical_and
from rushlight.ops.pointwise.complex import conjugate, real_of
from rushlight.ops.pointwise.definition import (
    Array,
    At,
    binary,
    computed,
    lowered,
    samples_of_pairs,
    typed_result,
    unary,
    zero_gradient,
)
from rushlight.ops.pointwise.elementary import log, rsqrt, sqrt
from rushlight.ops.pointwise.selection import to_dtype, where
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import FAMILIES, Fact, Gradients, Operator, Sample, define


def _integer_power(x: Scalar, y: Scalar) -> Scalar:
    """Repeated squaring; negative exponents give 0 but for the bases 1 and -1, as in PyTorch."""
    one = constant(1, x.type)
    result, base = one, x
    for bit in range(x.type.bits - x.type.signed):
        result = select(((y >> bit) & 1).differs(0), result * base, result)
        base = base * base
    odd = (y & 1).differs(0)
    if not x.type.signed:
        return result
    minus = constant(-1, x.type)
    below = select(x.equals(1), one, select(x.equals(-1), select(odd, minus, one), constant(0, x.type)))
    return select(y < 0, below, result)


def _integer_power_array(x: Array, y: Array) -> Array:
    below = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0)) if x.dtype.kind == "i" else 0
    return np.where(y < 0, below, np.power(x, np.where(y < 0, 0, y)))


def _power_array(x: Array, y: Array) -> Array:
    return _integer_power_array(x, y) if x.dtype.kind in "iu" else np.power(x, y)


def _power(x: Scalar, y: Scalar) -> Scalar:
    if x.type.is_complex:
        return of_parts(whole.power, x, y)
    return power.power(x, y) if x.type.kind is Kind.FLOAT else _integer_power(x, y)


pow_ = define(
    "pow(Tensor input, Tensor exponent) -> Tensor",
    "input to the power exponent.",
    facts=Fact.POINTWISE | Fact.LEADING,
    dtypes="number",
    variants="function method inplace out",
    syntax="pow",
)


@pow_.meta
def pow_meta(input: TensorType, exponent: TensorType) -> TensorType:
    return typed_result(pow_, [input, exponent])


@pow_.ref
def pow_ref(input: ArrayLike, exponent: ArrayLike) -> Array:
    return computed(pow_, _power_array, [input, exponent])


@pow_.lower
def pow_lower(at: At, input: Operand, exponent: Operand) -> Scalar:
    return lowered(pow_, _power, at, [input, exponent])


@pow_.samples
def pow_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from samples_of_pairs(rng, "positive", "number")


cube = unary(
    "cube",
    "input * input * input.",
    ref=lambda x: x * x * x,
    scalar=lambda x: x * x * x,
    dtypes="number",
    variants="",
)


@cube.vjp
def cube_vjp(g: Value, input: Value) -> Value:
    return g * (conjugate(input * input) * 3)


# Powers that have an operator of their own, which costs less than `pow`.
_POWERS: dict[object, Operator] = {2: square, 3: cube, 0.5: sqrt, -0.5: rsqrt, -1: reciprocal}


def raised(input: Value | float, exponent: Value | float) -> Value:
    """input ** exponent, by a cheaper operator where a Python number has one in `_POWERS`."""
    special = _POWERS.get(exponent) if type(exponent) in (int, float) else None
    if special is None or not isinstance(input, Value) or input.dtype.kind not in FAMILIES["inexact"]:
        return pow_(input, exponent)
    return special(input)


@pow_.vjp
def pow_vjp(g: Value, input: Value, exponent: Value, out: Value) -> Gradients:
    by_base: Value | None = None
    if isinstance(input, Value):
        if isinstance(exponent, Value):
            slope = where(eq(exponent, 0), 0.0, exponent * pow_(input, exponent - 1))
        else:
            slope = raised(input, exponent - 1) * exponent if exponent != 0 else zero_gradient(input)
        by_base = unbroadcast(g * conjugate(slope), input)
    by_exponent: Value | None = None
    if isinstance(exponent, Value):
        if isinstance(input, Value):
            base_is_0 = logical_and(eq(input, 0), real_of(exponent) >= 0)
            base = input if input.dtype.is_complex or not out.dtype.is_complex else to_dtype(input, out.dtype)
            slope = where(base_is_0, 0.0, out * log(base))
        elif isinstance(input, complex) or exponent.dtype.is_complex:
            base = complex(input)
            slope = out * cmath.log(base) if base else where(real_of(exponent) >= 0, 0.0, math.nan)
        else:
            slope = out * math.log(input) if input > 0 else where(exponent >= 0, 0.0, math.nan)
        by_exponent = unbroadcast(g * conjugate(slope), exponent)
    return by_base, by_exponent


hypot = binary(
    "hypot",
    "sqrt(input^2 + other^2) without overflow on the way.",
    ref=np.hypot,
    scalar=length,
    dtypes="float",
    domain="nonzero",
)


@hypot.vjp
def hypot_vjp(g: Value, input: Value, other: Value, out: Value) -> Gradients:
    return unbroadcast(g * (input / out), input), unbroadcast(g * (other / out), other)


float_power = define(
    "float_power(Tensor input, Tensor exponent) -> Tensor",
    "input to the power exponent, computed in float64, or in complex128.",
    facts=Fact.POINTWISE | Fact.LEADING,
    variants="function method out",
)


@float_power.decompose
def float_power_decompose(input: Value, exponent: Value) -> Value:
    operands = input, exponent
    dtypes = [value.dtype if isinstance(value, Value) else number_dtype(value) for value in operands]
    wide = complex128 if any(dtype.is_complex for dtype in dtypes) else float64
    base, power = [
        to_dtype(value, wide) if isinstance(value, Value) else complex(value) if wide is complex128 else float(value)
        for value in operands
    ]
    return pow_(base, power)


@float_power.ref
def float_power_ref(input: ArrayLike, exponent: ArrayLike) -> Array:
    wide = np.result_type(np.asarray(input), np.asarray(exponent), np.float64)
    return np.asarray(np.power(np.asarray(input, wide), np.asarray(exponent, wide)))


@float_power.samples
def float_power_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from samples_of_pairs(rng, "positive")
