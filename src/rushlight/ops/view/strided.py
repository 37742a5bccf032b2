"""Views by free strides: as_strided and unfold. Their elements may overlap, so their gradients are summed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided as numpy_as_strided
from numpy.lib.stride_tricks import sliding_window_view

from rushlight.ir.loops import Operand, Scatter, axes_of
from rushlight.ir.scalar import Scalar
from rushlight.ir.type import Layout, TensorType, contiguous_strides, dense_order
from rushlight.ir.value import Value
from rushlight.ops.create import filled
from rushlight.ops.dims import Array, At, Shape, normal, replaced, same_shape, wrap_dim, zero
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.view.reshape import contiguous, dense, regrouped
from rushlight.support.errors import fail, require
from rushlight.sym import Size, ge, gt, le, maximum, minimum, product, required, statically_known, total

as_strided = define(
    "as_strided(Tensor(a) input, Size[] size, Size[] stride, StorageOffset? storage_offset=None) -> Tensor(a)",
    "Any layout over the input's storage, from the input's first element or from the storage's given offset.",
    facts=Fact.VIEW | Fact.REPEATING | Fact.STRIDED | Fact.PLACED,
)


def _check_strided(size: Shape, stride: Shape, op: str = "as_strided") -> None:
    fits = len(size) == len(stride)
    require(fits, "A004", f"{op}: one stride for each size is needed", size=size, stride=stride)
    for number in (*size, *stride):
        require(required(ge(number, 0)), "S007", f"{op}: a number is negative", size=size, stride=stride)


@as_strided.meta
def as_strided_meta(input: TensorType, size: Shape, stride: Shape, storage_offset: Size | None) -> TensorType:
    _check_strided(size, stride)
    _require_row_major(input)
    _require_room(input.shape, size, stride, storage_offset, "as_strided")
    return TensorType(size, input.dtype, input.device, stride, input.weak)


@as_strided.view
def as_strided_view(input: Layout, size: Shape, stride: Shape, storage_offset: Size | None) -> Layout:
    _check_strided(size, stride)
    return Layout(size, stride, input.offset + (0 if storage_offset is None else storage_offset))


def _require_room(shape: Shape, size: Shape, stride: Shape, offset: Size | None, op: str) -> None:
    """S012 unless all places of a strided view are those of a value of this shape."""
    start = 0 if offset is None else offset
    before = (product(shape) + 1) * maximum(-1 * start, 0)  # more than there are, where it starts before the first
    end = _reach(size, stride) + start + before
    inside = required(le(minimum(product(size), 1) * end, product(shape)), f"{op}: the view stays in the tensor")
    require(inside, "S012", f"{op}: the view leaves the tensor", input=shape, size=size, stride=stride)


def _require_row_major(type_: TensorType) -> None:
    # A value in a graph has no storage of its own, so strides mean something only where its elements lie row-major.
    rows = zip(type_.shape, type_.strides, contiguous_strides(type_.shape), strict=True)
    if not all(dense(type_.shape, *row) for row in rows):
        fail("A006", "as_strided: of a tensor that is not contiguous", input=type_, hint="call contiguous() first")


@as_strided.ref
def as_strided_ref(input: Array, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int | None) -> Array:
    flat = np.ascontiguousarray(input).reshape(-1)[0 if storage_offset is None else storage_offset :]
    last = sum([(count - 1) * step for count, step in zip(size, stride, strict=True)])
    require(0 in size or last < flat.size, "S012", "as_strided: the view leaves the storage", size=size, stride=stride)
    return numpy_as_strided(flat, size, [step * input.itemsize for step in stride])


def _strided_place(at: At, shape: Shape, stride: Shape, offset: Size | None) -> tuple[Size, ...]:
    linear = total([axis * step for axis, step in zip(at, stride, strict=True)]) + (0 if offset is None else offset)
    return regrouped((linear,), (product(shape),), shape)


@as_strided.lower
def as_strided_lower(at: At, input: Operand, size: Shape, stride: Shape, storage_offset: Size | None) -> Scalar:
    return input[_strided_place(at, input.shape, stride, storage_offset)]


@as_strided.vjp(types=("input",))
def as_strided_vjp(g: Value, input: TensorType, stride: Shape, storage_offset: Size | None) -> Value:
    distance = 0 if storage_offset is None else storage_offset
    if _holds(input, g.shape, stride, distance):
        return as_strided_backward(g, input.shape, stride, storage_offset)
    # The memory that either of the two shows. Elements of the view that lie outside the input are no elements of it.
    first, second = maximum(-1 * distance, 0), maximum(distance, 0)
    count = maximum(first + _reach(input.shape, input.strides), second + _reach(g.shape, stride))
    memory = as_strided_backward(g, (count,), stride, second)
    gradient = as_strided(memory, input.shape, input.strides, first)
    if dense_order(input.shape, input.strides) is not None:
        return gradient
    # Elements of the input that are one place in memory share its gradient, as in PyTorch.
    sharing = as_strided_backward(filled(g, input.shape, 1), (count,), input.strides, first)
    return gradient / as_strided(sharing, input.shape, input.strides, first)


def _holds(input: TensorType, size: Shape, stride: Shape, distance: Size) -> bool:
    """Whether a view shows elements of a row-major input alone, as far as is known."""
    end = distance + _reach(size, stride)
    inside = statically_known(ge(distance, 0)) and statically_known(le(end, product(input.shape)))
    return inside and input.strides == contiguous_strides(input.shape)


def _reach(size: Shape, stride: Shape) -> Size:
    """Elements of memory from the first to the last one of a strided view; 0 for an empty one."""
    last = total([(count - 1) * step for count, step in zip(size, stride, strict=True)])
    return minimum(product(size), 1) * (last + 1)


@as_strided.inverse
def as_strided_inverse(base: Value, value: Value, size: Shape, stride: Shape, storage_offset: Size | None) -> Value:
    return as_strided_scatter(base, value, size, stride, storage_offset)


@as_strided.samples
def as_strided_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4), (2, 2), (4, 2))
    yield Sample(normal(rng, 12), (4, 3), (2, 1), 2)


as_strided_backward = define(
    "as_strided_backward(Tensor grad, Size[] input_sizes, Size[] stride, Size? storage_offset) -> Tensor",
    "Zeros with the gradient of a strided view added at its places.",
    variants="",
)


@as_strided_backward.meta
def as_strided_backward_meta(
    grad: TensorType, input_sizes: Shape, stride: Shape, storage_offset: Size | None
) -> TensorType:
    _check_strided(grad.shape, stride, "as_strided_backward")
    _require_room(input_sizes, grad.shape, stride, storage_offset, "as_strided_backward")
    return TensorType(input_sizes, grad.dtype, grad.device)


def _strided_index(grad: Array, stride: tuple[int, ...], offset: int | None) -> Array:
    steps = np.array(stride, np.int64).reshape((-1,) + (1,) * grad.ndim)
    return np.asarray(np.sum(np.indices(grad.shape) * steps, 0, dtype=np.int64) + (0 if offset is None else offset))


@as_strided_backward.ref
def as_strided_backward_ref(
    grad: Array, input_sizes: tuple[int, ...], stride: tuple[int, ...], storage_offset: int | None
) -> Array:
    flat = np.zeros(int(np.prod(input_sizes)), grad.dtype)
    np.add.at(flat, _strided_index(grad, stride, storage_offset), grad)
    return flat.reshape(input_sizes)


@as_strided_backward.lower
def as_strided_backward_lower(
    at: At, grad: Operand, input_sizes: Shape, stride: Shape, storage_offset: Size | None
) -> Scatter:
    axes = axes_of(grad.shape, "s")
    return Scatter(zero(grad.dtype), axes, _strided_place(axes, input_sizes, stride, storage_offset), grad[axes], "sum")


@as_strided_backward.vjp(types=("grad",))
def as_strided_backward_vjp(g: Value, grad: TensorType, stride: Shape, storage_offset: Size | None) -> Value:
    # The strides are those of a row-major tensor, whatever the layout of its gradient.
    return as_strided(contiguous(g), grad.shape, stride, storage_offset)


@as_strided_backward.samples
def as_strided_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 4, 3), (3, 4), (2, 1), 1)


as_strided_scatter = define(
    "as_strided_scatter(Tensor input, Tensor src, Size[] size, Size[] stride, StorageOffset? storage_offset=None)"
    " -> Tensor",
    "A copy of the input with `src` at the places of a strided view.",
    variants="function",
)


@as_strided_scatter.meta
def as_strided_scatter_meta(
    input: TensorType, src: TensorType, size: Shape, stride: Shape, storage_offset: Size | None
) -> TensorType:
    _check_strided(size, stride, "as_strided_scatter")
    require(
        same_shape(src.shape, size), "S009", "as_strided_scatter: the source does not fit the view", src=src, size=size
    )
    _require_row_major(input)
    _require_room(input.shape, size, stride, storage_offset, "as_strided_scatter")
    return TensorType(input.shape, input.dtype, input.device)


@as_strided_scatter.ref
def as_strided_scatter_ref(
    input: Array, src: Array, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int | None
) -> Array:
    flat = np.array(input).reshape(-1)
    flat[_strided_index(src, stride, storage_offset)] = src
    return flat.reshape(input.shape)


@as_strided_scatter.lower
def as_strided_scatter_lower(
    at: At, input: Operand, src: Operand, size: Shape, stride: Shape, storage_offset: Size | None
) -> Scatter:
    axes = axes_of(src.shape, "s")
    return Scatter(input[at], axes, _strided_place(axes, input.shape, stride, storage_offset), src[axes], "set")


@as_strided_scatter.vjp(types=("src",))
def as_strided_scatter_vjp(
    g: Value, src: TensorType, size: Shape, stride: Shape, storage_offset: Size | None
) -> Gradients:
    g = contiguous(g)  # the strides are those of a row-major tensor, whatever the layout of its gradient
    part = as_strided(g, size, stride, storage_offset)
    return g - as_strided_backward(part, g.shape, stride, storage_offset), part


@as_strided_scatter.samples
def as_strided_scatter_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4), normal(rng, 2, 2), (2, 2), (4, 2), 1)


unfold = define(
    "unfold(Tensor(a) input, int dimension, Size size, Size step) -> Tensor(a)",
    "All windows of `size` along a dim, `step` apart, as a new last dim.",
    facts=Fact.VIEW | Fact.REPEATING,
    variants="method",
)


def _window_count(shape: Shape, dim: int, size: Size, step: Size) -> Size:
    length = shape[dim] if shape else 1
    require(required(gt(step, 0)), "A002", "unfold: the step must be positive", step=step)
    fits = required(le(size, length), "unfold: the window fits the dim")
    require(fits, "S011", "unfold: the window is larger than the dim", size=size, input=shape)
    return (length - size) // step + 1


@unfold.view
def unfold_view(input: Layout, dimension: int, size: Size, step: Size) -> Layout:
    dim = wrap_dim(dimension, len(input.shape), "unfold")
    count = _window_count(input.shape, dim, size, step)
    if not input.shape:
        return Layout((size,), (1,), input.offset)
    stride = input.strides[dim]
    shape = (*replaced(input.shape, dim, count), size)
    return Layout(shape, (*replaced(input.strides, dim, stride * step), stride), input.offset)


@unfold.ref
def unfold_ref(input: Array, dimension: int, size: int, step: int) -> Array:
    if not input.ndim:
        return input.reshape(1)[:size]
    windows = np.moveaxis(sliding_window_view(input, size, dimension), dimension, 0)[::step]
    return np.moveaxis(windows, 0, dimension)


@unfold.lower
def unfold_lower(at: At, input: Operand, dimension: int, size: Size, step: Size) -> Scalar:
    if not input.shape:
        return input[()]
    dim = wrap_dim(dimension, len(input.shape), "unfold")
    return input[replaced(at[:-1], dim, at[dim] * step + at[-1])]


@unfold.vjp(types=("input",))
def unfold_vjp(g: Value, input: TensorType, dimension: int, size: Size, step: Size) -> Value:
    return unfold_backward(g, input.shape, dimension, size, step)


@unfold.samples
def unfold_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 7), 0, 3, 2)
    yield Sample(normal(rng, 2, 5, 3), 1, 2, 1)


unfold_backward = define(
    "unfold_backward(Tensor grad, Size[] input_sizes, int dim, Size size, Size step) -> Tensor",
    "Zeros with the gradient of windows added at their places.",
    variants="",
)


@unfold_backward.meta
def unfold_backward_meta(grad: TensorType, input_sizes: Shape, dim: int, size: Size, step: Size) -> TensorType:
    shown = unfold_view(Layout(input_sizes, contiguous_strides(input_sizes)), dim, size, step).shape
    fits = same_shape(grad.shape, shown)
    require(fits, "S009", "unfold_backward: the gradient does not fit the windows", grad=grad, windows=shown)
    return TensorType(input_sizes, grad.dtype, grad.device)


@unfold_backward.ref
def unfold_backward_ref(grad: Array, input_sizes: tuple[int, ...], dim: int, size: int, step: int) -> Array:
    result = np.zeros(input_sizes, grad.dtype)
    if not result.ndim:
        return np.sum(grad, dtype=grad.dtype).reshape(())
    windows, parts = np.moveaxis(result, dim, 0), np.moveaxis(grad, dim, 0)
    for position in range(parts.shape[0]):
        windows[position * step : position * step + size] += np.moveaxis(parts[position], -1, 0)
    return result


@unfold_backward.lower
def unfold_backward_lower(at: At, grad: Operand, input_sizes: Shape, dim: int, size: Size, step: Size) -> Scatter:
    axes = axes_of(grad.shape, "s")
    if not input_sizes:
        return Scatter(zero(grad.dtype), axes, (), grad[axes], "sum")
    position = wrap_dim(dim, len(input_sizes), "unfold")
    index = replaced(axes[:-1], position, axes[position] * step + axes[-1])
    return Scatter(zero(grad.dtype), axes, index, grad[axes], "sum")


@unfold_backward.vjp
def unfold_backward_vjp(g: Value, dim: int, size: Size, step: Size) -> Value:
    return unfold(g, dim, size, step)


@unfold_backward.samples
def unfold_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), (7,), 0, 3, 2)
    yield Sample(normal(rng, 2, 4, 3, 2), (2, 5, 3), 1, 2, 1)
