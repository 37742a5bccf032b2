"""Activation functions. Their parameters are attributes, so each choice is a kernel of its own.

Of 16-bit floats both they and their gradients are computed in float32 and rounded once: intermediate values overflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import DType, Kind, integer_limits
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, constant, fma, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import convert, own_dim, same_size, widened
from rushlight.ops.math import complex_elementary, error_function, exponential, logarithm
from rushlight.ops.math.complex_elementary import by_kind
from rushlight.ops.math.core import like, magnitude
from rushlight.ops.pointwise.comparison import logical_and
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.definition import (
    FLOAT,
    Array,
    At,
    array_type,
    computed,
    lowered,
    sample_array,
    typed_result,
    unary,
)
from rushlight.ops.pointwise.elementary import exp, ndtr, normal_cdf_array, normal_density, sigmoid, sigmoid_array, tanh
from rushlight.ops.pointwise.rounding import clamp_max
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import OPERATORS, Fact, Operator, Sample, define
from rushlight.support.errors import require
from rushlight.sym import floordiv


def _samples(op: Operator, *kwargs: dict[str, object]) -> None:
    """Samples away from the kinks at halves of integers: with the defaults, and with each of `kwargs`."""

    @op.samples
    def activation_samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(sample_array(rng, (), "smooth"), domain="smooth")
        yield Sample(sample_array(rng, (3, 5), "smooth") * 2, domain="smooth")
        for kwarg in kwargs:
            yield Sample(sample_array(rng, (3, 5), "smooth") * 2, domain="smooth", **kwarg)


def _activation(name: str, doc: str, parameters: str = "", dtypes: str = "float", forms: str = "function") -> Operator:
    """`name(Tensor input, parameters) -> Tensor`."""
    schema = f"{name}(Tensor input{', ' + parameters if parameters else ''}) -> Tensor"
    return define(schema, doc, facts=Fact.POINTWISE, dtypes=dtypes, variants=forms)


# relu and its kin.

relu = unary(
    "relu",
    "max(input, 0); NaN stays.",
    ref=lambda x: np.where(x < 0, x.dtype.type(0), x),
    scalar=lambda x: select(x < constant(0, x.type), constant(0, x.type), x) if x.type.signed else x,
    variants="function method inplace",
    domain="smooth",
)


@relu.vjp
def relu_vjp(g: Value, out: Value) -> Value:
    return where(out <= 0, 0.0, g)  # NaN lets the gradient pass, as in PyTorch


leaky_relu = _activation("leaky_relu", "input, times negative_slope below 0.", "float negative_slope=0.01")


@leaky_relu.meta
def leaky_relu_meta(input: TensorType, negative_slope: float) -> TensorType:
    return typed_result(leaky_relu, [input])


@leaky_relu.ref
def leaky_relu_ref(input: ArrayLike, negative_slope: float) -> Array:
    return computed(leaky_relu, lambda x: np.where(x > 0, x, x * x.dtype.type(negative_slope)), [input])


@leaky_relu.lower
def leaky_relu_lower(at: At, input: Operand, negative_slope: float) -> Scalar:
    return lowered(leaky_relu, lambda x: select(x > 0.0, x, x * negative_slope), at, [input])


@leaky_relu.vjp
def leaky_relu_vjp(g: Value, input: Value, negative_slope: float) -> Value:
    return where(input > 0, g, g * negative_slope)


_samples(leaky_relu, {"negative_slope": 0.2})


prelu = define(
    "prelu(Tensor input, Tensor weight) -> Tensor",
    "input, times weight below 0; the weight's elements go with dim 1.",
    dtypes="float",
    autocast="lower",
)


@prelu.decompose
def prelu_decompose(input: Value, weight: Value) -> Value:
    if weight.ndim == 1 and input.ndim != 1:
        channels = (weight.shape[0],) if input.ndim else ()
        weight = OPERATORS["reshape"](weight, (*channels, *((1,) * (input.ndim - 2))))
    return where(input > 0, input, input * weight)


@prelu.ref
def prelu_ref(input: Array, weight: Array) -> Array:
    if weight.ndim == 1 and input.ndim != 1:
        weight = weight.reshape(((weight.shape[0],) if input.ndim else ()) + (1,) * (input.ndim - 2))
    return np.where(input > 0, input, input * weight)


@prelu.samples
def prelu_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (2, 3, 4), "smooth"), sample_array(rng, (3,)))
    yield Sample(sample_array(rng, (5,), "smooth"), sample_array(rng, (1,)))
    yield Sample(sample_array(rng, (), "smooth"), sample_array(rng, (1,)))


hardtanh = _activation("hardtanh", "input within [min_val, max_val].", "float min_val=-1.0, float max_val=1.0", "real")


def _limits(dtype: DType, low: float, high: float) -> tuple[float, float]:
    """Bounds within the range of an integer dtype."""
    if dtype.kind is not Kind.INT:
        return low, high
    least, greatest = integer_limits(dtype)
    return max(int(low), least), min(int(high), greatest)


@hardtanh.meta
def hardtanh_meta(input: TensorType, min_val: float, max_val: float) -> TensorType:
    require(not min_val > max_val, "A002", "hardtanh: min_val is above max_val", min_val=min_val, max_val=max_val)
    return typed_result(hardtanh, [input])


@hardtanh.ref
def hardtanh_ref(input: ArrayLike, min_val: float, max_val: float) -> Array:
    low, high = _limits(array_type(input).dtype, min_val, max_val)
    return computed(hardtanh, lambda x: np.clip(x, x.dtype.type(low), x.dtype.type(high)), [input])


@hardtanh.lower
def hardtanh_lower(at: At, input: Operand, min_val: float, max_val: float) -> Scalar:
    def scalar(x: Scalar) -> Scalar:
        low, high = [constant(limit, x.type) for limit in _limits(x.type, min_val, max_val)]
        return select(x < low, low, select(high < x, high, x))

    return lowered(hardtanh, scalar, at, [input])


@hardtanh.vjp
def hardtanh_vjp(g: Value, input: Value, min_val: float, max_val: float) -> Value:
    return where(logical_and(input > min_val, input < max_val), g, 0.0)


_samples(hardtanh, {"min_val": -0.25, "max_val": 1.25})

relu6 = _activation("relu6", "input within [0, 6].", dtypes="real")


@relu6.decompose
def relu6_decompose(input: Value) -> Value:
    return hardtanh(input, 0.0, 6.0)


@relu6.ref
def relu6_ref(input: ArrayLike) -> Array:
    return hardtanh_ref(input, 0.0, 6.0)


_samples(relu6)

threshold = _activation(
    "threshold", "value where input is at most threshold; NaN stays.", "float threshold, float value", "ordered"
)


@threshold.decompose
def threshold_decompose(input: Value, threshold: float, value: float) -> Value:
    if input.dtype.kind is not Kind.INT:
        return where(input <= threshold, value, input)
    fits = input.dtype.holds(threshold) and input.dtype.holds(value)
    require(fits, "D007", f"threshold: a number does not fit {input.dtype.name}", threshold=threshold, value=value)
    return where(input <= int(threshold), int(value), input)  # integers stay so, as in PyTorch


@threshold.ref
def threshold_ref(input: ArrayLike, threshold: float, value: float) -> Array:
    x = np.asarray(input)
    return np.where(x <= x.dtype.type(threshold), x.dtype.type(value), x)


@threshold.samples
def threshold_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5), "smooth"), 0.25, 2.0)


# Exponential ones.

elu = _activation(
    "elu",
    "scale * input, and below 0 scale * alpha * (exp(input) - 1).",
    "float alpha=1.0, float scale=1.0, float input_scale=1.0",
)


@elu.meta
def elu_meta(input: TensorType, alpha: float, scale: float, input_scale: float) -> TensorType:
    return typed_result(elu, [input])


@elu.ref
def elu_ref(input: ArrayLike, alpha: float, scale: float, input_scale: float) -> Array:
    def function(x: Array) -> Array:
        return np.where(x > 0, x * scale, np.expm1(np.where(x > 0, 0, x) * input_scale) * (alpha * scale))

    return computed(elu, function, [input])


@elu.lower
def elu_lower(at: At, input: Operand, alpha: float, scale: float, input_scale: float) -> Scalar:
    def scalar(x: Scalar) -> Scalar:
        scaled = x if input_scale == 1.0 else x * input_scale
        below = exponential.expm1(scaled) * (alpha * scale)
        return select(x > 0.0, x if scale == 1.0 else x * scale, below)

    return lowered(elu, scalar, at, [input])


@elu.vjp
def elu_vjp(g: Value, input: Value, alpha: float, scale: float, input_scale: float) -> Value:
    wide, x = widened(g), widened(input)
    below = exp(clamp_max(x, 0.0) * input_scale) * (alpha * scale * input_scale)
    return convert(where(x > 0, wide * scale, wide * below), g.dtype)


_samples(elu, {"alpha": 0.5}, {"alpha": 1.5, "scale": 2.0, "input_scale": 0.5})

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
selu = _activation("selu", "elu with the constants that keep mean 0 and variance 1.", forms="function method inplace")


@selu.decompose
def selu_decompose(input: Value) -> Value:
    return elu(input, _SELU_ALPHA, _SELU_SCALE)


@selu.ref
def selu_ref(input: ArrayLike) -> Array:
    return elu_ref(input, _SELU_ALPHA, _SELU_SCALE, 1.0)


_samples(selu)

celu = _activation("celu", "elu with input / alpha in the exponential.", "float alpha=1.0")


@celu.decompose
def celu_decompose(input: Value, alpha: float) -> Value:
    require(alpha != 0, "A002", "celu: alpha must not be 0", alpha=alpha)
    return elu(input, alpha, 1.0, 1.0 / alpha)


@celu.ref
def celu_ref(input: ArrayLike, alpha: float) -> Array:
    return elu_ref(input, alpha, 1.0, 1.0 / alpha)


_samples(celu, {"alpha": 0.5})

softplus = _activation(
    "softplus",
    "log(1 + exp(beta * input)) / beta; input itself where beta * input is above threshold.",
    "float beta=1.0, float threshold=20.0",
    forms="function out",
)


@softplus.meta
def softplus_meta(input: TensorType, beta: float, threshold: float) -> TensorType:
    return typed_result(softplus, [input])


@softplus.ref
def softplus_ref(input: ArrayLike, beta: float, threshold: float) -> Array:
    def function(x: Array) -> Array:
        scaled = x * beta
        return np.where(scaled > threshold, x, np.log1p(np.exp(np.minimum(scaled, threshold))) / beta)

    return computed(softplus, function, [input])


@softplus.lower
def softplus_lower(at: At, input: Operand, beta: float, threshold: float) -> Scalar:
    def scalar(x: Scalar) -> Scalar:
        scaled = x * beta
        return select(scaled > threshold, x, logarithm.log1p(exponential.exp(scaled)) / beta)

    return lowered(softplus, scalar, at, [input])


@softplus.vjp
def softplus_vjp(g: Value, input: Value, beta: float, threshold: float) -> Value:
    wide, scaled = widened(g), widened(input) * beta
    return convert(where(scaled > threshold, wide, wide * sigmoid(scaled)), g.dtype)


_samples(softplus, {"beta": 2.0}, {"threshold": 0.75})

logsigmoid = _activation("logsigmoid", "log(sigmoid(input)).", forms="function out")


def _logsigmoid(x: Scalar) -> Scalar:
    return select(x < 0.0, x, like(x, 0.0)) - logarithm.log1p(exponential.exp(-magnitude(x)))


@logsigmoid.meta
def logsigmoid_meta(input: TensorType) -> TensorType:
    return typed_result(logsigmoid, [input])


@logsigmoid.ref
def logsigmoid_ref(input: ArrayLike) -> Array:
    return computed(logsigmoid, lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), [input])


@logsigmoid.lower
def logsigmoid_lower(at: At, input: Operand) -> Scalar:
    return lowered(logsigmoid, _logsigmoid, at, [input])


@logsigmoid.vjp
def logsigmoid_vjp(g: Value, input: Value) -> Value:
    return convert(widened(g) * sigmoid(-widened(input)), g.dtype)


_samples(logsigmoid)

# Gated ones.

gelu = _activation(
    "gelu",
    "input times the normal distribution function of input, or the tanh formula for it.",
    "*, str approximate='none'",
    forms="function out",
)
_ROOT_2_OVER_PI, _CUBIC = math.sqrt(2.0 / math.pi), 0.044715


@gelu.meta
def gelu_meta(input: TensorType, approximate: str) -> TensorType:
    valid = approximate in ("none", "tanh")
    require(valid, "A002", "gelu: approximate is 'none' or 'tanh'", approximate=approximate)
    return typed_result(gelu, [input])


@gelu.ref
def gelu_ref(input: ArrayLike, approximate: str) -> Array:
    def function(x: Array) -> Array:
        if approximate == "tanh":
            return x * (1 + np.tanh((x * x * x * _CUBIC + x) * _ROOT_2_OVER_PI)) * 0.5
        return x * normal_cdf_array(x)

    return computed(gelu, function, [input])


def _gelu_tanh(x: Scalar) -> Scalar:
    # (1 + tanh(z)) / 2 = sigmoid(2z), which keeps its precision below 0.
    inner = fma(x * x * x, like(x, _CUBIC), x) * (2.0 * _ROOT_2_OVER_PI)
    return x * exponential.sigmoid(inner)


@gelu.lower
def gelu_lower(at: At, input: Operand, approximate: str) -> Scalar:
    return lowered(gelu, _gelu_tanh if approximate == "tanh" else error_function.gelu, at, [input])


@gelu.vjp
def gelu_vjp(g: Value, input: Value, approximate: str) -> Value:
    wide, x = widened(g), widened(input)
    if approximate != "tanh":
        return convert(wide * (ndtr(x) + x * normal_density(x)), g.dtype)
    t = tanh((x * x * x * _CUBIC + x) * _ROOT_2_OVER_PI)
    slope = (x * x * (3.0 * _CUBIC) + 1.0) * _ROOT_2_OVER_PI
    return convert(wide * ((1.0 + t) * 0.5 + x * (1.0 - t * t) * slope * 0.5), g.dtype)


_samples(gelu, {"approximate": "tanh"})

_sigmoid = by_kind(exponential.sigmoid, complex_elementary.sigmoid)

silu = _activation("silu", "input * sigmoid(input).", dtypes="inexact")


@silu.meta
def silu_meta(input: TensorType) -> TensorType:
    return typed_result(silu, [input])


@silu.ref
def silu_ref(input: ArrayLike) -> Array:
    return computed(silu, lambda x: x * sigmoid_array(x), [input])


@silu.lower
def silu_lower(at: At, input: Operand) -> Scalar:
    return lowered(silu, lambda x: x * _sigmoid(x), at, [input])


@silu.vjp
def silu_vjp(g: Value, input: Value) -> Value:
    x = widened(input)
    gate = sigmoid(x)
    return convert(widened(g) * conjugate(gate * (1 + x * (1 - gate))), g.dtype)


_samples(silu)

mish = _activation("mish", "input * tanh(log(1 + exp(input))).")


@mish.meta
def mish_meta(input: TensorType) -> TensorType:
    return typed_result(mish, [input])


@mish.ref
def mish_ref(input: ArrayLike) -> Array:
    return computed(mish, lambda x: x * np.tanh(np.logaddexp(x, 0)), [input])


@mish.lower
def mish_lower(at: At, input: Operand) -> Scalar:
    def scalar(x: Scalar) -> Scalar:
        # log(1 + exp(x)) of positive x is x + log(1 + exp(-x)), which cannot overflow.
        rest = logarithm.log1p(exponential.exp(-magnitude(x)))
        return x * exponential.tanh(select(x > 0.0, x + rest, rest))

    return lowered(mish, scalar, at, [input])


@mish.vjp
def mish_vjp(g: Value, input: Value) -> Value:
    x = widened(input)
    t = tanh(softplus(x))
    return convert(widened(g) * (t + x * sigmoid(x) * (1 - t * t)), g.dtype)


_samples(mish)

hardsigmoid = _activation("hardsigmoid", "(input + 3) / 6 within [0, 1].")


@hardsigmoid.decompose
def hardsigmoid_decompose(input: Value) -> Value:
    return convert(hardtanh(widened(input) + 3.0, 0.0, 6.0) / 6.0, input.dtype)


@hardsigmoid.ref
def hardsigmoid_ref(input: ArrayLike) -> Array:
    return computed(hardsigmoid, lambda x: np.clip(x + 3, 0, 6) / 6, [input])


_samples(hardsigmoid)

hardswish = _activation("hardswish", "input * hardsigmoid(input).")


@hardswish.decompose
def hardswish_decompose(input: Value) -> Value:
    x = widened(input)
    return convert(x * hardtanh(x + 3.0, 0.0, 6.0) / 6.0, input.dtype)


@hardswish.ref
def hardswish_ref(input: ArrayLike) -> Array:
    return computed(hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6, [input])


_samples(hardswish)

softsign = _activation("softsign", "input / (1 + |input|).")


@softsign.decompose
def softsign_decompose(input: Value) -> Value:
    x = widened(input)
    return convert(x / (abs(x) + 1.0), input.dtype)


@softsign.ref
def softsign_ref(input: ArrayLike) -> Array:
    return computed(softsign, lambda x: x / (np.abs(x) + 1), [input])


_samples(softsign)

tanhshrink = _activation("tanhshrink", "input - tanh(input).", dtypes="number")


@tanhshrink.decompose
def tanhshrink_decompose(input: Value) -> Value:
    x = widened(input)
    result = x - tanh(x)
    return result if input.dtype.kind is Kind.INT else convert(result, input.dtype)


@tanhshrink.ref
def tanhshrink_ref(input: ArrayLike) -> Array:
    return computed(tanhshrink, lambda x: x - np.tanh(x), [input], FLOAT)


_samples(tanhshrink)

softshrink = _activation(
    "softshrink", "input moved towards 0 by lambd, 0 within.", "float lambd=0.5", forms="function out"
)


@softshrink.decompose
def softshrink_decompose(input: Value, lambd: float) -> Value:
    require(not lambd < 0, "A002", "softshrink: lambd must not be negative", lambd=lambd)
    return where(input > lambd, input - lambd, where(input < -lambd, input + lambd, 0.0))


@softshrink.ref
def softshrink_ref(input: ArrayLike, lambd: float) -> Array:
    return computed(softshrink, lambda x: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0)), [input])


_samples(softshrink, {"lambd": 0.3})

hardshrink = _activation("hardshrink", "input, 0 within lambd of 0.", "float lambd=0.5", forms="function out")


@hardshrink.decompose
def hardshrink_decompose(input: Value, lambd: float) -> Value:
    return where(abs(input) <= lambd, 0.0, input)


@hardshrink.ref
def hardshrink_ref(input: ArrayLike, lambd: float) -> Array:
    return computed(hardshrink, lambda x: np.where(np.abs(x) <= lambd, 0, x), [input])


_samples(hardshrink, {"lambd": 0.3})

glu = define(
    "glu(Tensor input, int dim=-1) -> Tensor",
    "The first half along a dim times the sigmoid of the second.",
    dtypes="float",
)


@glu.decompose
def glu_decompose(input: Value, dim: int) -> Value:
    require(input.ndim, "S002", "glu: a tensor with dims is expected", input=input.shape)
    wrapped_dim = own_dim(dim, input.shape, "glu")
    half = floordiv(input.shape[wrapped_dim], 2)
    even = same_size(half * 2, input.shape[wrapped_dim])
    require(even, "S010", f"glu: the size of dim {dim} must be even", input=input.shape)
    first, second = OPERATORS["split"](input, (half, half), wrapped_dim)
    return convert(widened(first) * sigmoid(widened(second)), input.dtype)


@glu.ref
def glu_ref(input: ArrayLike, dim: int) -> Array:
    first, second = np.split(np.asarray(input), 2, dim)
    return computed(glu, lambda a, b: a * sigmoid_array(b), [first, second])


@glu.samples
def glu_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 6)))
    yield Sample(sample_array(rng, (4, 3)), 0)
