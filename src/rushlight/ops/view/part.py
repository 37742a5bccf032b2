"""Views of a part of a tensor (select, slice, diagonal), their gradients and their writes.

Beside each are two operators: `<view>_backward` puts a gradient into zeros, and `<view>_scatter` puts values into a
copy of the base, which is what a write through the view means once a graph is functional.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, cast
from rushlight.ir.type import Layout, TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import zeros_of
from rushlight.ops.dims import (
    Array,
    At,
    Shape,
    check_index,
    convert,
    divisible,
    guarded,
    normal,
    own_dim,
    replaced,
    same_shape,
    within,
    wrap_dim,
    zero,
)
from rushlight.ops.promote import pointwise_strides
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.support.errors import require
from rushlight.sym import Size, ceildiv, gt, is_nonnegative, maximum, minimum, required

# Stops as large as this mean "to the end", as Python's slices use sys.maxsize.
_FAR = 1 << 62


def _require_fits(source: TensorType, shape: Shape, op: str) -> None:
    require(same_shape(source.shape, shape), "S009", f"{op}: the source does not fit the view", src=source, view=shape)


select = define("select(Tensor(a) input, int dim, Size index) -> Tensor(a)", "One index of a dim.", facts=Fact.VIEW)


@select.view
def select_view(input: Layout, dim: int, index: Size) -> Layout:
    wrapped_dim = _selected_dim(input.shape, dim)
    position = check_index(index, input.shape[wrapped_dim], "select")
    offset = input.offset + position * input.strides[wrapped_dim]
    return Layout(replaced(input.shape, wrapped_dim), replaced(input.strides, wrapped_dim), offset)


def _selected_dim(shape: Shape, dim: int) -> int:
    require(shape, "I003", "select: a 0-d tensor has no dim to index")
    return wrap_dim(dim, len(shape), "select")


@select.ref
def select_ref(input: Array, dim: int, index: int) -> Array:
    return np.take(input, index, axis=dim)


@select.lower
def select_lower(at: At, input: Operand, dim: int, index: Size) -> Scalar:
    position = wrap_dim(dim, len(input.shape), "select")
    return input[(*at[:position], check_index(index, input.shape[position], "select"), *at[position:])]


@select.vjp(types=("input",))
def select_vjp(g: Value, input: TensorType, dim: int, index: Size) -> Value:
    return select_backward(g, input.shape, dim, index)


@select.inverse
def select_inverse(base: Value, value: Value, dim: int, index: Size) -> Value:
    return select_scatter(base, value, dim, index)


@select.samples
def select_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), 1, 2)
    yield Sample(normal(rng, 3, 4), -1, -4)
    yield Sample(normal(rng, 3), 0, 0)


select_backward = define(
    "select_backward(Tensor grad, Size[] input_sizes, int dim, Size index) -> Tensor",
    "Zeros with `grad` at one index of a dim.",
    variants="function",
)


@select_backward.meta
def select_backward_meta(grad: TensorType, input_sizes: Shape, dim: int, index: Size) -> TensorType:
    position = _selected_dim(input_sizes, dim)
    check_index(index, input_sizes[position], "select_backward")
    _require_fits(grad, replaced(input_sizes, position), "select_backward")
    return TensorType(input_sizes, grad.dtype, grad.device)


@select_backward.ref
def select_backward_ref(grad: Array, input_sizes: tuple[int, ...], dim: int, index: int) -> Array:
    return select_scatter_ref(np.zeros(input_sizes, grad.dtype), grad, dim, index)


@select_backward.lower
def select_backward_lower(at: At, grad: Operand, input_sizes: Shape, dim: int, index: Size) -> Scalar:
    return _selected(at, grad, input_sizes, dim, index, zero(grad.dtype))


def _selected(at: At, source: Operand, shape: Shape, dim: int, index: Size, other: Scalar) -> Scalar:
    position = wrap_dim(dim, len(shape), "select")
    offset = at[position] - check_index(index, shape[position], "select")
    return guarded(within(offset, 1), cast(source[replaced(at, position)], other.type), other)


@select_backward.vjp
def select_backward_vjp(g: Value, dim: int, index: Size) -> Value:
    return select(g, dim, index)


@select_backward.samples
def select_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 4), (2, 3, 4), 1, -1)


select_scatter = define(
    "select_scatter(Tensor input, Tensor src, int dim, Size index) -> Tensor",
    "A copy of `input` with `src` at one index of a dim.",
)


def _copied(input: TensorType) -> TensorType:
    """The type of a copy: dense, its dims in the input's order."""
    return TensorType(input.shape, input.dtype, input.device, pointwise_strides([input], input.shape))


@select_scatter.meta
def select_scatter_meta(input: TensorType, src: TensorType, dim: int, index: Size) -> TensorType:
    position = _selected_dim(input.shape, dim)
    check_index(index, input.shape[position], "select_scatter")
    _require_fits(src, replaced(input.shape, position), "select_scatter")
    return _copied(input)


@select_scatter.ref
def select_scatter_ref(input: Array, src: Array, dim: int, index: int) -> Array:
    result = np.array(input)
    np.moveaxis(result, dim, 0)[index] = src
    return result


@select_scatter.lower
def select_scatter_lower(at: At, input: Operand, src: Operand, dim: int, index: Size) -> Scalar:
    return _selected(at, src, input.shape, dim, index, input[at])


@select_scatter.vjp(types=("src",))
def select_scatter_vjp(g: Value, src: TensorType, dim: int, index: Size) -> Gradients:
    return select_scatter(g, zeros_of(g, src.shape), dim, index), convert(select(g, dim, index), src.dtype)


@select_scatter.samples
def select_scatter_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), normal(rng, 2, 4), 1, 1)


slice_ = define(
    "slice(Tensor(a) input, int dim=0, Size? start=None, Size? end=None, Size step=1) -> Tensor(a)",
    "A range of a dim with Python's rules: ends count from the back when negative, and are clamped.",
    facts=Fact.VIEW,
    variants="function",
)


def slice_range(size: Size, start: Size | None, end: Size | None, step: Size) -> tuple[Size, Size]:
    """Return the first index and the number of elements of `start:end:step` in a dim of `size`.

    Fails with I008 for a step below 1.
    """
    require(required(gt(step, 0)), "I008", "slice: the step must be positive", step=step)
    first = 0 if start is None else _clamped(start, size)
    if isinstance(start, int) and isinstance(end, int) and 0 <= end <= start:
        return first, 0
    last = size if end is None or (isinstance(end, int) and end >= _FAR) else _clamped(end, size)
    return first, ceildiv(maximum(last - first, 0), step)


def _clamped(position: Size, size: Size) -> Size:
    """A position of a slice within its dim: counted from the back where it is negative."""
    if not is_nonnegative(position):
        position = position + size * minimum(maximum(-1 * position, 0), 1)
    return maximum(minimum(position, size), 0)


@slice_.view
def slice_view(input: Layout, dim: int, start: Size | None, end: Size | None, step: Size) -> Layout:
    wrapped_dim = own_dim(dim, input.shape, "slice")
    first, count = slice_range(input.shape[wrapped_dim], start, end, step)
    stride = input.strides[wrapped_dim]
    wide = stride * step
    require(not isinstance(wide, int) or wide <= _FAR, "I008", "slice: the step is too large", step=step)
    return Layout(
        replaced(input.shape, wrapped_dim, count),
        replaced(input.strides, wrapped_dim, wide),
        input.offset + first * stride,
    )


@slice_.ref
def slice_ref(input: Array, dim: int, start: int | None, end: int | None, step: int) -> Array:
    return np.moveaxis(np.moveaxis(input, dim, 0)[start:end:step], 0, dim)


@slice_.lower
def slice_lower(at: At, input: Operand, dim: int, start: Size | None, end: Size | None, step: Size) -> Scalar:
    position = own_dim(dim, input.shape, "slice")
    first, _ = slice_range(input.shape[position], start, end, step)
    return input[replaced(at, position, first + at[position] * step)]


@slice_.vjp(types=("input",))
def slice_vjp(g: Value, input: TensorType, dim: int, start: Size | None, end: Size | None, step: Size) -> Value:
    return slice_backward(g, input.shape, dim, start, end, step)


@slice_.inverse
def slice_inverse(base: Value, value: Value, dim: int, start: Size | None, end: Size | None, step: Size) -> Value:
    return slice_scatter(base, value, dim, start, end, step)


@slice_.samples
def slice_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 5, 3), 0, 1, 4)
    yield Sample(normal(rng, 2, 7), 1, -6, 100, 2)
    yield Sample(normal(rng, 4), 0, 3, 1)
    yield Sample(normal(rng, 4), -1, None, -1)


slice_backward = define(
    "slice_backward(Tensor grad, Size[] input_sizes, int dim, Size? start, Size? end, Size step) -> Tensor",
    "Zeros with `grad` in a range of a dim.",
    variants="function",
)


@slice_backward.meta
def slice_backward_meta(
    grad: TensorType, input_sizes: Shape, dim: int, start: Size | None, end: Size | None, step: Size
) -> TensorType:
    position = own_dim(dim, input_sizes, "slice_backward")
    _, count = slice_range(input_sizes[position], start, end, step)
    _require_fits(grad, replaced(input_sizes, position, count), "slice_backward")
    return TensorType(input_sizes, grad.dtype, grad.device)


@slice_backward.ref
def slice_backward_ref(
    grad: Array, input_sizes: tuple[int, ...], dim: int, start: int | None, end: int | None, step: int
) -> Array:
    return slice_scatter_ref(np.zeros(input_sizes, grad.dtype), grad, dim, start, end, step)


@slice_backward.lower
def slice_backward_lower(
    at: At, grad: Operand, input_sizes: Shape, dim: int, start: Size | None, end: Size | None, step: Size
) -> Scalar:
    return _sliced(at, grad, input_sizes, dim, (start, end, step), zero(grad.dtype))


def _sliced(
    at: At, source: Operand, shape: Shape, dim: int, cut: tuple[Size | None, Size | None, Size], other: Scalar
) -> Scalar:
    wrapped_dim = own_dim(dim, shape, "slice")
    start, end, step = cut
    first, count = slice_range(shape[wrapped_dim], start, end, step)
    offset = at[wrapped_dim] - first
    position = offset // step
    conditions = [*within(position, count), *divisible(offset, step)]
    return guarded(conditions, cast(source[replaced(at, wrapped_dim, position)], other.type), other)


@slice_backward.vjp
def slice_backward_vjp(g: Value, dim: int, start: Size | None, end: Size | None, step: Size) -> Value:
    return slice_(g, dim, start, end, step)


@slice_backward.samples
def slice_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), (5, 3), 0, 1, 4, 1)
    yield Sample(normal(rng, 2, 3), (2, 7), 1, -6, None, 2)


slice_scatter = define(
    "slice_scatter(Tensor input, Tensor src, int dim=0, Size? start=None, Size? end=None, Size step=1) -> Tensor",
    "A copy of `input` with `src` in a range of a dim.",
    variants="function method out",
)


@slice_scatter.meta
def slice_scatter_meta(
    input: TensorType, src: TensorType, dim: int, start: Size | None, end: Size | None, step: Size
) -> TensorType:
    position = own_dim(dim, input.shape, "slice_scatter")
    _, count = slice_range(input.shape[position], start, end, step)
    _require_fits(src, replaced(input.shape, position, count), "slice_scatter")
    return _copied(input)


@slice_scatter.ref
def slice_scatter_ref(input: Array, src: Array, dim: int, start: int | None, end: int | None, step: int) -> Array:
    result = np.array(input)
    np.moveaxis(result, dim, 0)[start:end:step] = np.moveaxis(src, dim, 0)
    return result


@slice_scatter.lower
def slice_scatter_lower(
    at: At, input: Operand, src: Operand, dim: int, start: Size | None, end: Size | None, step: Size
) -> Scalar:
    return _sliced(at, src, input.shape, dim, (start, end, step), input[at])


@slice_scatter.vjp(types=("src",))
def slice_scatter_vjp(
    g: Value, src: TensorType, dim: int, start: Size | None, end: Size | None, step: Size
) -> Gradients:
    part = convert(slice_(g, dim, start, end, step), src.dtype)
    return slice_scatter(g, zeros_of(g, src.shape), dim, start, end, step), part


@slice_scatter.samples
def slice_scatter_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 5, 3), normal(rng, 2, 3), 0, 1, 4, 2)


diagonal = define(
    "diagonal(Tensor(a) input, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
    "The elements whose indices in two dims differ by `offset`, as a new last dim.",
    facts=Fact.VIEW,
)


def _diagonal(shape: Shape, offset: int, dim1: int, dim2: int) -> tuple[int, int, Size]:
    first, second = wrap_dim(dim1, len(shape), "diagonal"), wrap_dim(dim2, len(shape), "diagonal")
    require(first != second, "I006", "diagonal: the two dims are the same", dim1=dim1, dim2=dim2)
    rows, columns = shape[first] + min(offset, 0), shape[second] - max(offset, 0)
    return first, second, maximum(minimum(rows, columns), 0)


@diagonal.view
def diagonal_view(input: Layout, offset: int, dim1: int, dim2: int) -> Layout:
    first, second, count = _diagonal(input.shape, offset, dim1, dim2)
    kept = [dim for dim in range(len(input.shape)) if dim not in (first, second)]
    start = max(-offset, 0) * input.strides[first] + max(offset, 0) * input.strides[second]
    empty = isinstance(count, int) and count == 0
    return Layout(
        (*[input.shape[dim] for dim in kept], count),
        (*[input.strides[dim] for dim in kept], input.strides[first] + input.strides[second]),
        input.offset + (0 if empty else start),
    )


@diagonal.ref
def diagonal_ref(input: Array, offset: int, dim1: int, dim2: int) -> Array:
    return np.diagonal(input, offset, dim1, dim2)


@diagonal.lower
def diagonal_lower(at: At, input: Operand, offset: int, dim1: int, dim2: int) -> Scalar:
    first, second, _ = _diagonal(input.shape, offset, dim1, dim2)
    return input[_on_diagonal(at, first, second, offset)]


def _on_diagonal(at: At, first: int, second: int, offset: int) -> tuple[Size, ...]:
    index: list[Size] = list(at[:-1])
    for dim, start in sorted([(first, max(-offset, 0)), (second, max(offset, 0))]):
        index.insert(dim, at[-1] + start)
    return tuple(index)


@diagonal.vjp(types=("input",))
def diagonal_vjp(g: Value, input: TensorType, offset: int, dim1: int, dim2: int) -> Value:
    return diagonal_backward(g, input.shape, offset, dim1, dim2)


@diagonal.inverse
def diagonal_inverse(base: Value, value: Value, offset: int, dim1: int, dim2: int) -> Value:
    return diagonal_scatter(base, value, offset, dim1, dim2)


@diagonal.samples
def diagonal_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3))
    yield Sample(normal(rng, 2, 3, 4), 1, 2, 0)
    yield Sample(normal(rng, 3, 4), -1)
    yield Sample(normal(rng, 2, 2), 5)


diagonal_backward = define(
    "diagonal_backward(Tensor grad, Size[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
    "Zeros with `grad` on a diagonal.",
    variants="function",
)


@diagonal_backward.meta
def diagonal_backward_meta(grad: TensorType, input_sizes: Shape, offset: int, dim1: int, dim2: int) -> TensorType:
    first, second, count = _diagonal(input_sizes, offset, dim1, dim2)
    kept = [size for dim, size in enumerate(input_sizes) if dim not in (first, second)]
    _require_fits(grad, (*kept, count), "diagonal_backward")
    return TensorType(input_sizes, grad.dtype, grad.device)


@diagonal_backward.ref
def diagonal_backward_ref(grad: Array, input_sizes: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Array:
    return diagonal_scatter_ref(np.zeros(input_sizes, grad.dtype), grad, offset, dim1, dim2)


@diagonal_backward.lower
def diagonal_backward_lower(at: At, grad: Operand, input_sizes: Shape, offset: int, dim1: int, dim2: int) -> Scalar:
    return _diagonalised(at, grad, input_sizes, (offset, dim1, dim2), zero(grad.dtype))


def _diagonalised(at: At, source: Operand, shape: Shape, where: tuple[int, int, int], other: Scalar) -> Scalar:
    offset, dim1, dim2 = where
    first, second, count = _diagonal(shape, offset, dim1, dim2)
    position = at[first] - max(-offset, 0)
    gap = at[second] - at[first] - offset
    rest = [axis for dim, axis in enumerate(at) if dim not in (first, second)]
    source_element = cast(source[(*rest, position)], other.type)
    return guarded([*within(position, count), *within(gap, 1)], source_element, other)


@diagonal_backward.vjp
def diagonal_backward_vjp(g: Value, offset: int, dim1: int, dim2: int) -> Value:
    return diagonal(g, offset, dim1, dim2)


@diagonal_backward.samples
def diagonal_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2), (3, 4), -1, 0, 1)


diagonal_scatter = define(
    "diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    "A copy of `input` with `src` on a diagonal.",
)


@diagonal_scatter.meta
def diagonal_scatter_meta(input: TensorType, src: TensorType, offset: int, dim1: int, dim2: int) -> TensorType:
    first, second, count = _diagonal(input.shape, offset, dim1, dim2)
    rest = [size for dim, size in enumerate(input.shape) if dim not in (first, second)]
    _require_fits(src, (*rest, count), "diagonal_scatter")
    return _copied(input)


@diagonal_scatter.ref
def diagonal_scatter_ref(input: Array, src: Array, offset: int, dim1: int, dim2: int) -> Array:
    result = np.array(input)
    part = np.diagonal(result, offset, dim1, dim2)
    part.flags.writeable = True
    part[...] = src
    return result


@diagonal_scatter.lower
def diagonal_scatter_lower(at: At, input: Operand, src: Operand, offset: int, dim1: int, dim2: int) -> Scalar:
    return _diagonalised(at, src, input.shape, (offset, dim1, dim2), input[at])


@diagonal_scatter.vjp(types=("src",))
def diagonal_scatter_vjp(g: Value, src: TensorType, offset: int, dim1: int, dim2: int) -> Gradients:
    part = convert(diagonal(g, offset, dim1, dim2), src.dtype)
    return diagonal_scatter(g, zeros_of(g, src.shape), offset, dim1, dim2), part


@diagonal_scatter.samples
def diagonal_scatter_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4), normal(rng, 3), 1)
