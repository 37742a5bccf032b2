"""Elementary functions: roots, exponentials, logarithms, trigonometry, the error function.

Integers and bools become the default float. Each has a scalar expansion of our own in `math_*`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import convert, widened
from rushlight.ops.math import complex_elementary as whole
from rushlight.ops.math import error_function, exponential, inverse_trigonometry, logarithm, trigonometry
from rushlight.ops.math.complex_elementary import by_kind
from rushlight.ops.math.core import like
from rushlight.ops.pointwise.comparison import logical_and
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.definition import (
    FLOAT,
    Array,
    At,
    binary,
    computed,
    lowered,
    sample_array,
    typed_result,
    unary,
)
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import Fact, Gradients, Sample, define

# Roots.

_root = by_kind(lambda x: apply("sqrt", x), whole.sqrt)

sqrt = unary("sqrt", "Square root.", ref=np.sqrt, scalar=_root, result=FLOAT, domain="positive", dtypes="all")


@sqrt.vjp
def sqrt_vjp(g: Value, out: Value) -> Value:
    return g / conjugate(out * 2)


rsqrt = unary(
    "rsqrt",
    "1 / sqrt(input).",
    ref=lambda x: 1 / np.sqrt(x),
    scalar=lambda x: like(x, 1.0) / _root(x),
    result=FLOAT,
    domain="positive",
    dtypes="all",
)


@rsqrt.vjp
def rsqrt_vjp(g: Value, out: Value) -> Value:
    return g * conjugate(out * out * out * -0.5)


# Exponentials and logarithms.

exp = unary(
    "exp", "e to the power input.", ref=np.exp, scalar=by_kind(exponential.exp, whole.exp), result=FLOAT, dtypes="all"
)


@exp.vjp
def exp_vjp(g: Value, out: Value) -> Value:
    return g * conjugate(out)


exp2 = unary(
    "exp2",
    "2 to the power input.",
    ref=np.exp2,
    scalar=by_kind(exponential.exp2, whole.exp2),
    result=FLOAT,
    dtypes="all",
)


@exp2.vjp
def exp2_vjp(g: Value, out: Value) -> Value:
    return g * conjugate(out * math.log(2.0))


expm1 = unary(
    "expm1",
    "exp(input) - 1, precise near 0.",
    ref=np.expm1,
    scalar=by_kind(exponential.expm1, whole.expm1),
    result=FLOAT,
    dtypes="all",
)


@expm1.vjp
def expm1_vjp(g: Value, out: Value) -> Value:
    return g * conjugate(out + 1)


log = unary(
    "log",
    "Natural logarithm.",
    ref=np.log,
    scalar=by_kind(logarithm.log, whole.log),
    result=FLOAT,
    domain="positive",
    dtypes="all",
)


@log.vjp
def log_vjp(g: Value, input: Value) -> Value:
    return g / conjugate(input)


log2 = unary(
    "log2",
    "Logarithm to base 2.",
    ref=np.log2,
    scalar=by_kind(logarithm.log2, whole.log2),
    result=FLOAT,
    domain="positive",
    dtypes="all",
)


@log2.vjp
def log2_vjp(g: Value, input: Value) -> Value:
    return g / conjugate(input * math.log(2.0))


log10 = unary(
    "log10",
    "Logarithm to base 10.",
    ref=np.log10,
    scalar=by_kind(logarithm.log10, whole.log10),
    result=FLOAT,
    domain="positive",
    dtypes="all",
)


@log10.vjp
def log10_vjp(g: Value, input: Value) -> Value:
    return g / conjugate(input * math.log(10.0))


log1p = unary(
    "log1p",
    "log(1 + input), precise near 0.",
    ref=np.log1p,
    scalar=by_kind(logarithm.log1p, whole.log1p),
    result=FLOAT,
    domain="positive",
    dtypes="all",
)


@log1p.vjp
def log1p_vjp(g: Value, input: Value) -> Value:
    return g / conjugate(input + 1)


# Trigonometry.

sin = unary(
    "sin",
    "Sine of an angle in radians.",
    ref=np.sin,
    scalar=by_kind(trigonometry.sin, whole.sin),
    result=FLOAT,
    dtypes="all",
)


@sin.vjp
def sin_vjp(g: Value, input: Value) -> Value:
    return g * conjugate(cos(input))


cos = unary(
    "cos",
    "Cosine of an angle in radians.",
    ref=np.cos,
    scalar=by_kind(trigonometry.cos, whole.cos),
    result=FLOAT,
    dtypes="all",
)


@cos.vjp
def cos_vjp(g: Value, input: Value) -> Value:
    return -g * conjugate(sin(input))


tan = unary(
    "tan",
    "Tangent of an angle in radians.",
    ref=np.tan,
    scalar=by_kind(trigonometry.tan, whole.tan),
    result=FLOAT,
    domain="unit",
    dtypes="all",
)


@tan.vjp
def tan_vjp(g: Value, out: Value) -> Value:
    return g * conjugate(out * out + 1)


asin = unary(
    "asin",
    "Arc sine.",
    ref=np.arcsin,
    scalar=by_kind(inverse_trigonometry.asin, whole.asin),
    result=FLOAT,
    domain="unit",
    dtypes="all",
)


@asin.vjp
def asin_vjp(g: Value, input: Value) -> Value:
    return g * conjugate(rsqrt(1 - input * input))


acos = unary(
    "acos",
    "Arc cosine.",
    ref=np.arccos,
    scalar=by_kind(inverse_trigonometry.acos, whole.acos),
    result=FLOAT,
    domain="unit",
    dtypes="all",
)


@acos.vjp
def acos_vjp(g: Value, input: Value) -> Value:
    return -g * conjugate(rsqrt(1 - input * input))


atan = unary(
    "atan",
    "Arc tangent.",
    ref=np.arctan,
    scalar=by_kind(inverse_trigonometry.atan, whole.atan),
    result=FLOAT,
    dtypes="all",
)


@atan.vjp
def atan_vjp(g: Value, input: Value) -> Value:
    return g / conjugate(input * input + 1)


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


sinh = unary(
    "sinh", "Hyperbolic sine.", ref=np.sinh, scalar=by_kind(exponential.sinh, whole.sinh), result=FLOAT, dtypes="all"
)


@sinh.vjp
def sinh_vjp(g: Value, input: Value) -> Value:
    return g * conjugate(cosh(input))


cosh = unary(
    "cosh", "Hyperbolic cosine.", ref=np.cosh, scalar=by_kind(exponential.cosh, whole.cosh), result=FLOAT, dtypes="all"
)


@cosh.vjp
def cosh_vjp(g: Value, input: Value) -> Value:
    return g * conjugate(sinh(input))


tanh = unary(
    "tanh", "Hyperbolic tangent.", ref=np.tanh, scalar=by_kind(exponential.tanh, whole.tanh), result=FLOAT, dtypes="all"
)


@tanh.vjp
def tanh_vjp(g: Value, out: Value) -> Value:
    out = widened(out)
    return convert(widened(g) * conjugate(1 - out * out), g.dtype)


asinh = unary(
    "asinh",
    "Inverse hyperbolic sine.",
    ref=np.arcsinh,
    scalar=by_kind(logarithm.asinh, whole.asinh),
    result=FLOAT,
    dtypes="all",
)


@asinh.vjp
def asinh_vjp(g: Value, input: Value) -> Value:
    return g * conjugate(rsqrt(input * input + 1))


acosh = unary(
    "acosh",
    "Inverse hyperbolic cosine.",
    ref=np.arccosh,
    scalar=by_kind(logarithm.acosh, whole.acosh),
    result=FLOAT,
    domain="above_one",
    dtypes="all",
)


@acosh.vjp
def acosh_vjp(g: Value, input: Value) -> Value:
    return g * conjugate(rsqrt(input * input - 1))


atanh = unary(
    "atanh",
    "Inverse hyperbolic tangent.",
    ref=np.arctanh,
    scalar=by_kind(logarithm.atanh, whole.atanh),
    result=FLOAT,
    domain="unit",
    dtypes="all",
)


@atanh.vjp
def atanh_vjp(g: Value, input: Value) -> Value:
    return g / conjugate(1 - input * input)


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
    """The logistic function of an array."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


sigmoid = unary(
    "sigmoid",
    "1 / (1 + exp(-input)).",
    ref=sigmoid_array,
    scalar=by_kind(exponential.sigmoid, whole.sigmoid),
    result=FLOAT,
    dtypes="all",
)


@sigmoid.vjp
def sigmoid_vjp(g: Value, out: Value) -> Value:
    out = widened(out)
    return convert(widened(g) * conjugate(out * (1 - out)), g.dtype)


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
