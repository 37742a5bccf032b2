"""Elementary functions: roots, exponentials, logarithms, trigonometry, the error function, powers.

Integers and bools become the default float. Each has a scalar expansion of our own in `math_*`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import Kind, float64
from rushlight.ir.graph import number_dtype
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, constant, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import convert, widened
from rushlight.ops.math import error_function, exponential, inverse_trigonometry, logarithm, power, trigonometry
from rushlight.ops.math.core import length, like
from rushlight.ops.pointwise.arithmetic import reciprocal, square
from rushlight.ops.pointwise.comparison import eq, logical_and
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.definition import (
    FLOAT,
    Array,
    At,
    binary,
    check_dtype,
    computed,
    lowered,
    sample_array,
    samples_of_pairs,
    typed_result,
    unary,
    zeros_of,
)
from rushlight.ops.pointwise.selection import to_dtype, where
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import Fact, Gradients, Operator, Sample, define

# Roots.

sqrt = unary("sqrt", "Square root.", ref=np.sqrt, scalar=lambda x: apply("sqrt", x), result=FLOAT, domain="positive")


@sqrt.vjp
def sqrt_vjp(g: Value, out: Value) -> Value:
    return g / (out * 2)


rsqrt = unary(
    "rsqrt",
    "1 / sqrt(input).",
    ref=lambda x: 1 / np.sqrt(x),
    scalar=lambda x: like(x, 1.0) / apply("sqrt", x),
    result=FLOAT,
    domain="positive",
)


@rsqrt.vjp
def rsqrt_vjp(g: Value, out: Value) -> Value:
    return g * (out * out * out * -0.5)


# Exponentials and logarithms.

exp = unary("exp", "e to the power input.", ref=np.exp, scalar=exponential.exp, result=FLOAT)


@exp.vjp
def exp_vjp(g: Value, out: Value) -> Value:
    return g * out


exp2 = unary("exp2", "2 to the power input.", ref=np.exp2, scalar=exponential.exp2, result=FLOAT)


@exp2.vjp
def exp2_vjp(g: Value, out: Value) -> Value:
    return g * (out * math.log(2.0))


expm1 = unary("expm1", "exp(input) - 1, precise near 0.", ref=np.expm1, scalar=exponential.expm1, result=FLOAT)


@expm1.vjp
def expm1_vjp(g: Value, out: Value) -> Value:
    return g * (out + 1)


log = unary(
    "log",
    "Natural logarithm.",
    ref=np.log,
    scalar=logarithm.log,
    result=FLOAT,
    domain="positive",
)


@log.vjp
def log_vjp(g: Value, input: Value) -> Value:
    return g / input


log2 = unary(
    "log2",
    "Logarithm to base 2.",
    ref=np.log2,
    scalar=logarithm.log2,
    result=FLOAT,
    domain="positive",
)


@log2.vjp
def log2_vjp(g: Value, input: Value) -> Value:
    return g / (input * math.log(2.0))


log10 = unary(
    "log10",
    "Logarithm to base 10.",
    ref=np.log10,
    scalar=logarithm.log10,
    result=FLOAT,
    domain="positive",
)


@log10.vjp
def log10_vjp(g: Value, input: Value) -> Value:
    return g / (input * math.log(10.0))


log1p = unary(
    "log1p",
    "log(1 + input), precise near 0.",
    ref=np.log1p,
    scalar=logarithm.log1p,
    result=FLOAT,
    domain="positive",
)


@log1p.vjp
def log1p_vjp(g: Value, input: Value) -> Value:
    return g / (input + 1)


# Trigonometry.

sin = unary("sin", "Sine of an angle in radians.", ref=np.sin, scalar=trigonometry.sin, result=FLOAT)


@sin.vjp
def sin_vjp(g: Value, input: Value) -> Value:
    return g * cos(input)


cos = unary("cos", "Cosine of an angle in radians.", ref=np.cos, scalar=trigonometry.cos, result=FLOAT)


@cos.vjp
def cos_vjp(g: Value, input: Value) -> Value:
    return -g * sin(input)


tan = unary("tan", "Tangent of an angle in radians.", ref=np.tan, scalar=trigonometry.tan, result=FLOAT, domain="unit")


@tan.vjp
def tan_vjp(g: Value, out: Value) -> Value:
    return g * (out * out + 1)


asin = unary("asin", "Arc sine.", ref=np.arcsin, scalar=inverse_trigonometry.asin, result=FLOAT, domain="unit")


@asin.vjp
def asin_vjp(g: Value, input: Value) -> Value:
    return g * rsqrt(1 - input * input)


acos = unary("acos", "Arc cosine.", ref=np.arccos, scalar=inverse_trigonometry.acos, result=FLOAT, domain="unit")


@acos.vjp
def acos_vjp(g: Value, input: Value) -> Value:
    return -g * rsqrt(1 - input * input)


atan = unary("atan", "Arc tangent.", ref=np.arctan, scalar=inverse_trigonometry.atan, result=FLOAT)


@atan.vjp
def atan_vjp(g: Value, input: Value) -> Value:
    return g / (input * input + 1)


atan2 = binary(
    "atan2",
    "The angle of the point (other, input).",
    ref=np.arctan2,
    scalar=inverse_trigonometry.atan2,
    result=FLOAT,
    domain="nonzero",
)


@atan2.vjp
def atan2_vjp(g: Value, input: Value, other: Value) -> Gradients:
    scale = g / (input * input + other * other)
    return unbroadcast(scale * other, input), unbroadcast(-scale * input, other)


sinh = unary("sinh", "Hyperbolic sine.", ref=np.sinh, scalar=exponential.sinh, result=FLOAT)


@sinh.vjp
def sinh_vjp(g: Value, input: Value) -> Value:
    return g * cosh(input)


cosh = unary("cosh", "Hyperbolic cosine.", ref=np.cosh, scalar=exponential.cosh, result=FLOAT)


@cosh.vjp
def cosh_vjp(g: Value, input: Value) -> Value:
    return g * sinh(input)


tanh = unary("tanh", "Hyperbolic tangent.", ref=np.tanh, scalar=exponential.tanh, result=FLOAT)


@tanh.vjp
def tanh_vjp(g: Value, out: Value) -> Value:
    out = widened(out)
    return convert(widened(g) * (1 - out * out), g.dtype)


asinh = unary("asinh", "Inverse hyperbolic sine.", ref=np.arcsinh, scalar=logarithm.asinh, result=FLOAT)


@asinh.vjp
def asinh_vjp(g: Value, input: Value) -> Value:
    return g * rsqrt(input * input + 1)


acosh = unary(
    "acosh",
    "Inverse hyperbolic cosine.",
    ref=np.arccosh,
    scalar=logarithm.acosh,
    result=FLOAT,
    domain="above_one",
)


@acosh.vjp
def acosh_vjp(g: Value, input: Value) -> Value:
    return g * rsqrt(input * input - 1)


atanh = unary(
    "atanh", "Inverse hyperbolic tangent.", ref=np.arctanh, scalar=logarithm.atanh, result=FLOAT, domain="unit"
)


@atanh.vjp
def atanh_vjp(g: Value, input: Value) -> Value:
    return g / (1 - input * input)


# The error function and the logistic one.

_erf_array = np.vectorize(math.erf, otypes=[np.float64])
_erfc_array = np.vectorize(math.erfc, otypes=[np.float64])
_TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)
_INVERSE_ROOT_2PI = 1.0 / math.sqrt(2.0 * math.pi)

erf = unary("erf", "Error function.", ref=_erf_array, scalar=error_function.erf, result=FLOAT)


@erf.vjp
def erf_vjp(g: Value, input: Value) -> Value:
    return g * (exp(-(input * input)) * _TWO_OVER_ROOT_PI)


erfc = unary(
    "erfc", "1 - erf(input), precise where it is small.", ref=_erfc_array, scalar=error_function.erfc, result=FLOAT
)


@erfc.vjp
def erfc_vjp(g: Value, input: Value) -> Value:
    return g * (exp(-(input * input)) * -_TWO_OVER_ROOT_PI)


def normal_cdf_array(x: Array) -> Array:
    """The chance that a normal variable is below each element of a float array."""
    return _erfc_array(-x.astype(np.float64) / math.sqrt(2.0)) / 2


ndtr = unary(
    "special_ndtr",
    "The chance that a normal variable is below input.",
    ref=normal_cdf_array,
    scalar=error_function.normal_cdf,
    result=FLOAT,
    variants="function out",
)


@ndtr.vjp
def ndtr_vjp(g: Value, input: Value) -> Value:
    return g * normal_density(input)


def normal_density(x: Value) -> Value:
    """The density of the normal distribution."""
    return exp(x * x * -0.5) * _INVERSE_ROOT_2PI


def sigmoid_array(x: Array) -> Array:
    """The logistic function of a float array."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


sigmoid = unary("sigmoid", "1 / (1 + exp(-input)).", ref=sigmoid_array, scalar=exponential.sigmoid, result=FLOAT)


@sigmoid.vjp
def sigmoid_vjp(g: Value, out: Value) -> Value:
    out = widened(out)
    return convert(widened(g) * (out * (1 - out)), g.dtype)


logit = define(
    "logit(Tensor input, float? eps=None) -> Tensor",
    "log(input / (1 - input)), with input first brought into [eps, 1 - eps].",
    facts=Fact.POINTWISE,
    dtypes="real",
    variants="function method inplace out",
)


@logit.meta
def logit_meta(input: TensorType, eps: float | None) -> TensorType:
    return typed_result(logit, [input], FLOAT)


@logit.ref
def logit_ref(input: ArrayLike, eps: float | None) -> Array:
    def function(x: Array) -> Array:
        x = x if eps is None else np.clip(x, x.dtype.type(eps), 1 - x.dtype.type(eps))
        return np.log(x / (1 - x))

    return computed(logit, function, [input], FLOAT)


@logit.lower
def logit_lower(at: At, input: Operand, eps: float | None) -> Scalar:
    def scalar(x: Scalar) -> Scalar:
        if eps is not None:
            low = like(x, eps)
            high = like(x, 1.0) - low
            x = select(x < low, low, select(x > high, high, x))
        return logarithm.log(x / (1.0 - x))

    return lowered(logit, scalar, at, [input], FLOAT)


@logit.vjp
def logit_vjp(g: Value, input: Value, eps: float | None) -> Value:
    x = widened(input)
    grad = convert(widened(g) / (x * (1 - x)), g.dtype)
    if eps is None:
        return grad
    inside = logical_and(input >= eps, input <= 1.0 - eps)
    return where(inside, grad, 0.0)


@logit.samples
def logit_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5), "probability"), domain="probability")
    yield Sample(sample_array(rng, (3, 5), "smooth"), eps=0.1)


# Powers.


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


pow_ = binary(
    "pow",
    "input to the power other.",
    ref=lambda a, b: np.power(a, b) if a.dtype.kind == "f" else _integer_power_array(a, b),
    scalar=lambda a, b: power.power(a, b) if a.type.kind is Kind.FLOAT else _integer_power(a, b),
    dtypes="ordered",
    syntax="pow",
    domain="positive",
    facts=Fact.LEADING,
)


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
    if special is None or not isinstance(input, Value) or not input.dtype.is_floating_point:
        return pow_(input, exponent)
    return special(input)


@pow_.vjp
def pow_vjp(g: Value, input: Value, other: Value, out: Value) -> Gradients:
    by_base: Value | None = None
    if isinstance(input, Value):
        if isinstance(other, Value):
            slope = where(eq(other, 0), 0.0, other * pow_(input, other - 1))
        else:
            slope = raised(input, other - 1) * other if other != 0 else zeros_of(input)
        by_base = unbroadcast(g * slope, input)
    by_exponent: Value | None = None
    if isinstance(other, Value):
        if isinstance(input, Value):
            base_is_0 = logical_and(eq(input, 0), other >= 0)
            slope = where(base_is_0, 0.0, out * log(input))
        else:
            slope = out * math.log(input) if input > 0 else where(other >= 0, 0.0, math.nan)
        by_exponent = unbroadcast(g * slope, other)
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
    "input to the power exponent, computed in float64.",
    facts=Fact.POINTWISE | Fact.LEADING,
    dtypes="real",
)


@float_power.decompose
def float_power_decompose(input: Value, exponent: Value) -> Value:
    return pow_(_as_float64(input), _as_float64(exponent))


def _as_float64(value: Value | float) -> Value | float:
    check_dtype(float_power, value.dtype if isinstance(value, Value) else number_dtype(value))
    return to_dtype(value, float64) if isinstance(value, Value) else float(value)


@float_power.ref
def float_power_ref(input: ArrayLike, exponent: ArrayLike) -> Array:
    return np.asarray(np.power(np.asarray(input, np.float64), np.asarray(exponent, np.float64)))


@float_power.samples
def float_power_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from samples_of_pairs(rng, "positive")
