"""The gamma function's logarithm, its derivatives, incomplete gamma functions, the zeta function."""

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
from rushlight.ops.dims import convert
from rushlight.ops.math import gamma as scalars
from rushlight.ops.math import incomplete_gamma
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
from rushlight.ops.pointwise.elementary import exp, log
from rushlight.ops.promote import promote_float, unbroadcast
from rushlight.ops.record import Fact, Gradients, Operator, Sample, define
from rushlight.ops.special.gamma_arrays import (
    digamma_array,
    incomplete_gamma_arrays,
    lgamma_array,
    polygamma_array,
    zeta_array,
)
from rushlight.support.errors import require

lgamma = unary(
    "lgamma",
    "The logarithm of the magnitude of the gamma function.",
    ref=lgamma_array,
    scalar=scalars.lgamma,
    result=FLOAT,
    domain="positive",
)


@lgamma.vjp
def lgamma_vjp(g: Value, input: Value) -> Value:
    return g * digamma(input)


digamma = unary(
    "digamma",
    "The derivative of the logarithm of the gamma function.",
    ref=digamma_array,
    scalar=scalars.digamma,
    result=FLOAT,
    domain="positive",
)


@digamma.vjp
def digamma_vjp(g: Value, input: Value) -> Value:
    return g * polygamma(1, input)


polygamma = define(
    "polygamma(int n, Tensor input) -> Tensor",
    "The derivative of order n of digamma.",
    facts=Fact.POINTWISE,
    dtypes="real",
    variants="function method inplace out",
)


@polygamma.meta
def polygamma_meta(n: int, input: TensorType) -> TensorType:
    require(n >= 0, "A002", "polygamma: the order n must not be negative", n=n)
    return typed_result(polygamma, [input], FLOAT)


@polygamma.ref
def polygamma_ref(n: int, input: ArrayLike) -> Array:
    return computed(polygamma, lambda x: polygamma_array(n, x), [input], FLOAT)


@polygamma.lower
def polygamma_lower(at: At, n: int, input: Operand) -> Scalar:
    return lowered(polygamma, lambda x: scalars.polygamma(n, x), at, [input], FLOAT)


@polygamma.vjp
def polygamma_vjp(g: Value, n: int, input: Value) -> Value:
    return g * polygamma(n + 1, input)


@polygamma.samples
def polygamma_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(1, sample_array(rng, (3, 5), "positive"), domain="positive")
    yield Sample(2, sample_array(rng, (4,), "positive"), domain="positive")


_MOST_DIMS = 1000  # of mvlgamma, which is a sum of so many terms

mvlgamma = define(
    "mvlgamma(Tensor input, int p) -> Tensor",
    "The logarithm of the multivariate gamma function of dimension p.",
    facts=Fact.POINTWISE,
    dtypes="real",
    variants="function method inplace out",
)


@mvlgamma.decompose
def mvlgamma_decompose(input: Value, p: int) -> Value:
    require(p >= 1, "A002", "mvlgamma: the dimension p must be at least 1", p=p)
    require(p <= _MOST_DIMS, "A006", f"mvlgamma: dimensions p above {_MOST_DIMS} are not supported", p=p)
    # In float64, in which differences from a half keep their distance from the poles.
    x = convert(input, float64)
    total = lgamma(x)
    for step in range(1, p):
        total = total + lgamma(x - step / 2)
    dtype = promote_float(TensorType(input.shape, input.dtype, input.device))
    return convert(total + p * (p - 1) / 4 * math.log(math.pi), dtype)


@mvlgamma.ref
def mvlgamma_ref(input: ArrayLike, p: int) -> Array:
    def function(x: Array) -> Array:
        return sum(lgamma_array(x - np.longdouble(step) / 2) for step in range(p)) + p * (p - 1) / 4 * np.log(np.pi)

    return computed(mvlgamma, function, [input], FLOAT)


@mvlgamma.samples
def mvlgamma_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5), "above_one"), 3, domain="above_one")


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
            by_first = unbroadcast(g * math.nan, input)
        if isinstance(other, Value):
            order = convert(input, g.dtype) if isinstance(input, Value) else input
            size = lgamma(order) if isinstance(order, Value) else math.lgamma(order)
            density = exp(log(other) * (order - 1) - other - size)
            by_second = unbroadcast(-g * density if which else g * density, other)
        return by_first, by_second

    @op.samples
    def incomplete_samples(rng: np.random.Generator) -> Iterator[Sample]:
        # No derivative by the first operand is known: a number asks for none.
        for order in (0.75, 4.0, 24.0):
            yield Sample(order, sample_array(rng, (5,), "positive") * order, domain="positive")

    return op


igamma = _incomplete(
    "igamma",
    "The regularised lower incomplete gamma function P(input, other); its derivative by the order `input` is NaN.",
    0,
)
igammac = _incomplete(
    "igammac",
    "The regularised upper incomplete gamma function Q = 1 - P; its derivative by the order `input` is NaN.",
    1,
)

zeta = binary(
    "special_zeta",
    "Hurwitz's zeta function: the sum of (other + k)^-input over k >= 0; its derivative by `input` is NaN.",
    ref=zeta_array,
    scalar=scalars.zeta,
    result=FLOAT,
    variants="function out",
    domain="above_one",
    facts=Fact.LEADING,
)


@zeta.vjp
def zeta_vjp(g: Value, input: Value | float, other: Value | float) -> Gradients:
    by_first = unbroadcast(g * math.nan, input) if isinstance(input, Value) else None
    if not isinstance(other, Value):
        return by_first, None
    order = convert(input, g.dtype) if isinstance(input, Value) else input
    return by_first, unbroadcast(g * (-order * zeta(order + 1, other)), other)


@zeta.samples
def zeta_samples(rng: np.random.Generator) -> Iterator[Sample]:
    # No derivative by the first operand is known: a number asks for none.
    yield Sample(2.5, sample_array(rng, (3, 5), "positive"), domain="positive")
