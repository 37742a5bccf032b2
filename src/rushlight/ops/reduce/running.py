"""Running extremes and logarithms of sums along a dim: element i is of elements 0 to i."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import Kind, bool_, compute_dtype, int64, uint8
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import SEQUENTIAL, Scalar, cast, reduce
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import positions, zeros_of
from rushlight.ops.dims import (
    Array,
    At,
    compute_array,
    convert,
    normal,
    own_dim,
    replaced,
    same_shape,
    widened,
    wrap_dim,
)
from rushlight.ops.index.write import scatter_add
from rushlight.ops.pointwise.comparison import eq, isnan
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Fact, Gradients, Operator, Sample, define
from rushlight.ops.view.reorder import alias, unsqueeze
from rushlight.support.errors import require
from rushlight.sym import axis_symbol

running_extreme = define(
    "running_extreme(Tensor input, int dim, bool largest) -> Tensor",
    "The largest or smallest element so far along a dim; NaN from the first NaN on.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="",
)


@running_extreme.meta
def running_extreme_meta(input: TensorType, dim: int, largest: bool) -> TensorType:
    wrap_dim(dim, input.ndim, "running_extreme")
    return TensorType(input.shape, input.dtype, input.device)


@running_extreme.ref
def running_extreme_ref(input: Array, dim: int, largest: bool) -> Array:
    if not input.ndim:
        return input
    return (np.maximum if largest else np.minimum).accumulate(compute_array(input), dim).astype(input.dtype)


@running_extreme.lower
def running_extreme_lower(at: At, input: Operand, dim: int, largest: bool) -> Scalar:
    if not at:
        return input[()]
    position = wrap_dim(dim, len(at), "running_extreme")
    k = axis_symbol(at[position] + 1, "k")
    wide = uint8 if input.dtype is bool_ else compute_dtype(input.dtype)
    body = cast(input[replaced(at, position, k)], wide)
    return cast(reduce("max" if largest else "min", (k,), body, SEQUENTIAL), input.dtype)


@running_extreme.samples
def running_extreme_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1, True)
    yield Sample(np.array([[1.0, np.nan], [2.0, 0.5], [3.0, 7.0]], np.float32), 0, False)


def _running(name: str, doc: str, largest: bool) -> Operator:
    """An operator whose results are running extremes and their places: of equal elements the last so far."""
    op = define(
        f"{name}(Tensor input, int dim) -> (Tensor values, Tensor indices)",
        doc,
        dtypes="real",
    )

    @op.decompose
    def running_decompose(input: Value, dim: int) -> tuple[Value, Value]:
        position = wrap_dim(dim, input.ndim, name)
        if not input.ndim:
            return alias(input), zeros_of(input, (), int64)
        values = running_extreme(input, position, largest)
        hit = eq(input, values)
        if input.dtype.kind is Kind.FLOAT:
            hit = hit | isnan(input)
        own = positions(input, input.shape[position])
        for _ in range(input.ndim - 1 - position):
            own = unsqueeze(own, -1)
        return values, running_extreme(where(hit, own, 0), position, True)

    @op.ref
    def running_ref(input: Array, dim: int) -> tuple[Array, Array]:
        if not input.ndim:
            return input, np.zeros((), np.int64)
        values = running_extreme_ref(input, dim, largest)
        wide = compute_array(input)
        own = np.arange(input.shape[dim]).reshape([-1] + [1] * (input.ndim - 1 - dim % input.ndim))
        hits = np.where((wide == compute_array(values)) | (wide != wide), own, 0)
        return values, np.maximum.accumulate(hits, dim)

    @op.vjp(types=("input",))
    def running_vjp(g: Gradients, indices: Value, input: TensorType, dim: int) -> Value | None:
        if g[0] is None or not input.shape:
            return g[0]
        wide = widened(g[0])
        return convert(scatter_add(zeros_of(wide, input.shape), dim, indices, wide), input.dtype)

    @op.samples
    def running_samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(normal(rng, 3, 5), 1)
        yield Sample(normal(rng, 2, 3, 4), -2)
        yield Sample(normal(rng), 0)

    return op


cummax = _running("cummax", "The largest element so far along a dim, and the last place where it stood.", True)
cummin = _running("cummin", "The smallest element so far along a dim, and the last place where it stood.", False)


logcumsumexp = define(
    "logcumsumexp(Tensor input, int dim) -> Tensor",
    "The logarithm of running sums of exponentials along a dim. A host call, one step after the other.",
    facts=Fact.HOST,
    dtypes="inexact",
    variants="function method inplace out",
)


@logcumsumexp.meta
def logcumsumexp_meta(input: TensorType, dim: int) -> TensorType:
    wrap_dim(dim, input.ndim, "logcumsumexp")
    return TensorType(input.shape, input.dtype, input.device)


@logcumsumexp.ref
def logcumsumexp_ref(input: Array, dim: int) -> Array:
    if not input.ndim or not input.size:
        return input
    if input.dtype.kind == "c":
        return _complex_running(input, dim)
    wide = compute_array(input).astype(np.float64)
    with np.errstate(all="ignore"):
        return np.logaddexp.accumulate(wide, dim).astype(input.dtype)


def _complex_running(input: Array, dim: int) -> Array:
    rows = np.moveaxis(input.astype(np.complex128), dim, 0)
    result = np.array(rows)
    with np.errstate(all="ignore"):
        for position in range(1, len(rows)):
            a, b = result[position - 1], rows[position]
            low, high = np.where(a.real < b.real, (a, b), (b, a))  # the angle goes on beyond a turn, as in PyTorch
            result[position] = np.where(np.isneginf(high.real), high, np.log1p(np.exp(low - high)) + high)
    return np.moveaxis(result, 0, dim).astype(input.dtype)


@logcumsumexp.vjp
def logcumsumexp_vjp(g: Value, out: Value, input: Value, dim: int) -> Value:
    return relative_sums(g, conjugate(input), conjugate(out), dim, True) if input.ndim else g


@logcumsumexp.samples
def logcumsumexp_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1)
    yield Sample(normal(rng, 3, 2) * 100, 0)


relative_sums = define(
    "relative_sums(Tensor values, Tensor input, Tensor total, int dim, bool backwards) -> Tensor",
    "The running sums of values * exp(input) along a dim, times exp(-total), where total is logcumsumexp of the input. "
    "Backwards: the sums from behind of values * exp(-total), times exp(input). Neither overflows.",
    facts=Fact.HOST,
    dtypes="inexact",
    variants="",
)


@relative_sums.meta
def relative_sums_meta(
    values: TensorType, input: TensorType, total: TensorType, dim: int, backwards: bool
) -> TensorType:
    own_dim(dim, values.shape, "relative_sums")
    fits = same_shape(values.shape, input.shape) and same_shape(values.shape, total.shape)
    require(fits, "S009", "relative_sums: shapes differ", values=values, input=input, total=total)
    return TensorType(values.shape, values.dtype, values.device)


@relative_sums.ref
def relative_sums_ref(values: Array, input: Array, total: Array, dim: int, backwards: bool) -> Array:
    if values.dtype.kind == "c":
        return _complex_relative(values, input, total, dim, backwards)
    v, x, t = [compute_array(array).astype(np.float64) for array in (values, input, total)]
    inner, outer = (-t, x) if backwards else (x, -t)
    with np.errstate(all="ignore"):
        parts = [_exponential_of_run(np.log(np.maximum(part, 0.0)) + inner, outer, dim, backwards) for part in (v, -v)]
        return (parts[0] - parts[1]).astype(values.dtype)


def _exponential_of_run(logarithms: Array, outer: Array, dim: int, backwards: bool) -> Array:
    if not logarithms.size:
        return logarithms
    turned = np.flip(logarithms, dim) if backwards else logarithms
    totals = np.logaddexp.accumulate(turned, dim)
    return np.exp((np.flip(totals, dim) if backwards else totals) + outer)


def _complex_relative(values: Array, input: Array, total: Array, dim: int, backwards: bool) -> Array:
    v, x, t = [np.moveaxis(array.astype(np.complex128), dim, 0) for array in (values, input, total)]
    result = v * (1 if backwards else np.exp(x - t))
    for position in range(len(v) - 2, -1, -1) if backwards else range(1, len(v)):
        if backwards:
            result[position] += np.exp(t[position] - t[position + 1]) * result[position + 1]
        else:
            result[position] += np.exp(t[position - 1] - t[position]) * result[position - 1]
    result = result * np.exp(x - t) if backwards else result
    return np.moveaxis(result, 0, dim).astype(values.dtype)


@relative_sums.vjp
def relative_sums_vjp(
    g: Value, out: Value, values: Value, input: Value, total: Value, dim: int, backwards: bool
) -> Gradients:
    own = relative_sums(g, conjugate(input), conjugate(total), dim, not backwards)
    at_values, at_result = conjugate(values) * own, g * conjugate(out)
    return (own, at_result, -at_values) if backwards else (own, at_values, -at_result)


@relative_sums.samples
def relative_sums_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for backwards in (False, True):
        x = normal(rng, 3, 4)
        yield Sample(normal(rng, 3, 4), x, logcumsumexp_ref(x, 1), 1, backwards)
