"""Reductions over some or all dims: sums, products, extremes and their places, truth.

Each states its order of association: LANES where the innermost logical dim is reduced, else COLUMNS. 16-bit floats are
summed in float32. Short chains of float32 are joined in float64, and a mean is divided there and then rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, bool_, compute_dtype, from_numpy_dtype, int64, real_dtype, total_dtype, uint8
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import COLUMNS, LANES, Scalar, apply, cast, constant, lift, reduce, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import count_of
from rushlight.ops.dims import (
    Array,
    At,
    Dims,
    Shape,
    compute_array,
    convert,
    normal,
    reduction_order,
    require_floating,
    wrap_dims,
)
from rushlight.ops.pointwise import rounding
from rushlight.ops.pointwise.comparison import eq, ne
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import promote_sum
from rushlight.ops.record import Fact, Sample, define
from rushlight.ops.view.reorder import expand, unsqueeze
from rushlight.support.errors import require
from rushlight.sym import Size, SizeExpr, axis_symbol, maximum, product


class Reduced:
    """The loop axes of a reduction: `axes` are bound, `index` reads the operand at one element of one result.

    `dims` are those reduced, ascending; `linear` numbers the elements of one result row-major.
    """

    __slots__ = ("axes", "dims", "index", "linear")

    def __init__(self, at: At, shape: Shape, dim: Dims, keepdim: bool, op: str, share: Size = 1) -> None:
        """With a `share` of 0 there are no elements; it is 1 otherwise."""
        self.dims = wrap_dims(dim, len(shape), op)
        outer = iter([axis for position, axis in enumerate(at) if not (keepdim and position in self.dims)])
        axes: list[SizeExpr] = []
        index: list[Size] = []
        self.linear: Size = 0
        for position, size in enumerate(shape):
            if position in self.dims:
                axes.append(axis_symbol(size if axes else size * share, f"r{position}"))
                index.append(axes[-1])
                self.linear = self.linear * size + axes[-1]
            else:
                index.append(next(outer))
        self.axes, self.index = tuple(axes), tuple(index)


def fold_scalar(kind: str, frame: Reduced, body: Scalar) -> Scalar:
    """Reduce `body` over a frame's axes in the order that its dims ask for.

    Without axes, the result is `body` itself.
    """
    return reduce(kind, frame.axes, body, reduction_order(frame.dims, len(frame.index))) if frame.axes else body


def sum_scalar(frame: Reduced, body: Scalar) -> Scalar:
    """The sum of `body` over a frame's axes, in the wider type in which it is joined."""
    total = total_dtype(body.type)
    if not frame.axes:
        return cast(body, total)
    return reduce("sum", frame.axes, body, reduction_order(frame.dims, len(frame.index)), total)


def signed_sum_scalar(frame: Reduced, body: Scalar, along: bool) -> Scalar:
    """Sum `body` over a frame's axes, starting from -0.0.

    The order is that of sums along the innermost dim where `along`, else that of sums of columns.
    """
    return reduce("signed_sum", frame.axes, body, LANES if along else COLUMNS, total_dtype(body.type))


def reduced_shape(shape: Shape, dim: Dims, keepdim: bool, op: str) -> Shape:
    """The shape of a result whose `dim` is reduced."""
    dims = wrap_dims(dim, len(shape), op)
    if keepdim:
        return tuple([1 if position in dims else size for position, size in enumerate(shape)])
    return tuple([size for position, size in enumerate(shape) if position not in dims])


def reduced_count(shape: Shape, dim: Dims, op: str) -> Size:
    """The number of elements that make one result."""
    return product([shape[position] for position in wrap_dims(dim, len(shape), op)])


def axes_tuple(array: Array, dim: Dims, op: str) -> tuple[int, ...]:
    """`dim` as numpy takes it."""
    return wrap_dims(dim, array.ndim, op)


def restored(value: Value, shape: Shape, dim: Dims, keepdim: bool, op: str) -> Value:
    """A reduced value with its dims back at size 1, so that it broadcasts against `shape`."""
    if not keepdim:
        for position in wrap_dims(dim, len(shape), op):
            value = unsqueeze(value, position)
    return value


def spread(value: Value, shape: Shape, dim: Dims, keepdim: bool, op: str) -> Value:
    """A reduced value repeated over the dims that were reduced."""
    return expand(restored(value, shape, dim, keepdim, op), shape)


def reduction_samples(rng: np.random.Generator) -> Iterator[Sample]:
    """All dims, the last, the first, several, kept and not, of size 0 and 1, and a 0-d tensor."""
    yield Sample(normal(rng, 3, 5))
    yield Sample(normal(rng, 3, 5), 1)
    yield Sample(normal(rng, 3, 5), 0, True)
    yield Sample(normal(rng, 2, 3, 4), (0, -1))
    yield Sample(normal(rng, 2, 3, 4), (1, 2), True)
    yield Sample(normal(rng, 4, 1), 1)
    yield Sample(normal(rng, 2, 300), -1)
    yield Sample(normal(rng))


sum_ = define(
    "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor",
    "The sum of elements; ints and bools are summed as int64.",
    facts=Fact.REDUCTION,
)


@sum_.meta
def sum_meta(input: TensorType, dim: Dims, keepdim: bool, dtype: DType | None) -> TensorType:
    shape = reduced_shape(input.shape, dim, keepdim, "sum")
    return TensorType(shape, dtype or promote_sum(input.dtype), input.device)


@sum_.ref
def sum_ref(input: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    result_dtype = _result_dtype(input, dtype)
    wide = compute_array(input.astype(result_dtype.numpy))
    return np.sum(wide, axes_tuple(input, dim, "sum"), dtype=wide.dtype, keepdims=keepdim).astype(result_dtype.numpy)


def _result_dtype(input: Array, dtype: DType | None) -> DType:
    own = from_numpy_dtype(input.dtype)
    assert own is not None
    return dtype or promote_sum(own)


@sum_.lower
def sum_lower(at: At, input: Operand, dim: Dims, keepdim: bool, dtype: DType | None) -> Scalar:
    frame = Reduced(at, input.shape, dim, keepdim, "sum")
    result_dtype = dtype or promote_sum(input.dtype)
    compute = compute_dtype(result_dtype)
    return cast(cast(sum_scalar(frame, cast(cast(input[frame.index], result_dtype), compute)), compute), result_dtype)


@sum_.vjp(types=("input",))
def sum_vjp(g: Value, input: TensorType, dim: Dims, keepdim: bool) -> Value:
    return convert(spread(g, input.shape, dim, keepdim, "sum"), input.dtype)


@sum_.samples
def sum_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from reduction_samples(rng)
    yield Sample(normal(rng, 2, 0), 1)


sum_repeated = define(
    "sum_repeated(Tensor input, int[] dim, *, bool along=True, Size share=1) -> Tensor",
    "The sum over dims in which a value was repeated, which stay as dims of size 1: the gradient of the repetition. "
    "The sum of one element has its bits, that of none is -0.0. `along`: in the order of sums along the innermost dim; "
    "else in that of sums of columns. With a `share` of 0 the sum is of no elements, with 1 of all.",
    facts=Fact.REDUCTION,
    variants="",
    dtypes="float",
)


@sum_repeated.meta
def sum_repeated_meta(input: TensorType, dim: Dims, along: bool, share: Size) -> TensorType:
    fits = not isinstance(share, int) or share in (0, 1)
    require(fits, "A002", "sum_repeated: share is 0 or 1", share=share)
    return TensorType(reduced_shape(input.shape, dim, True, "sum_repeated"), input.dtype, input.device)


@sum_repeated.ref
def sum_repeated_ref(input: Array, dim: Dims, along: bool, share: int) -> Array:
    wide = compute_array(input)
    axes = axes_tuple(input, dim, "sum_repeated")
    if not share:
        return np.full_like(np.sum(input, axes, keepdims=True), -0.0)
    return np.asarray(np.sum(wide, axes, dtype=wide.dtype, keepdims=True, initial=-0.0)).astype(input.dtype)


@sum_repeated.lower
def sum_repeated_lower(at: At, input: Operand, dim: Dims, along: bool, share: Size) -> Scalar:
    frame = Reduced(at, input.shape, dim, True, "sum_repeated", share)
    compute = compute_dtype(input.dtype)
    return cast(cast(signed_sum_scalar(frame, cast(input[frame.index], compute), along), compute), input.dtype)


@sum_repeated.vjp(types=("input",))
def sum_repeated_vjp(g: Value, input: TensorType, share: Size) -> Value:
    spread_out = expand(g, input.shape)
    if isinstance(share, int) and share == 1:
        return spread_out
    return where(ne(count_of(g, share), 0), spread_out, 0.0)


@sum_repeated.samples
def sum_repeated_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), (1,))
    yield Sample(normal(rng, 3, 5), (0,), along=False)
    yield Sample(normal(rng, 2, 3, 4), (0, 2))
    yield Sample(normal(rng, 2, 3, 1), (0, 2), along=False)


mean = define(
    "mean(Tensor input, int[]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor",
    "The sum of elements divided by their number; NaN where there are none. Integers need a floating-point dtype.",
    facts=Fact.REDUCTION,
    dtypes="inexact",
    variants="function method out",
)


@mean.meta
def mean_meta(input: TensorType, dim: Dims, keepdim: bool, dtype: DType | None) -> TensorType:
    type_ = TensorType(reduced_shape(input.shape, dim, keepdim, "mean"), dtype or input.dtype, input.device)
    require_floating(type_, "mean")
    return type_


@mean.ref
def mean_ref(input: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    result_dtype = dtype.numpy if dtype else input.dtype
    wide = compute_array(input.astype(result_dtype))
    axes = axes_tuple(input, dim, "mean")
    count = np.prod([input.shape[axis] for axis in axes], dtype=np.float64)
    with np.errstate(all="ignore"):
        return (np.sum(wide, axes, keepdims=keepdim) / np.real(wide).dtype.type(count)).astype(result_dtype)


@mean.lower
def mean_lower(at: At, input: Operand, dim: Dims, keepdim: bool, dtype: DType | None) -> Scalar:
    frame = Reduced(at, input.shape, dim, keepdim, "mean")
    result_dtype = dtype or input.dtype
    compute = compute_dtype(result_dtype)
    total = sum_scalar(frame, cast(cast(input[frame.index], result_dtype), compute))
    return cast(_quotient(total, reduced_count(input.shape, dim, "mean"), 0, compute), result_dtype)


def _quotient(total: Scalar, count: Size, correction: float, dtype: DType) -> Scalar:
    """Divide a sum by the number of its elements less a correction, and round to a dtype.

    The division is in the sum's type, by parts where that is complex.
    """
    if total.type.is_complex:
        parts = [_quotient(apply(part, total), count, correction, real_dtype(dtype)) for part in ("real", "imag")]
        return apply("complex", *parts)
    if isinstance(count, int):
        return cast(total / max(count - correction, 0), dtype)
    divisor = lift(count, total.type)
    if correction:
        divisor = apply("maximum", divisor - correction, constant(0, total.type))
    return cast(total / divisor, dtype)


@mean.vjp(types=("input",))
def mean_vjp(g: Value, input: TensorType, dim: Dims, keepdim: bool) -> Value:
    shared = g / count_of(g, reduced_count(input.shape, dim, "mean"))
    return convert(spread(shared, input.shape, dim, keepdim, "mean"), input.dtype)


@mean.samples
def mean_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from reduction_samples(rng)


corrected_mean = define(
    "corrected_mean(Tensor input, int[]? dim=None, bool keepdim=False, *, float correction=1) -> Tensor",
    "The sum of elements divided by their number less `correction`; NaN or infinite where that is not above 0.",
    facts=Fact.REDUCTION,
    dtypes="float",
    variants="",
)


@corrected_mean.meta
def corrected_mean_meta(input: TensorType, dim: Dims, keepdim: bool, correction: float) -> TensorType:
    return mean_meta(input, dim, keepdim, None)


@corrected_mean.ref
def corrected_mean_ref(input: Array, dim: Dims, keepdim: bool, correction: float) -> Array:
    wide = compute_array(input)
    axes = axes_tuple(input, dim, "mean")
    count = np.prod([input.shape[axis] for axis in axes], dtype=np.float64)
    with np.errstate(all="ignore"):
        return (np.sum(wide, axes, keepdims=keepdim) / wide.dtype.type(max(count - correction, 0))).astype(input.dtype)


@corrected_mean.lower
def corrected_mean_lower(at: At, input: Operand, dim: Dims, keepdim: bool, correction: float) -> Scalar:
    frame = Reduced(at, input.shape, dim, keepdim, "mean")
    compute = compute_dtype(input.dtype)
    total = sum_scalar(frame, cast(input[frame.index], compute))
    return cast(_quotient(total, reduced_count(input.shape, dim, "mean"), correction, compute), input.dtype)


@corrected_mean.vjp(types=("input",))
def corrected_mean_vjp(g: Value, input: TensorType, dim: Dims, keepdim: bool, correction: float) -> Value:
    count = reduced_count(input.shape, dim, "mean")
    divisor: Value | float
    if isinstance(count, int):
        divisor = max(count - correction, 0)
    elif isinstance(correction, int):
        divisor = count_of(g, maximum(count - correction, 0))
    else:
        divisor = rounding.maximum(count_of(g, count) - correction, 0.0)
    return spread(g / divisor, input.shape, dim, keepdim, "mean")


@corrected_mean.samples
def corrected_mean_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5))
    yield Sample(normal(rng, 3, 5), 1, correction=0)
    yield Sample(normal(rng, 3, 5), 0, True, correction=1.5)
    yield Sample(normal(rng, 2, 3, 4), (0, 2))


prod = define(
    "prod(Tensor input, int[]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor",
    "The product of elements; ints and bools are multiplied as int64.",
    facts=Fact.REDUCTION | Fact.COMPLEX_HOST,
    autocast="float32",
)


@prod.decompose
def prod_decompose(input: Value, dim: Dims, keepdim: bool, dtype: DType | None) -> Value:
    dtype = dtype or promote_sum(input.dtype)
    return (complex_product if dtype.is_complex else real_product)(convert(input, dtype), dim, keepdim)


@prod.ref
def prod_ref(input: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    result_dtype = _result_dtype(input, dtype)
    wide = compute_array(input.astype(result_dtype.numpy))
    return np.prod(wide, axes_tuple(input, dim, "prod"), dtype=wide.dtype, keepdims=keepdim).astype(result_dtype.numpy)


@prod.vjp
def prod_vjp(g: Value, input: Value, dim: Dims, keepdim: bool) -> Value:
    # The product of all others is out / x, but for zeros: one zero gets the product of the rest, two leave nothing.
    is_zero = eq(input, 0)
    solid = where(is_zero, 1.0, input)
    rest = prod(solid, dim, True)
    zeros = sum_(is_zero, dim, True)
    others = where(eq(zeros, 0), rest / solid, where(eq(zeros, 1) & is_zero, rest, 0.0))
    return restored(g, input.shape, dim, keepdim, "prod") * conjugate(others)


@prod.samples
def prod_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from reduction_samples(rng)


def _product_type(name: str, input: TensorType, dim: Dims, keepdim: bool) -> TensorType:
    return TensorType(reduced_shape(input.shape, dim, keepdim, name), input.dtype, input.device)


real_product = define(
    "real_product(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
    "The product of real elements, in their dtype.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="",
)


@real_product.meta
def real_product_meta(input: TensorType, dim: Dims, keepdim: bool) -> TensorType:
    return _product_type("prod", input, dim, keepdim)


@real_product.ref
def real_product_ref(input: Array, dim: Dims, keepdim: bool) -> Array:
    wide = compute_array(input)
    return np.prod(wide, axes_tuple(input, dim, "prod"), dtype=wide.dtype, keepdims=keepdim).astype(input.dtype)


@real_product.lower
def real_product_lower(at: At, input: Operand, dim: Dims, keepdim: bool) -> Scalar:
    frame = Reduced(at, input.shape, dim, keepdim, "prod")
    return cast(fold_scalar("prod", frame, cast(input[frame.index], compute_dtype(input.dtype))), input.dtype)


@real_product.samples
def real_product_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from reduction_samples(rng)


complex_product = define(
    "complex_product(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
    "The product of complex elements, in complex128. A host call: each step needs both parts of the one before.",
    facts=Fact.HOST | Fact.NONDIFFERENTIABLE,
    dtypes="complex",
    variants="",
)


@complex_product.meta
def complex_product_meta(input: TensorType, dim: Dims, keepdim: bool) -> TensorType:
    return _product_type("prod", input, dim, keepdim)


@complex_product.ref
def complex_product_ref(input: Array, dim: Dims, keepdim: bool) -> Array:
    with np.errstate(all="ignore"):
        product = np.prod(input, axes_tuple(input, dim, "prod"), dtype=np.complex128, keepdims=keepdim)
        return np.asarray(product).astype(input.dtype)


@complex_product.samples
def complex_product_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for sample in reduction_samples(rng):
        yield Sample(sample.args[0] * np.complex64(1 + 0.5j), *sample.args[1:])


any_ = define(
    "any(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
    "Whether some element is not 0.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
    variants="function method out",
)


def _truth_meta(name: str, input: TensorType, dim: Dims, keepdim: bool) -> TensorType:
    """The type of a result; `dim=()` reduces no dim, as in PyTorch for these two operators alone."""
    shape = input.shape if dim == () else reduced_shape(input.shape, dim, keepdim, name)
    return TensorType(shape, _truth_dtype(input.dtype), input.device)


def _truth_lower(kind: str, at: At, input: Operand, dim: Dims, keepdim: bool) -> Scalar:
    if dim == ():
        return cast(cast(input[at], bool_), _truth_dtype(input.dtype))
    frame = Reduced(at, input.shape, dim, keepdim, kind)
    return cast(fold_scalar(kind, frame, cast(input[frame.index], bool_)), _truth_dtype(input.dtype))


def _truth_dtype(dtype: DType) -> DType:
    """bool, but uint8 for uint8, which was the bool of early PyTorch."""
    return uint8 if dtype is uint8 else bool_


def _truth_array(function: Any, input: Array, dim: Dims, keepdim: bool) -> Array:
    dims = () if dim == () else wrap_dims(dim, input.ndim, "any")
    truth = np.asarray(function(input != 0, dims, keepdims=keepdim))
    return truth.astype(np.uint8) if input.dtype == np.uint8 else truth


@any_.meta
def any_meta(input: TensorType, dim: Dims, keepdim: bool) -> TensorType:
    return _truth_meta("any", input, dim, keepdim)


@any_.ref
def any_ref(input: Array, dim: Dims, keepdim: bool) -> Array:
    return _truth_array(np.any, input, dim, keepdim)


@any_.lower
def any_lower(at: At, input: Operand, dim: Dims, keepdim: bool) -> Scalar:
    return _truth_lower("any", at, input, dim, keepdim)


@any_.samples
def any_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.random((3, 5)) < 0.1)
    yield Sample(rng.random((3, 5)) < 0.2, 1)
    yield Sample(normal(rng, 3, 5), 0, True)
    yield Sample((rng.random((3, 5)) < 0.2).astype(np.uint8), 1)
    yield Sample(rng.random((3, 5)) < 0.2, ())


all_ = define(
    "all(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
    "Whether no element is 0.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
    variants="function method out",
)


@all_.meta
def all_meta(input: TensorType, dim: Dims, keepdim: bool) -> TensorType:
    return _truth_meta("all", input, dim, keepdim)


@all_.ref
def all_ref(input: Array, dim: Dims, keepdim: bool) -> Array:
    return _truth_array(np.all, input, dim, keepdim)


@all_.lower
def all_lower(at: At, input: Operand, dim: Dims, keepdim: bool) -> Scalar:
    return _truth_lower("all", at, input, dim, keepdim)


@all_.samples
def all_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.random((3, 5)) < 0.9)
    yield Sample(rng.random((3, 5)) < 0.8, 1)
    yield Sample(normal(rng, 3, 5), (), True)
    yield Sample(normal(rng, 3, 5), 0, True)


count_nonzero = define(
    "count_nonzero(Tensor input, int[]? dim=None) -> Tensor",
    "The number of elements that are not 0.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
)


@count_nonzero.meta
def count_nonzero_meta(input: TensorType, dim: Dims) -> TensorType:
    return TensorType(reduced_shape(input.shape, dim, False, "count_nonzero"), int64, input.device)


@count_nonzero.ref
def count_nonzero_ref(input: Array, dim: Dims) -> Array:
    return np.asarray(np.sum(input != 0, axes_tuple(input, dim, "count_nonzero"), dtype=np.int64))


@count_nonzero.lower
def count_nonzero_lower(at: At, input: Operand, dim: Dims) -> Scalar:
    frame = Reduced(at, input.shape, dim, False, "count_nonzero")
    hit = cast(input[frame.index], bool_)
    return fold_scalar("sum", frame, select(hit, constant(1, int64), constant(0, int64)))


@count_nonzero.samples
def count_nonzero_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.where(rng.random((3, 5)) < 0.5, 0, normal(rng, 3, 5)))
    yield Sample(rng.integers(0, 2, (3, 5)), 1)
