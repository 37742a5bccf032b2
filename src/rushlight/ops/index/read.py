"""Reading at places that tensors name. An index out of range reads nothing and gives 0, and is found apart (I001)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rushlight.ir.dtype import Kind, int64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, cast, lift, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import positions, zeros_of
from rushlight.ops.dims import (
    Array,
    At,
    Shape,
    convert,
    guarded,
    integers,
    normal,
    own_dim,
    replaced,
    widened,
    within,
    wrap_dim,
    zero,
)
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.definition import element
from rushlight.ops.promote import broadcast
from rushlight.ops.record import OPERATORS, Fact, Gradients, Sample, define
from rushlight.ops.view.reorder import expand, unsqueeze
from rushlight.ops.view.reshape import contiguous, reshape
from rushlight.support.errors import require
from rushlight.sym import Size, gt, le, product, required


def require_integers(op: str, **types: Any) -> None:
    """I004 unless every index tensor holds integers."""
    for type_ in types.values():
        require(type_.dtype.kind is Kind.INT, "I004", f"{op}: indices must be integers", **types)


def require_inside(op: str, index: TensorType, other: TensorType, dim: int | None = None) -> None:
    """S009 unless each size of `index` is at most that of `other`, `dim` aside."""
    skipped = None if dim is None else wrap_dim(dim, index.ndim, op)
    for position, (size, bound) in enumerate(zip(index.shape, other.shape, strict=True)):
        fits = position == skipped or size is bound or required(le(size, bound))
        require(fits, "S009", f"{op}: index is longer than the tensor in dim {position}", index=index, tensor=other)


def wrapped(position: Scalar, size: Size) -> Scalar:
    """A signed index as int64, counted from the front."""
    index = cast(position, int64)
    return select(index < 0, index + lift(size, int64), index)


gather = define(
    "gather(Tensor input, int dim, Tensor index) -> Tensor",
    "Along a dim, the elements at the places that `index` gives; the other dims' places are its own.",
    variants="function out",
)


def _one_without_dims(input: Any, index: Any) -> bool:
    """Whether one has no dims and the other has one: no dims are as good as one of size 1."""
    return input.ndim + index.ndim == 1


@gather.meta
def gather_meta(input: TensorType, dim: int, index: TensorType) -> TensorType:
    require_integers("gather", index=index)
    if _one_without_dims(input, index):
        wrap_dim(dim, 1, "gather")
        return TensorType(index.shape, input.dtype, input.device)
    require(input.ndim == index.ndim, "S002", "gather: input and index differ in rank", input=input, index=index)
    require_inside("gather", index, input, dim)
    return TensorType(index.shape, input.dtype, input.device)


@gather.ref
def gather_ref(input: Array, dim: int, index: Array) -> Array:
    if _one_without_dims(input, index):
        return input.reshape(-1)[index]
    if input.ndim == 0:
        return input
    grid = list(np.ogrid[tuple([slice(size) for size in index.shape])])
    grid[dim] = index
    return input[tuple(grid)]


@gather.lower
def gather_lower(at: At, input: Operand, dim: int, index: Operand) -> Scalar:
    if not input.shape:
        return input[()]
    number = wrap_dim(dim, len(input.shape), "gather")
    position = wrapped(index[at], input.shape[number])
    place = replaced(at, number, position) if at else (position,)
    return guarded(within(position, input.shape[number]), input[place], zero(input.dtype))


@gather.vjp(types=("input",))
def gather_vjp(g: Value, input: TensorType, dim: int, index: Value) -> Gradients:
    wide = widened(g)
    if _one_without_dims(input, index):
        row = zeros_of(wide, (product(input.shape),))
        row = OPERATORS["scatter_add"](row, dim, reshape(index, (-1,)), reshape(wide, (-1,)))
        return convert(reshape(row, input.shape), input.dtype), None
    gradient = OPERATORS["scatter_add"](zeros_of(wide, input.shape), dim, index, wide)
    return convert(gradient, input.dtype), None


@gather.samples
def gather_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1, integers(rng, -5, 5, 3, 2))
    yield Sample(normal(rng, 3, 5), 0, integers(rng, 0, 3, 4, 4))
    yield Sample(normal(rng, 2, 3, 4), -2, integers(rng, 0, 3, 2, 1, 4).astype(np.int32))
    yield Sample(normal(rng), 0, np.array(0))
    yield Sample(normal(rng), 0, np.array([0, -1, 0]))
    yield Sample(normal(rng, 4), -1, np.array(2))


take_along_dim = define(
    "take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor",
    "gather after broadcasting; without a dim, from the flattened input.",
    variants="function method out",
)


@take_along_dim.decompose
def take_along_dim_decompose(input: Value, indices: Value, dim: int | None) -> Value:
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)))
    same = input.ndim == indices.ndim
    require(same, "S002", "take_along_dim: input and indices have one number of dims", input=input, indices=indices)
    wrapped_dim = own_dim(dim, input.shape, "take_along_dim")
    shape = broadcast(replaced(input.shape, wrapped_dim, 1), replaced(indices.shape, wrapped_dim, 1))
    wide = expand(input, replaced(shape, wrapped_dim, input.shape[wrapped_dim]))
    return gather(wide, wrapped_dim, expand(indices, replaced(shape, wrapped_dim, indices.shape[wrapped_dim])))


@take_along_dim.ref
def take_along_dim_ref(input: Array, indices: Array, dim: int | None) -> Array:
    return np.take_along_axis(input, indices.reshape(-1) if dim is None else indices, dim)


@take_along_dim.samples
def take_along_dim_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), integers(rng, 0, 5, 1, 2), 1)
    yield Sample(normal(rng, 3, 5), integers(rng, 0, 15, 4))


index_select = define(
    "index_select(Tensor input, int dim, Tensor index) -> Tensor",
    "The slices of a dim at the places in a 1-D index.",
    facts=Fact.STORED,
    variants="function method out",
)


@index_select.meta
def index_select_meta(input: TensorType, dim: int, index: TensorType) -> TensorType:
    require_integers("index_select", index=index)
    require(index.ndim <= 1, "S002", "index_select: the index must have 1 dim", index=index)
    position = wrap_dim(dim, input.ndim, "index_select")
    shape = replaced(input.shape, position, product(index.shape)) if input.shape else ()
    return TensorType(shape, input.dtype, input.device)


@index_select.ref
def index_select_ref(input: Array, dim: int, index: Array) -> Array:
    return np.take(input, index.reshape(-1), axis=dim) if input.ndim else input


@index_select.lower
def index_select_lower(at: At, input: Operand, dim: int, index: Operand) -> Scalar:
    if not input.shape:
        return input[()]
    number = wrap_dim(dim, len(input.shape), "index_select")
    position = wrapped(index[at[number]] if index.shape else index[()], input.shape[number])
    return guarded(within(position, input.shape[number]), input[replaced(at, number, position)], zero(input.dtype))


@index_select.vjp(types=("input",))
def index_select_vjp(g: Value, input: TensorType, dim: int, index: Value) -> Gradients:
    if not input.shape:
        return g, None
    wide = widened(g)
    return convert(OPERATORS["index_add"](zeros_of(wide, input.shape), dim, index, wide), input.dtype), None


@index_select.samples
def index_select_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1, np.array([4, 0, 0]))
    yield Sample(normal(rng, 3, 5), 0, np.array([-1, 2, 1, 0], np.int32))


def indexed_shape(input: Shape, indices: Sequence[Shape], dims: Sequence[int]) -> tuple[Shape, int]:
    """(The indices' broadcast shape, the dim of the result where it stands): in front unless `dims` are adjacent.

    Errors: I009 for indices that do not broadcast.
    """
    adjacent = all(second == first + 1 for first, second in pairwise(dims))
    return broadcast(*indices, code="I009"), dims[0] if adjacent else 0


def _indexed(op: str, input: TensorType, indices: Sequence[TensorType], dims: Sequence[int]) -> Shape:
    require(len(indices) == len(dims) > 0, "A004", f"{op}: one dim for each index is needed", dims=dims)
    ascending = all(first < second for first, second in pairwise((-1, *dims, input.ndim)))
    require(ascending, "I003", f"{op}: dims must ascend and exist", input=input, dims=dims)
    require_integers(op, **{f"index{position}": type_ for position, type_ in enumerate(indices)})
    shape, index = indexed_shape(input.shape, [element.shape for element in indices], dims)
    rest = [size for dim, size in enumerate(input.shape) if dim not in dims]
    return (*rest[:index], *shape, *rest[index:])


def indexed_places(
    at: At, input: Shape, indices: Sequence[Operand], dims: Sequence[int]
) -> tuple[tuple[Scalar | Size, ...], list[Scalar]]:
    """Return the input's place of the result's element at `at`, and when that place is in range.

    The second item lists conditions that all hold where it is.
    """
    shape, index = indexed_shape(input, [element.shape for element in indices], dims)
    own, rest = at[index : index + len(shape)], iter((*at[:index], *at[index + len(shape) :]))
    indices_of_input: list[Scalar | Size] = []
    conditions: list[Scalar] = []
    for dim, size in enumerate(input):
        if dim in dims:
            position = wrapped(element(indices[dims.index(dim)], own), size)
            conditions += within(position, size)
            indices_of_input.append(position)
        else:
            indices_of_input.append(next(rest))
    return tuple(indices_of_input), conditions


index = define(
    "index(Tensor input, Tensor[] indices, int[] dims) -> Tensor",
    "The elements at the places that integer tensors, broadcast together, give in the dims named (ascending). Where "
    "these are adjacent the indices' dims stand in their place, else in front. Views for other indices come before.",
    variants="",
    facts=Fact.STORED,
)


@index.meta
def index_meta(input: TensorType, indices: tuple[TensorType, ...], dims: tuple[int, ...]) -> TensorType:
    return TensorType(_indexed("index", input, indices, dims), input.dtype, input.device)


def _numpy_index(indices: Sequence[Array], dims: Sequence[int]) -> tuple[Any, ...]:
    places: list[Any] = [slice(None)] * (dims[-1] + 1)
    for array, dim in zip(indices, dims, strict=True):
        places[dim] = array
    return tuple(places)


@index.ref
def index_ref(input: Array, indices: tuple[Array, ...], dims: tuple[int, ...]) -> Array:
    return np.asarray(input[_numpy_index(indices, dims)])


@index.lower
def index_lower(at: At, input: Operand, indices: tuple[Operand, ...], dims: tuple[int, ...]) -> Scalar:
    places, conditions = indexed_places(at, input.shape, indices, dims)
    return guarded(conditions, input[places], zero(input.dtype))


@index.vjp(types=("input",))
def index_vjp(g: Value, input: TensorType, indices: tuple[Value, ...], dims: tuple[int, ...]) -> Gradients:
    wide = widened(g)
    gradient = OPERATORS["index_put"](zeros_of(wide, input.shape), indices, wide, dims, True)
    return convert(gradient, input.dtype), None


@index.samples
def index_samples(rng: np.random.Generator) -> Iterator[Sample]:
    rows, columns = integers(rng, -3, 3, 4), integers(rng, 0, 5, 2, 1)
    yield Sample(normal(rng, 3, 5), [rows], (0,))
    yield Sample(normal(rng, 3, 5), [rows, columns], (0, 1))
    yield Sample(normal(rng, 3, 5, 2), [columns], (1,))
    yield Sample(normal(rng, 3, 4, 5), [rows, columns], (0, 2))


embedding = define(
    "embedding(Tensor input, Tensor weight, int? padding_idx=None) -> Tensor",
    "Rows of a table; the row `padding_idx` gets no gradient.",
    variants="function",
)


@embedding.meta
def embedding_meta(input: TensorType, weight: TensorType, padding_idx: int | None) -> TensorType:
    require_integers("embedding", input=input)
    require(weight.ndim == 2, "S002", "embedding: the weight must have 2 dims", weight=weight)
    return TensorType((*input.shape, weight.shape[1]), weight.dtype, weight.device)


@embedding.ref
def embedding_ref(input: Array, weight: Array, padding_idx: int | None) -> Array:
    return weight[input]


@embedding.lower
def embedding_lower(at: At, input: Operand, weight: Operand, padding_idx: int | None) -> Scalar:
    row = cast(input[at[:-1]], int64)
    return guarded(within(row, weight.shape[0]), weight[row, at[-1]], zero(weight.dtype))


@embedding.vjp(types=("weight",))
def embedding_vjp(g: Value, input: Value, weight: TensorType, padding_idx: int | None) -> Gradients:
    gradient = OPERATORS["embedding_backward"](widened(g), input, weight.shape[0], padding_idx)
    return None, convert(gradient, weight.dtype)


@embedding.samples
def embedding_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(integers(rng, 0, 7, 2, 3), normal(rng, 7, 4))
    yield Sample(integers(rng, 0, 7, 5).astype(np.int32), normal(rng, 7, 4))


one_hot = define(
    "one_hot(Tensor tensor, Size num_classes) -> Tensor",
    "int64 rows of zeros with a 1 at each class.",
    variants="function",
)


@one_hot.decompose
def one_hot_decompose(tensor: Value, num_classes: Size) -> Value:
    require(required(gt(num_classes, 0)), "A002", "one_hot: there must be a class", num_classes=num_classes)
    own = positions(tensor, num_classes)
    return contiguous(convert(eq(unsqueeze(tensor, -1), own), int64))


@one_hot.ref
def one_hot_ref(tensor: Array, num_classes: int) -> Array:
    return (tensor[..., None] == np.arange(num_classes)).astype(np.int64)


@one_hot.samples
def one_hot_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(integers(rng, 0, 4, 2, 3), 4)
