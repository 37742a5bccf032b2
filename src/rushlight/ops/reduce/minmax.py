"""The largest and smallest elements and their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import Kind, bool_, compute_dtype, int64, uint8
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, cast, constant, index, is_nan, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import positions
from rushlight.ops.dims import Array, At, Dims, Shape, normal, wrap_dim
from rushlight.ops.index.read import gather
from rushlight.ops.pointwise.comparison import eq, isnan
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Fact, Gradients, Operator, Sample, define
from rushlight.ops.reduce.reduction import (
    Reduced,
    axes_tuple,
    fold_scalar,
    reduced_count,
    reduced_shape,
    reduction_samples,
    restored,
    sum_,
)
from rushlight.ops.view.reorder import alias, squeeze, unsqueeze
from rushlight.support.errors import fail
from rushlight.sym import ne, required


def require_elements(shape: Shape, dim: Dims, op: str) -> None:
    """Refuse a reduction over no elements (I007) that has no value for them."""
    if not required(ne(reduced_count(shape, dim, op), 0), f"{op}: there is an element to choose from"):
        fail("I007", f"{op}: there is no element to choose from", input=shape, dim=dim)


def minmax_scalar(kind: str, frame: Reduced, input: Operand) -> Scalar:
    """The largest ("max") or smallest ("min") element, NaN if there is one."""
    return cast(_minmax_wide(kind, frame, input), input.dtype)


def _minmax_wide(kind: str, frame: Reduced, input: Operand) -> Scalar:
    return fold_scalar(kind, frame, _widened_element(frame, input))


def _widened_element(frame: Reduced, input: Operand) -> Scalar:
    """The element in a dtype that compares: 16-bit floats as float32, bools as uint8."""
    body = input[frame.index]
    return cast(body, uint8) if body.type is bool_ else cast(body, compute_dtype(body.type))


def _minmax(name: str, doc: str, kind: str, fold: Callable[..., object], lowest: bool = False) -> Operator:
    """An operator that folds dims by "max" or "min"; `fold` is numpy's name for it.

    If `lowest`, the operator is internal, and the result of no elements is the least value of the dtype.
    """
    op = define(
        f"{name}(Tensor input, int[] dim=(), bool keepdim=False) -> Tensor",
        doc,
        facts=Fact.REDUCTION,
        dtypes="real",
        variants="" if lowest else "function method out",
    )

    @op.meta
    def minmax_meta(input: TensorType, dim: Dims, keepdim: bool) -> TensorType:
        if not lowest:
            require_elements(input.shape, dim, name)
        return TensorType(reduced_shape(input.shape, dim, keepdim, name), input.dtype, input.device)

    @op.ref
    def minmax_ref(input: Array, dim: Dims, keepdim: bool) -> Array:
        start = {"initial": _least(input.dtype)} if lowest else {}
        return _folded(fold, input, dim, keepdim, name, **start)

    @op.lower
    def minmax_lower(at: At, input: Operand, dim: Dims, keepdim: bool) -> Scalar:
        return minmax_scalar(kind, Reduced(at, input.shape, dim, keepdim, name), input)

    @op.vjp
    def minmax_vjp(g: Value, out: Value, input: Value, dim: Dims, keepdim: bool) -> Value:
        # Elements that tie for the extreme share the gradient evenly, as in PyTorch; NaNs tie with each other.
        extreme = restored(out, input.shape, dim, keepdim, name)
        hit = eq(input, extreme) | (isnan(input) & isnan(extreme))
        shared = restored(g, input.shape, dim, keepdim, name) / sum_(hit, dim, True)
        return where(hit, shared, 0.0)

    @op.samples
    def minmax_samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield from reduction_samples(rng)
        if lowest:
            yield Sample(normal(rng, 3, 0), (1,), True)

    return op


def _folded(fold: Callable[..., object], input: Array, dim: Dims, keepdim: bool, op: str, **start: float) -> Array:
    return np.asarray(fold(input, axes_tuple(input, dim, op), keepdims=keepdim, **start))


def _least(dtype: np.dtype[Any]) -> float:
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


_ELEMENT = "The {} element, NaN if there is one. Elements that tie share the gradient."
amax = _minmax("amax", _ELEMENT.format("largest"), "max", np.max)
amax_or_lowest = _minmax(
    "amax_or_lowest",
    "The largest element, the least of its dtype where there is none, NaN if there is one.",
    "max",
    np.max,
    lowest=True,
)
amin = _minmax("amin", _ELEMENT.format("smallest"), "min", np.min)


def _place_lower(kind: str, at: At, input: Operand, dim: int | None, keepdim: bool, op: str) -> Scalar:
    # The smallest place that holds the extreme; a NaN counts as the extreme.
    frame = Reduced(at, input.shape, dim, keepdim, op)
    if not frame.axes:
        return constant(0, int64)
    again = Reduced(at, input.shape, dim, keepdim, op)
    element = _widened_element(again, input)
    hit = element.equals(_minmax_wide(kind, frame, input))
    if element.type.kind is Kind.FLOAT:
        hit = hit | is_nan(element)
    nowhere = index(reduced_count(input.shape, dim, op))
    return fold_scalar("min", again, select(hit, index(again.linear), nowhere))


def _place_ref(function: Any, input: Array, dim: int | None, keepdim: bool) -> Array:
    if input.ndim == 0:
        return np.array(0, np.int64)
    return np.asarray(function(input, axis=dim, keepdims=keepdim)).astype(np.int64)


def _place_meta(input: TensorType, dim: int | None, keepdim: bool, op: str) -> TensorType:
    require_elements(input.shape, dim, op)
    return TensorType(reduced_shape(input.shape, dim, keepdim, op), int64, input.device)


argmax = define(
    "argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor",
    "The place of the largest element, the first of equals; NaN is largest. Without a dim, places count row-major.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="function method out",
)


@argmax.meta
def argmax_meta(input: TensorType, dim: int | None, keepdim: bool) -> TensorType:
    return _place_meta(input, dim, keepdim, "argmax")


@argmax.ref
def argmax_ref(input: Array, dim: int | None, keepdim: bool) -> Array:
    return _place_ref(np.argmax, input, dim, keepdim)


@argmax.lower
def argmax_lower(at: At, input: Operand, dim: int | None, keepdim: bool) -> Scalar:
    return _place_lower("max", at, input, dim, keepdim, "argmax")


@argmax.samples
def argmax_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5))
    yield Sample(normal(rng, 3, 5), 1)
    yield Sample(normal(rng, 2, 3, 4), 0, True)
    yield Sample(np.array([1.0, np.nan, 2.0, np.nan], np.float32))
    yield Sample(normal(rng))


argmin = define(
    "argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor",
    "The place of the smallest element, the first of equals; NaN is smallest. Without a dim, places count row-major.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="function method out",
)


@argmin.meta
def argmin_meta(input: TensorType, dim: int | None, keepdim: bool) -> TensorType:
    return _place_meta(input, dim, keepdim, "argmin")


@argmin.ref
def argmin_ref(input: Array, dim: int | None, keepdim: bool) -> Array:
    return _place_ref(np.argmin, input, dim, keepdim)


@argmin.lower
def argmin_lower(at: At, input: Operand, dim: int | None, keepdim: bool) -> Scalar:
    return _place_lower("min", at, input, dim, keepdim, "argmin")


@argmin.samples
def argmin_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from argmax_samples(rng)


max_ = define("max(Tensor input) -> Tensor", "The largest element of all.", dtypes="real")


@max_.decompose
def max_decompose(input: Value) -> Value:
    return amax(input, ())


@max_.ref
def max_ref(input: Array) -> Array:
    return np.asarray(np.max(input))


@max_.samples
def max_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5))


min_ = define("min(Tensor input) -> Tensor", "The smallest element of all.", dtypes="real")


@min_.decompose
def min_decompose(input: Value) -> Value:
    return amin(input, ())


@min_.ref
def min_ref(input: Array) -> Array:
    return np.asarray(np.min(input))


@min_.samples
def min_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5))


max_dim = define(
    "max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "The largest elements along a dim and their places.",
    dtypes="real",
)
min_dim = define(
    "min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "The smallest elements along a dim and their places.",
    dtypes="real",
)


def _minmax_along(index_operator: Operator, input: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    wrap_dim(dim, input.ndim, "max" if index_operator is argmax else "min")
    if input.ndim == 0:
        return alias(input), index_operator(input)
    indices = index_operator(input, dim, True)
    values = gather(input, dim, indices)
    if keepdim:
        return values, indices
    return squeeze(values, dim), squeeze(indices, dim)


def _minmax_along_vjp(g: Gradients, indices: Value, input: TensorType, dim: int, keepdim: bool) -> Value | None:
    if g[0] is None or not input.shape:
        return g[0]
    position = wrap_dim(dim, len(input.shape), "max")
    own = positions(indices, input.shape[position])
    for _ in range(len(input.shape) - 1 - position):
        own = unsqueeze(own, -1)
    hit = eq(own, restored(indices, input.shape, dim, keepdim, "max"))
    return where(hit, restored(g[0], input.shape, dim, keepdim, "max"), 0.0)


@max_dim.decompose
def max_dim_decompose(input: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _minmax_along(argmax, input, dim, keepdim)


@max_dim.ref
def max_dim_ref(input: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    return _folded(np.max, input, dim, keepdim, "amax"), argmax_ref(input, dim, keepdim)


@max_dim.vjp(types=("input",))
def max_dim_vjp(g: Gradients, indices: Value, input: TensorType, dim: int, keepdim: bool) -> Value | None:
    return _minmax_along_vjp(g, indices, input, dim, keepdim)


@max_dim.samples
def max_dim_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1)
    yield Sample(normal(rng, 2, 3, 4), 0, True)
    yield Sample(normal(rng), 0)


@min_dim.decompose
def min_dim_decompose(input: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _minmax_along(argmin, input, dim, keepdim)


@min_dim.ref
def min_dim_ref(input: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    return _folded(np.min, input, dim, keepdim, "amin"), argmin_ref(input, dim, keepdim)


@min_dim.vjp(types=("input",))
def min_dim_vjp(g: Gradients, indices: Value, input: TensorType, dim: int, keepdim: bool) -> Value | None:
    return _minmax_along_vjp(g, indices, input, dim, keepdim)


@min_dim.samples
def min_dim_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from max_dim_samples(rng)
