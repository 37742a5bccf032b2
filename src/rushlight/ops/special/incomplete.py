"""The regularised incomplete gamma functions, and how they move with their order."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import float64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import positions
from rushlight.ops.dims import convert
from rushlight.ops.math import incomplete_gamma
from rushlight.ops.pointwise.comparison import eq, logical_or
from rushlight.ops.pointwise.complex import abs_
from rushlight.ops.pointwise.definition import (
    FLOAT,
    Array,
    At,
    computed,
    lowered,
    sample_array,
    typed_result,
)
from rushlight.ops.pointwise.elementary import exp, expm1, log, sqrt
from rushlight.ops.pointwise.rounding import minimum
from rushlight.ops.pointwise.selection import to_dtype, where
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import Fact, Gradients, Operator, Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.special.gamma import digamma, lgamma
from rushlight.ops.special.gamma_arrays import incomplete_gamma_arrays
from rushlight.ops.view.reorder import expand, unsqueeze

# The trapezoidal rule for exp(u - exp(-u)), u in [-3.5, 3.7] (Takahasi and Mori 1974): to 1e-9 or better.
_NODES, _FIRST, _STEP = 80, -3.5, 7.2 / 79
# The power series is taken up to this argument, where this many terms suffice.
_GAMMA_SERIES, _GAMMA_TERMS = 1.5, 24


def decaying_nodes(world: Value) -> tuple[Value, Value]:
    """Nodes and weights of integrals over [0, inf) of what decays as exp(-t)."""
    u = to_dtype(positions(world, _NODES), float64) * _STEP + _FIRST
    folded = exp(-u)
    nodes = exp(u - folded)
    return nodes, nodes * (folded + 1.0) * _STEP


def gamma_slope(shape: Value, x: Value) -> Value:
    """How a gamma number of rate 1 moves with its concentration, of float64 values.

    Errors are below 1e-9 of it for concentrations from 1e-3 to 1e4.
    """
    score = log(x) - digamma(shape)
    sign = where(score >= 0, 1.0, -1.0)
    width = 1.0 / (abs_(x - shape) + sqrt(x))
    nodes, weights = decaying_nodes(x)
    z = unsqueeze(sign * width, -1) * nodes
    density = exp(unsqueeze(shape, -1) * z - unsqueeze(x, -1) * expm1(z))
    integral = x * width * sum_(density * abs_(unsqueeze(score, -1) + z) * weights, (-1,), False)
    return where(x < _GAMMA_SERIES, _gamma_series(shape, minimum(x, _GAMMA_SERIES)), integral)


def _gamma_series(shape: Value, x: Value) -> Value:
    """`gamma_slope` of small x, by the power series of the distribution function."""
    above = log(x) - digamma(shape)
    total = (log(x) - digamma(shape + 1.0)) / shape
    power = x * -1.0
    for term in range(1, _GAMMA_TERMS):
        total = total + power / (shape + float(term)) * (above - 1.0 / (shape + float(term)))
        power = power * x * (-1.0 / (term + 1))
    return -x * exp(x) * total


def _by_order(input: Value, other: Value | float, like: Value, sign: float) -> Value:
    """The derivative of P(input, other) by its order, times -`sign`; 0 where `other` is 0 or infinite.

    A gamma number moves with its order so that P stays, hence P's derivative is the density times that slope.
    """
    a = expand(to_dtype(input, float64), like.shape)
    x = expand(to_dtype(other, float64), like.shape) if isinstance(other, Value) else a * 0.0 + other
    ends = logical_or(eq(x, 0.0), eq(x, math.inf))
    inside = where(ends, 1.0, x)
    density = exp((a - 1.0) * log(inside) - inside - lgamma(a))
    return to_dtype(where(ends, 0.0, sign * density * gamma_slope(a, inside)), like.dtype)


def _incomplete(name: str, doc: str, which: int) -> Operator:
    scalar = incomplete_gamma.upper if which else incomplete_gamma.lower
    op = define(
        f"{name}(Tensor input, Tensor other) -> Tensor",
        doc,
        facts=Fact.POINTWISE,
        dtypes="real",
        variants="function method inplace out",
    )

    @op.meta
    def incomplete_meta(input: TensorType, other: TensorType) -> TensorType:
        return typed_result(op, [input, other], FLOAT)

    @op.ref
    def incomplete_ref(input: ArrayLike, other: ArrayLike) -> Array:
        return computed(op, lambda a, x: incomplete_gamma_arrays(a, x)[which], [input, other], FLOAT)

    @op.lower
    def incomplete_lower(at: At, input: Operand, other: Operand) -> Scalar:
        return lowered(op, scalar, at, [input, other], FLOAT)

    @op.vjp
    def incomplete_vjp(g: Value, input: Value | float, other: Value | float) -> Gradients:
        by_first = by_second = None
        if isinstance(input, Value):
            by_first = unbroadcast(g * _by_order(input, other, g, 1.0 if which else -1.0), input)
        if isinstance(other, Value):
            order = convert(input, g.dtype) if isinstance(input, Value) else input
            size = lgamma(order) if isinstance(order, Value) else math.lgamma(order)
            density = exp(log(other) * (order - 1) - other - size)
            by_second = unbroadcast(-g * density if which else g * density, other)
        return by_first, by_second

    @op.samples
    def incomplete_samples(rng: np.random.Generator) -> Iterator[Sample]:
        # Special values of both operands at once are beyond the reference.
        for order in (0.75, 4.0, 24.0):
            yield Sample(order, sample_array(rng, (5,), "positive") * order, domain="positive")

    return op


igamma = _incomplete(
    "igamma",
    "The regularised lower incomplete gamma function P(input, other).",
    0,
)
igammac = _incomplete(
    "igammac",
    "The regularised upper incomplete gamma function Q = 1 - P.",
    1,
)
