"""Writing where several elements meet at one place and are combined: sums, means, products, extremes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import Kind
from rushlight.ir.loops import Operand, Scatter, axes_of
from rushlight.ir.scalar import identity
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import filled, zeros_of
from rushlight.ops.dims import Array, At, compute_array, convert, integers, normal, replaced, same_known, wrap_dim
from rushlight.ops.index.read import gather, require_inside, require_integers, wrapped
from rushlight.ops.index.write import scatter, scatter_add
from rushlight.ops.pointwise.arithmetic import div, floor_divide
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.view.part import slice_, slice_backward
from rushlight.support.errors import require

_KINDS = {"prod": "prod", "amax": "max", "amin": "min"}
_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")

scatter_combine = define(
    "scatter_combine(Tensor input, int dim, Tensor index, Tensor src, str kind) -> Tensor",
    "The input with the source's elements multiplied into the places along a dim, or their extremes taken there.",
    facts=Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="",
)


def _check(op: str, input: Any, dim: int, index: Any, src: Any) -> None:
    """The errors of operands, given as types or as values, that do not fit each other."""
    require_integers(op, index=index)
    fits = input.ndim == index.ndim == src.ndim
    require(fits, "S002", f"{op}: input, index and source differ in rank", input=input, index=index, src=src)
    wrap_dim(dim, input.ndim, op)
    require_inside(op, index, input, dim)
    require_inside(op, index, src)
    require(src.dtype is input.dtype, "D002", f"{op}: input and source differ in dtype", input=input, src=src)


@scatter_combine.meta
def scatter_combine_meta(input: TensorType, dim: int, index: TensorType, src: TensorType, kind: str) -> TensorType:
    require(kind in _KINDS, "A002", f"scatter_combine: kind is one of {', '.join(_KINDS)}", given=kind)
    _check("scatter_reduce", input, dim, index, src)
    return TensorType(input.shape, input.dtype, input.device)


def _grid(index: Array, dim: int) -> tuple[Any, ...]:
    grid: list[Any] = list(np.ogrid[tuple([slice(size) for size in index.shape])])
    if grid:
        grid[dim] = index
    return tuple(grid)


_FOLDS: dict[str, Any] = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


@scatter_combine.ref
def scatter_combine_ref(input: Array, dim: int, index: Array, src: Array, kind: str) -> Array:
    result = np.array(compute_array(input))
    part = compute_array(src)[tuple([slice(size) for size in index.shape])]
    fold = np.logical_and if kind == "prod" and input.dtype == np.bool_ else _FOLDS[kind]
    with np.errstate(all="ignore"):
        fold.at(result, _grid(index, dim), part)
    return result.astype(input.dtype)


@scatter_combine.lower
def scatter_combine_lower(at: At, input: Operand, dim: int, index: Operand, src: Operand, kind: str) -> Scatter:
    axes = axes_of(index.shape, "s")
    if not input.shape:
        return Scatter(input[()], axes, (), src[()], _KINDS[kind])
    number = wrap_dim(dim, len(input.shape), "scatter_reduce")
    position = wrapped(index[axes], input.shape[number])
    return Scatter(input[at], axes, replaced(axes, number, position), src[axes], _KINDS[kind])


@scatter_combine.samples
def scatter_combine_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1, integers(rng, -5, 5, 3, 7), normal(rng, 3, 7), "amax")
    yield Sample(normal(rng, 3, 5), 0, integers(rng, 0, 3, 2, 4), normal(rng, 4, 5), "prod")


scatter_reduce = define(
    "scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    "The input with what the source has for each place along a dim reduced into it: sum, prod, mean, amax or amin. "
    "Without `include_self` the input's elements at these places do not take part.",
    variants="function method inplace out",
)


def _own_part(src: Value, index: Value) -> Value:
    """The source's elements that the index has places for."""
    for dim, size in enumerate(index.shape):
        if not same_known(src.shape[dim], size):
            src = slice_(src, dim, 0, size)
    return src


def _counts(input: Value, dim: int, index: Value, include_self: bool) -> Value:
    """How many elements meet at each place, at least 1."""
    start = filled(input, input.shape, 1 if include_self else 0)
    count = scatter_add(start, dim, index, filled(input, index.shape, 1))
    return where(eq(count, 0), filled(input, (), 1), count)


@scatter_reduce.decompose
def scatter_reduce_decompose(
    input: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool
) -> Value:
    require(reduce in _REDUCTIONS, "A002", f"scatter_reduce: reduce is one of {', '.join(_REDUCTIONS)}", given=reduce)
    require(
        not input.dtype.is_complex or reduce in ("sum", "mean"), "D006", "scatter_reduce: not for complex", input=input
    )
    _check("scatter_reduce", input, dim, index, src)
    neutral = identity(_KINDS.get(reduce, "sum"), input.dtype)
    start = input if include_self else scatter(input, dim, index, filled(input, (), neutral))
    src = _own_part(src, index)
    if reduce in _KINDS:
        return scatter_combine(start, dim, index, src, reduce)
    total = scatter_add(start, dim, index, src)
    if reduce == "sum":
        return total
    count = _counts(input, dim, index, include_self)
    return div(total, count) if input.dtype.kind >= Kind.FLOAT else floor_divide(total, count)


@scatter_reduce.ref
def scatter_reduce_ref(input: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool) -> Array:
    result, part, grid = np.array(input), src[tuple([slice(size) for size in index.shape])], _grid(index, dim)
    if not include_self:
        result[grid] = _neutral_of(input, reduce)
    if reduce in _KINDS:
        return scatter_combine_ref(result, dim, index, part, reduce)
    wide = compute_array(result)
    np.add.at(wide, grid, compute_array(part))
    if reduce == "sum":
        return wide.astype(input.dtype)
    count = np.full(input.shape, 1 if include_self else 0)
    np.add.at(count, grid, 1)
    count = np.maximum(count, 1)
    return (wide // count if input.dtype.kind in "iub" else wide / count).astype(input.dtype)


def _neutral_of(array: Array, reduce: str) -> complex:
    if reduce not in ("amax", "amin"):
        return 1 if reduce == "prod" else 0
    if array.dtype.kind == "b":
        return reduce == "amin"
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        return limits.min if reduce == "amax" else limits.max
    return -np.inf if reduce == "amax" else np.inf


@scatter_reduce.vjp
def scatter_reduce_vjp(
    g: Value, out: Value, input: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool
) -> Gradients:
    part = _own_part(src, index)
    if reduce == "sum":
        own, other = g, gather(g, dim, index)
    elif reduce == "mean":
        own = div(g, convert(_counts(input, dim, index, include_self), g.dtype))
        other = gather(own, dim, index)
    elif reduce == "prod":
        own, other = _product_gradients(g, out, input, dim, index, part, include_self)
    else:
        hit, hits = eq(input, out), eq(part, gather(out, dim, index))
        shared = div(g, scatter_add(convert(hit, g.dtype), dim, index, convert(hits, g.dtype)))
        own, other = where(hit, shared, 0.0), where(hits, gather(shared, dim, index), 0.0)
    if not include_self:
        own = scatter(own, dim, index, 0)
    return own, None, _as_long(other, src)


def _product_gradients(
    g: Value, out: Value, input: Value, dim: int, index: Value, src: Value, include_self: bool
) -> tuple[Value, Value]:
    """Of each factor the product of the others: where one factor is 0, the product without it."""
    solid = where(eq(input, 0), 1.0, input)
    own = div(g * scatter_reduce(solid, dim, index, src, "prod", include_self=include_self), solid)
    zero = eq(src, 0)
    zeros = scatter_add(zeros_of(g, input.shape), dim, index, convert(zero, g.dtype))
    single = zero & eq(gather(zeros, dim, index), 1)
    rest = scatter_reduce(input, dim, index, where(single, 1.0, src), "prod", include_self=include_self)
    others = div(gather(g * out, dim, index), where(zero, 1.0, src))
    return own, where(single, gather(g * rest, dim, index), others)


def _as_long(value: Value, like: Value) -> Value:
    """Zeros after the elements of each dim, up to the shape of another value."""
    for dim, size in enumerate(like.shape):
        if not same_known(value.shape[dim], size):
            shape = replaced(value.shape, dim, size)
            value = slice_backward(value, shape, dim, 0, value.shape[dim], 1)
    return value


@scatter_reduce.samples
def scatter_reduce_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1, integers(rng, -5, 5, 3, 7), normal(rng, 3, 7), "amax")
    yield Sample(normal(rng, 3, 5), 0, integers(rng, 0, 3, 2, 4), normal(rng, 4, 5), "prod", include_self=False)
    yield Sample(normal(rng, 3, 5), 0, integers(rng, 0, 3, 2, 4), normal(rng, 2, 4), "mean")
