"""Inverses, logarithms and scaled forms of the error function and the normal distribution."""

from __future__ import annotations

import math

from rushlight.ir.value import Value
from rushlight.ops.math import inverse_error as scalars
from rushlight.ops.pointwise.definition import FLOAT, unary
from rushlight.ops.pointwise.elementary import exp
from rushlight.ops.special.error_arrays import erfcx_array, erfinv_array, log_ndtr_array, ndtri_array

_ROOT_PI = math.sqrt(math.pi)

erfinv = unary(
    "erfinv",
    "The number whose error function is the input; infinite at -1 and 1, NaN outside.",
    ref=erfinv_array,
    scalar=scalars.erfinv,
    result=FLOAT,
    domain="unit",
)


@erfinv.vjp
def erfinv_vjp(g: Value, input: Value) -> Value:
    out = erfinv(input)
    return g * (exp(out * out) * (_ROOT_PI / 2))


erfcx = unary(
    "special_erfcx",
    "exp(input^2) * erfc(input), which neither overflows nor vanishes for large inputs.",
    ref=erfcx_array,
    scalar=scalars.erfcx,
    result=FLOAT,
    variants="function out",
)


@erfcx.vjp
def erfcx_vjp(g: Value, input: Value, out: Value) -> Value:
    return g * (input * out * 2 - 2 / _ROOT_PI)


ndtri = unary(
    "special_ndtri",
    "The number below which a normal variable is with the chance that is the input.",
    ref=ndtri_array,
    scalar=scalars.normal_quantile,
    result=FLOAT,
    variants="function out",
    domain="probability",
)


@ndtri.vjp
def ndtri_vjp(g: Value, out: Value) -> Value:
    return g * (exp(out * out * 0.5) * math.sqrt(2 * math.pi))


log_ndtr = unary(
    "special_log_ndtr",
    "The logarithm of the chance that a normal variable is below the input.",
    ref=log_ndtr_array,
    scalar=scalars.log_normal_cdf,
    result=FLOAT,
    variants="function out",
)


@log_ndtr.vjp
def log_ndtr_vjp(g: Value, input: Value) -> Value:
    # The density over the distribution function: an inverse Mills ratio, finite in the lower tail.
    return g * (math.sqrt(2 / math.pi) / erfcx(input * -math.sqrt(0.5)))
