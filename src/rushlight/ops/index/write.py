"""Writing at places that tensors name: results that start as a copy of the input. Indices out of range write nothing.

Where places repeat, sums are made in ascending order of the index: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import bool_, compute_dtype, int64
from rushlight.ir.graph import number_dtype
from rushlight.ir.loops import Operand, Scatter, axes_of
from rushlight.ir.scalar import cast, constant, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import count_of, full, zeros_of
from rushlight.ops.dims import (
    Array,
    At,
    Shape,
    convert,
    integers,
    normal,
    replaced,
    same_shape,
    same_size,
    wrap_dim,
    zero,
)
from rushlight.ops.index.read import (
    embedding,
    gather,
    index,
    index_select,
    indexed_places,
    require_inside,
    require_integers,
    wrapped,
)
from rushlight.ops.pointwise import comparison
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.definition import element
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import broadcast, unbroadcast
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.view.part import slice_backward
from rushlight.ops.view.reorder import unsqueeze
from rushlight.ops.view.reshape import contiguous
from rushlight.support.errors import require
from rushlight.sym import Size, eq, guard_or_false

AS_LONG = "gradient of scatter: the index is as long as the source; else zeros are padded behind"


def _scatter_type(op: str, input: TensorType, dim: int, index: TensorType, src: TensorType) -> TensorType:
    require_integers(op, index=index)
    require(input.ndim == index.ndim, "S002", f"{op}: input and index differ in rank", input=input, index=index)
    fits = not src.shape or src.ndim == index.ndim
    require(fits, "S002", f"{op}: index and source differ in rank", index=index, src=src)
    require_inside(op, index, input, dim)
    if src.shape:
        require_inside(op, index, src)
    require(
        src.weak or src.dtype is input.dtype, "D002", f"{op}: input and source differ in dtype", input=input, src=src
    )
    return TensorType(input.shape, input.dtype, input.device)


def _scatter_lower(at: At, input: Operand, dim: int, index: Operand, src: Operand, combine: str) -> Scatter:
    axes = axes_of(index.shape, "s")
    value = src[axes] if src.shape else src[()]
    if not input.shape:
        return Scatter(input[()], axes, (), cast(value, input.dtype), combine)
    number = wrap_dim(dim, len(input.shape), "scatter")
    position = wrapped(index[axes], input.shape[number])
    return Scatter(input[at], axes, replaced(axes, number, position), cast(value, input.dtype), combine)


def _scatter_grid(index: Array, dim: int) -> tuple[Any, ...]:
    grid: list[Any] = list(np.ogrid[tuple([slice(size) for size in index.shape])])
    if grid:
        grid[dim] = index
    return tuple(grid)


def _source_array(src: ArrayLike, index: Array, dtype: np.dtype[Any]) -> Array:
    array = np.asarray(src).astype(dtype)
    return array[tuple([slice(size) for size in index.shape])] if array.ndim else np.broadcast_to(array, index.shape)


def _source_gradient(g: Value, dim: int, index: Value, src: object) -> Value | None:
    if not isinstance(src, Value):
        return None
    gathered = gather(g, dim, index)
    if not src.shape:
        return convert(unbroadcast(gathered, src), src.dtype)
    return _padded_behind(gathered, src.shape)


def _padded_behind(value: Value, shape: Shape) -> Value:
    """Zeros after the elements of each dim, up to `shape`."""
    for dim, size in enumerate(shape):
        if not guard_or_false(eq(value.shape[dim], size), AS_LONG):
            value = slice_backward(value, replaced(value.shape, dim, size), dim, 0, value.shape[dim], 1)
    return value


scatter = define(
    "scatter(Tensor input, int dim, Tensor index, Tensor src) -> Tensor",
    "A copy of the input with the source's elements at the places given along a dim; the last of equals stays.",
    facts=Fact.FITTING | Fact.WRITES,
    variants="",
)


@scatter.meta
def scatter_meta(input: TensorType, dim: int, index: TensorType, src: TensorType) -> TensorType:
    return _scatter_type("scatter", input, dim, index, src)


@scatter.ref
def scatter_ref(input: Array, dim: int, index: Array, src: Array) -> Array:
    result = np.array(input)
    result[_scatter_grid(index, dim)] = _source_array(src, index, input.dtype)
    return result


@scatter.lower
def scatter_lower(at: At, input: Operand, dim: int, index: Operand, src: Operand) -> Scatter:
    return _scatter_lower(at, input, dim, index, src, "set")


@scatter.vjp
def scatter_vjp(g: Value, dim: int, index: Value, src: Value) -> Gradients:
    return scatter(g, dim, index, 0), None, _source_gradient(g, dim, index, src)


@scatter.samples
def scatter_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1, np.array([[0, -1, 2], [4, 1, 0]]), normal(rng, 2, 3))
    yield Sample(normal(rng, 3, 5), 0, np.array([[0, 1, 2, 0, 1]]), 1.5)
    yield Sample(normal(rng, 3, 5), 0, np.array([[2, 1]]), normal(rng, 2, 4))


scatter_add = define(
    "scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor",
    "The input with the source's elements added at the places that `index` gives along a dim.",
    facts=Fact.WRITES,
    variants="function method inplace out",
)


@scatter_add.meta
def scatter_add_meta(input: TensorType, dim: int, index: TensorType, src: TensorType) -> TensorType:
    return _scatter_type("scatter_add", input, dim, index, src)


@scatter_add.ref
def scatter_add_ref(input: Array, dim: int, index: Array, src: Array) -> Array:
    result = np.array(input)
    np.add.at(result, _scatter_grid(index, dim), _source_array(src, index, input.dtype))
    return result


@scatter_add.lower
def scatter_add_lower(at: At, input: Operand, dim: int, index: Operand, src: Operand) -> Scatter:
    return _scatter_lower(at, input, dim, index, src, "sum")


@scatter_add.vjp
def scatter_add_vjp(g: Value, dim: int, index: Value, src: Value) -> Gradients:
    return g, None, _source_gradient(g, dim, index, src)


@scatter_add.samples
def scatter_add_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1, integers(rng, -5, 5, 3, 7), normal(rng, 3, 7))
    yield Sample(normal(rng, 3, 5), 0, integers(rng, 0, 3, 2, 4), normal(rng, 4, 5))


index_add = define(
    "index_add(Tensor input, int dim, Tensor index, Tensor source, *, float alpha=1) -> Tensor",
    "The input with slices of the source, times alpha, added at the places of a 1-D index.",
    facts=Fact.WRITES,
    variants="function method inplace out",
)


@index_add.meta
def index_add_meta(input: TensorType, dim: int, index: TensorType, source: TensorType, alpha: float) -> TensorType:
    require_integers("index_add", index=index)
    require(index.ndim == 1, "S002", "index_add: the index must have 1 dim", index=index)
    position = wrap_dim(dim, input.ndim, "index_add")
    if input.shape:
        fits = same_shape(source.shape, replaced(input.shape, position, index.shape[0]))
    else:
        fits = not source.shape and same_size(index.shape[0], 1)
    require(fits, "S014", "index_add: the source does not fit", input=input, index=index, source=source)
    require(input.dtype is source.dtype, "D002", "index_add: dtypes differ", input=input, source=source)
    return TensorType(input.shape, input.dtype, input.device)


@index_add.ref
def index_add_ref(input: Array, dim: int, index: Array, source: Array, alpha: float) -> Array:
    result = np.array(input)
    if not input.ndim:
        return np.asarray(result + source * input.dtype.type(alpha)).astype(input.dtype)
    np.add.at(np.moveaxis(result, dim, 0), index, np.moveaxis(source * input.dtype.type(alpha), dim, 0))
    return result


@index_add.lower
def index_add_lower(at: At, input: Operand, dim: int, index: Operand, source: Operand, alpha: float) -> Scatter:
    wrapped_dim = wrap_dim(dim, len(input.shape), "index_add")
    axes = axes_of(source.shape, "s")
    value = source[axes]
    if alpha != 1:
        wide = compute_dtype(source.dtype)
        value = cast(cast(value, wide) * constant(alpha, wide), source.dtype)
    if not input.shape:
        return Scatter(input[at], axes, (), value, "sum")
    position = wrapped(index[axes[wrapped_dim]], input.shape[wrapped_dim])
    return Scatter(input[at], axes, replaced(axes, wrapped_dim, position), value, "sum")


@index_add.vjp
def index_add_vjp(g: Value, dim: int, index: Value, alpha: float) -> Gradients:
    gradient = index_select(g, dim, index)
    return g, None, gradient if alpha == 1 else gradient * conjugate(alpha)


@index_add.samples
def index_add_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 0, np.array([0, 2, 0, -1]), normal(rng, 4, 5))
    yield Sample(normal(rng, 3, 5), 1, np.array([4]), normal(rng, 3, 1), alpha=2.5)


index_put = define(
    "index_put(Tensor input, Tensor[] indices, Tensor values, int[] dims, bool accumulate=False, bool ascending=False)"
    " -> Tensor",
    "A copy of the input with `values` at, or added to, the places that `index` of these indices and dims reads. "
    "`ascending`: of one index, whose places are not negative and each above the one before.",
    facts=Fact.FITTING | Fact.STORED | Fact.WRITES,
    variants="",
)


@index_put.meta
def index_put_meta(
    input: TensorType,
    indices: tuple[TensorType, ...],
    values: TensorType,
    dims: tuple[int, ...],
    accumulate: bool,
    ascending: bool,
) -> TensorType:
    single = not ascending or (len(indices) == 1 and indices[0].ndim == 1)
    require(single, "S002", "index_put: places that ascend are those of one index with 1 dim", indices=indices)
    position = index.infer((input, indices), {"dims": dims})
    fits = values.weak or same_shape(broadcast(values.shape, position.shape), position.shape)
    require(fits, "S009", "index_put: the values do not fit the places", values=values, places=position)
    same = values.weak or values.dtype is input.dtype
    require(same, "D002", "index_put: input and values differ in dtype", input=input, values=values)
    return TensorType(input.shape, input.dtype, input.device)


@index_put.ref
def index_put_ref(
    input: Array, indices: tuple[Array, ...], values: Array, dims: tuple[int, ...], accumulate: bool, ascending: bool
) -> Array:
    if ascending:
        fits = bool((np.diff(indices[0].astype(np.int64), prepend=-1) > 0).all())
        require(fits, "I001", "index_put: indices must ascend, each above the one before", indices=indices[0].tolist())
    result = np.array(input)
    places: list[Any] = [slice(None)] * (dims[-1] + 1)
    for array, dim in zip(indices, dims, strict=True):
        places[dim] = array
    if accumulate:
        np.add.at(result, tuple(places), np.asarray(values).astype(input.dtype))
    else:
        result[tuple(places)] = np.asarray(values).astype(input.dtype)
    return result


@index_put.lower
def index_put_lower(
    at: At,
    input: Operand,
    indices: tuple[Operand, ...],
    values: Operand,
    dims: tuple[int, ...],
    accumulate: bool,
    ascending: bool,
) -> Scatter:
    shape = index.infer((input.type, tuple([index.type for index in indices])), {"dims": dims}).shape
    axes = axes_of(shape, "s")
    # A Scatter skips places out of range, so the conditions are not needed.
    places, _ = indexed_places(axes, input.shape, indices, dims)
    value, distinct = cast(element(values, axes), input.dtype), ascending and not accumulate
    return Scatter(input[at], axes, places, value, "sum" if accumulate else "set", distinct)


@index_put.vjp
def index_put_vjp(
    g: Value,
    indices: tuple[Value, ...],
    values: Value | float,
    dims: tuple[int, ...],
    accumulate: bool,
    ascending: bool,
) -> Gradients:
    kept = g if accumulate else index_put(g, indices, 0, dims, False, ascending)
    return kept, None, unbroadcast(index(g, indices, dims), values) if isinstance(values, Value) else None


@index_put.samples
def index_put_samples(rng: np.random.Generator) -> Iterator[Sample]:
    rows, columns = integers(rng, -3, 3, 4), integers(rng, 0, 5, 2, 1)
    yield Sample(normal(rng, 3, 5), [np.array([0, 2])], normal(rng, 2, 5), (0,))
    yield Sample(normal(rng, 3, 5), [np.array([1])], 2.5, (1,))
    yield Sample(normal(rng, 3, 5), [rows, columns], normal(rng, 2, 4), (0, 1), True)
    yield Sample(normal(rng, 3, 4, 5), [rows, columns], normal(rng, 4), (0, 2), True)
    yield Sample(normal(rng, 9, 5), [np.array([0, 3, 4, 8])], normal(rng, 4, 5), (0,), False, True)
    yield Sample(normal(rng, 3, 7), [np.array([1, 6])], normal(rng, 3, 2), (1,), False, True)


masked_fill = define(
    "masked_fill(Tensor input, Tensor mask, Tensor value) -> Tensor",
    "The input with one value where a bool mask holds.",
    facts=Fact.FITTING,
    variants="function method inplace",
)


@masked_fill.decompose
def masked_fill_decompose(input: Value, mask: Value, value: Value | float) -> Value:
    require(mask.dtype is bool_, "D001", "masked_fill: the mask must be bool", hint="compare it with 0")
    require(not isinstance(value, Value) or not value.ndim, "S002", "masked_fill: value must have no dims", value=value)
    if isinstance(value, Value):
        real = value.dtype.is_complex <= input.dtype.is_complex
        require(real, "D007", "masked_fill: the input cannot hold complex numbers", input=input, value=value)
    return contiguous(where(mask, _filling(value, input), input))  # row by row, as in PyTorch


def _filling(value: Value | complex, input: Value) -> Value | complex:
    """The value in the input's dtype: the other way round, large integers would lose digits beside a float."""
    if isinstance(value, Value):
        return convert(value, input.dtype)
    if number_dtype(value).kind <= input.dtype.kind:
        return value
    attrs = {"size": (), "dtype": input.dtype, "device": input.device}
    return input.apply(full, (value,), attrs)


@masked_fill.ref
def masked_fill_ref(input: Array, mask: Array, value: Array) -> Array:
    return np.where(mask, np.asarray(value).astype(input.dtype), input)


@masked_fill.samples
def masked_fill_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), rng.random((3, 5)) < 0.5, 1.5)
    yield Sample(normal(rng, 3, 5), rng.random(5) < 0.5, -7)
    yield Sample(normal(rng, 3, 5), rng.random((3, 1)) < 0.5, normal(rng))


embedding_backward = define(
    "embedding_backward(Tensor grad, Tensor indices, Size num_weights, int? padding_idx) -> Tensor",
    "Rows of the gradient summed into the rows of a table.",
    variants="function",
)


@embedding_backward.meta
def embedding_backward_meta(
    grad: TensorType, indices: TensorType, num_weights: Size, padding_idx: int | None
) -> TensorType:
    fits = grad.ndim > 0 and same_shape(grad.shape[:-1], indices.shape)
    require(fits, "S009", "embedding_backward: the gradient does not fit the indices", grad=grad, indices=indices)
    return TensorType((num_weights, grad.shape[-1]), grad.dtype, grad.device)


@embedding_backward.ref
def embedding_backward_ref(grad: Array, indices: Array, num_weights: int, padding_idx: int | None) -> Array:
    result = np.zeros((num_weights, grad.shape[-1]), grad.dtype)
    exists = (indices >= 0) & (indices < num_weights)
    np.add.at(result, indices[exists], grad[exists])
    if padding_idx is not None:
        result[padding_idx] = 0
    return result


@embedding_backward.lower
def embedding_backward_lower(
    at: At, grad: Operand, indices: Operand, num_weights: Size, padding_idx: int | None
) -> Scatter:
    axes = axes_of(grad.shape, "s")
    row = cast(indices[axes[:-1]], int64)
    if padding_idx is not None:
        row = select(row.equals(padding_idx), constant(-1, int64), row)
    return Scatter(zero(grad.dtype), axes, (row, axes[-1]), grad[axes], "sum")


@embedding_backward.vjp
def embedding_backward_vjp(g: Value, indices: Value, padding_idx: int | None) -> Gradients:
    # An index out of range writes nothing, as that of a member without a bag. It reads a row of zeros.
    count = g.shape[0]
    rows = count_of(indices, count)
    inside = comparison.ge(indices, 0) & comparison.lt(indices, rows)
    longer = slice_backward(g, (count + 1, *g.shape[1:]), 0, 0, count, 1)
    gradient = embedding(where(inside, indices, rows), longer, padding_idx)
    if padding_idx is None:
        return gradient, None
    padded = unsqueeze(comparison.eq(indices, padding_idx), -1)
    return where(padded, zeros_of(g, ()), gradient), None


@embedding_backward.samples
def embedding_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), integers(rng, 0, 7, 2, 3), 7, None)
    yield Sample(normal(rng, 9, 4), integers(rng, 0, 3, 9), 3, 1)
