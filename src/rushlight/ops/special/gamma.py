"""The gamma function's logarithm, its derivatives, the zeta function."""

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
from rushlight.ops.promote import promote_float, unbroadcast
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.special.gamma_arrays import (
    digamma_array,
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
