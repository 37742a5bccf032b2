"""Products with logarithms, logarithms of sums of powers, and the cardinal sine."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rushlight.ir.value import Value
from rushlight.ops.math import complex_elementary as whole
from rushlight.ops.math import inverse_error as scalars
from rushlight.ops.math.complex_elementary import by_kind, of_parts
from rushlight.ops.pointwise.comparison import eq, le, logical_and
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.definition import (
    FLOAT,
    Array,
    binary,
    unary,
)
from rushlight.ops.pointwise.elementary import cos, exp, exp2, log, log1p
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import Fact, Gradients
from rushlight.ops.special.error_arrays import log_of_sum_array, sinc_array, times_log_array

xlogy = binary(
    "xlogy",
    "input * log(other): 0 where input is 0 and other is a number.",
    ref=lambda x, y: times_log_array(x, y, 0),
    scalar=scalars.times_log,
    result=FLOAT,
    domain="positive",
    facts=Fact.LEADING,
)


def _by_factor(g: Value, input: Value, argument: Value | float, logarithm: Value | float) -> Value:
    """The gradient of a factor of a logarithm: 0 where the factor is 0, and the logarithm -inf or NaN of a number."""
    if isinstance(argument, Value):
        return where(logical_and(eq(input, 0), le(argument, 0)), 0.0, g * logarithm)
    return g * logarithm if argument > 0 else where(eq(input, 0), 0.0, g * logarithm)


@xlogy.vjp
def xlogy_vjp(g: Value, input: Value | float, other: Value | float) -> Gradients:
    by_first = by_second = None
    if isinstance(input, Value):
        logarithm = log(other) if isinstance(other, Value) else _number_log(other)
        by_first = unbroadcast(_by_factor(g, input, other, logarithm), input)
    if isinstance(other, Value):
        by_second = unbroadcast(g * (input / other), other)
    return by_first, by_second


def _number_log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


xlog1py = binary(
    "special_xlog1py",
    "input * log(1 + other): 0 where input is 0 and other is a number.",
    ref=lambda x, y: times_log_array(x, y, 1),
    scalar=scalars.times_log1p,
    result=FLOAT,
    variants="function out",
    domain="positive",
    facts=Fact.LEADING,
)


@xlog1py.vjp
def xlog1py_vjp(g: Value, input: Value | float, other: Value | float) -> Gradients:
    by_first = by_second = None
    if isinstance(input, Value):
        logarithm = log1p(other) if isinstance(other, Value) else _number_log(1 + other)
        by_first = unbroadcast(_by_factor(g, input, other + 1, logarithm), input)
    if isinstance(other, Value):
        by_second = unbroadcast(g * (input / (other + 1)), other)
    return by_first, by_second


def _entropy_array(x: Array) -> Array:
    entropy = np.where(x > 0, -x * np.log(np.where(x > 0, x, 1)), np.where(x == 0, 0, -np.inf))
    return np.where(np.isnan(x), x, entropy)


entr = unary(
    "special_entr",
    "-input * log(input): 0 at 0, minus infinity below.",
    ref=_entropy_array,
    scalar=scalars.negative_entropy_term,
    result=FLOAT,
    variants="function out",
    domain="positive",
)


@entr.vjp
def entr_vjp(g: Value, input: Value) -> Value:
    return g * (-1 - log(input))


logaddexp = binary(
    "logaddexp",
    "log(exp(input) + exp(other)) without overflow on the way.",
    ref=lambda a, b: log_of_sum_array(a, b, math.e),
    scalar=lambda a, b: of_parts(whole.log_of_sum, a, b) if a.type.is_complex else scalars.log_of_sum(a, b),
    result=FLOAT,
    dtypes="all",
    variants="function method out",
)


@logaddexp.vjp
def logaddexp_vjp(g: Value, input: Value | float, other: Value | float) -> Gradients:
    out = logaddexp(input, other)
    return _share(g, input, out, exp), _share(g, other, out, exp)


def _share(g: Value, operand: Value | float, out: Value, power: Callable[[Value], Value]) -> Value | None:
    """The gradient times the share of the operand in the sum: all, where it is infinite and the result."""
    if not isinstance(operand, Value):
        return None
    return unbroadcast(g * power(where(eq(operand, out), 0.0, conjugate(operand - out))), operand)


logaddexp2 = binary(
    "logaddexp2",
    "log2(2^input + 2^other) without overflow on the way.",
    ref=lambda a, b: log_of_sum_array(a, b, 2.0),
    scalar=scalars.log2_of_sum,
    result=FLOAT,
    variants="function method out",
)


@logaddexp2.vjp
def logaddexp2_vjp(g: Value, input: Value | float, other: Value | float) -> Gradients:
    out = logaddexp2(input, other)
    return _share(g, input, out, exp2), _share(g, other, out, exp2)


sinc = unary(
    "sinc",
    "sin(pi * input) / (pi * input), 1 at 0; exactly 0 at other whole numbers.",
    ref=sinc_array,
    scalar=by_kind(scalars.sinc, whole.sinc),
    result=FLOAT,
    dtypes="all",
)


@sinc.vjp
def sinc_vjp(g: Value, input: Value) -> Value:
    return g * conjugate(where(eq(input, 0), 0.0, (cos(input * math.pi) - sinc(input)) / input))
