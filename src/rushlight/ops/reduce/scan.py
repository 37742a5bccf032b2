"""Prefix reductions along a dim: element i folds elements 0 to i, in a plain ascending chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, compute_dtype, float32, float64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import SEQUENTIAL, Scalar, cast, reduce
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, At, convert, normal, replaced, wrap_dim
from rushlight.ops.join import flip
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.definition import array_type
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import promote_sum
from rushlight.ops.record import Fact, Sample, define
from rushlight.sym import axis_symbol

cumsum = define(
    "cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor",
    "Running sums along a dim; ints and bools are summed as int64.",
    facts=Fact.REDUCTION,
    variants="function method inplace out",
)
cumprod = define(
    "cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor",
    "Running products along a dim; ints and bools are multiplied as int64.",
    facts=Fact.REDUCTION | Fact.COMPLEX_HOST,
    variants="function method inplace out",
)
running_product = define(
    "running_product(Tensor input, int dim) -> Tensor",
    "Running products of real elements along a dim, in their dtype.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="",
)
complex_running_product = define(
    "complex_running_product(Tensor input, int dim) -> Tensor",
    "Running products of complex elements along a dim, in complex128. A host call, one step after the other.",
    facts=Fact.HOST | Fact.NONDIFFERENTIABLE,
    dtypes="complex",
    variants="",
)


def _prefix_meta(input: TensorType, dim: int, dtype: DType | None, op: str) -> TensorType:
    wrap_dim(dim, input.ndim, op)
    return TensorType(input.shape, dtype or promote_sum(input.dtype), input.device)


def _running_dtype(result: DType) -> DType:
    """What a result of float32 is folded in: a chain of a million terms would lose four of its digits in float32."""
    return float64 if result is float32 else compute_dtype(result)


def _prefix_lower(kind: str, at: At, input: Operand, dim: int, dtype: DType | None) -> Scalar:
    result = dtype or promote_sum(input.dtype)
    if not at:
        return cast(input[()], result)
    wrapped_dim = wrap_dim(dim, len(at), "cumsum")
    k = axis_symbol(at[wrapped_dim] + 1, "k")
    body = cast(cast(input[replaced(at, wrapped_dim, k)], result), _running_dtype(result))
    return cast(reduce(kind, (k,), body, SEQUENTIAL), result)


def _prefix_ref(function: Any, input: Array, dim: int, dtype: DType | None) -> Array:
    result = dtype or promote_sum(array_type(input).dtype)
    wide = input.astype(result.numpy).astype(_running_dtype(result).numpy)
    return function(wide, dim if input.ndim else None).astype(result.numpy).reshape(input.shape)


@cumsum.meta
def cumsum_meta(input: TensorType, dim: int, dtype: DType | None) -> TensorType:
    return _prefix_meta(input, dim, dtype, "cumsum")


@cumsum.ref
def cumsum_ref(input: Array, dim: int, dtype: DType | None) -> Array:
    return _prefix_ref(np.cumsum, input, dim, dtype)


@cumsum.lower
def cumsum_lower(at: At, input: Operand, dim: int, dtype: DType | None) -> Scalar:
    return _prefix_lower("sum", at, input, dim, dtype)


def _from_behind(value: Value, dim: int) -> Value:
    """Running sums from the last element to the first."""
    return flip(cumsum(flip(value, (dim,)), dim), (dim,)) if value.ndim else value


@cumsum.vjp(types=("input",))
def cumsum_vjp(g: Value, input: TensorType, dim: int) -> Value:
    return convert(_from_behind(g, dim), input.dtype)


@cumsum.samples
def cumsum_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1)
    yield Sample(normal(rng, 3, 5), 0)
    yield Sample(rng.integers(0, 5, (2, 4)).astype(np.int32), -1)
    yield Sample(normal(rng), 0)


@cumprod.decompose
def cumprod_decompose(input: Value, dim: int, dtype: DType | None) -> Value:
    dtype = dtype or promote_sum(input.dtype)
    return (complex_running_product if dtype.is_complex else running_product)(convert(input, dtype), dim)


@cumprod.ref
def cumprod_ref(input: Array, dim: int, dtype: DType | None) -> Array:
    return _prefix_ref(np.cumprod, input, dim, dtype)


@cumprod.vjp
def cumprod_vjp(g: Value, out: Value, input: Value, dim: int) -> Value:
    # Up to the first zero, the sum from i on of g * out, over x[i]. At the first zero itself, the products that would
    # follow without it. Beyond it, nothing.
    zeros = cumsum(eq(input, 0), dim)
    first = eq(zeros, 1) & eq(input, 0)
    before = _from_behind(g * conjugate(out), dim) / conjugate(where(eq(input, 0), 1.0, input))
    without = cumprod(where(first, 1.0, input), dim)
    at_first = _from_behind(where(eq(zeros, 0), 0.0, g * conjugate(without)), dim)
    gradient = where(eq(zeros, 0), before, where(first, at_first, 0.0))
    return convert(gradient, input.dtype)


@cumprod.samples
def cumprod_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1)
    yield Sample(normal(rng, 2, 3, 2), -2)


@running_product.meta
def running_product_meta(input: TensorType, dim: int) -> TensorType:
    return _prefix_meta(input, dim, input.dtype, "cumprod")


@running_product.ref
def running_product_ref(input: Array, dim: int) -> Array:
    return _prefix_ref(np.cumprod, input, dim, array_type(input).dtype)


@running_product.lower
def running_product_lower(at: At, input: Operand, dim: int) -> Scalar:
    return _prefix_lower("prod", at, input, dim, input.dtype)


@running_product.samples
def running_product_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from cumprod_samples(rng)


@complex_running_product.meta
def complex_running_product_meta(input: TensorType, dim: int) -> TensorType:
    return _prefix_meta(input, dim, input.dtype, "cumprod")


@complex_running_product.ref
def complex_running_product_ref(input: Array, dim: int) -> Array:
    with np.errstate(all="ignore"):
        products = np.cumprod(input, dim if input.ndim else None, dtype=np.complex128)
        return products.astype(input.dtype).reshape(input.shape)


@complex_running_product.samples
def complex_running_product_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for sample in cumprod_samples(rng):
        yield Sample(sample.args[0] * np.complex64(1 + 0.5j), *sample.args[1:])
