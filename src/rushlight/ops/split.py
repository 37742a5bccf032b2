"""Tensors cut into views along a dim: narrow, split, chunk, unbind. Their gradients are joined, not summed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar
from rushlight.ir.type import Layout, TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import zeros_of
from rushlight.ops.dims import Array, At, Shape, normal, own_dim, replaced, same_size, wrap_dim
from rushlight.ops.join import cat, stack
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.view.part import select, slice_backward, slice_scatter
from rushlight.support.errors import fail, require
from rushlight.sym import (
    Size,
    SizeExpr,
    ceildiv,
    eq,
    ge,
    guard,
    guarding_hint_or_throw,
    le,
    ne,
    required,
    total,
)

# `split_size_or_sections`: one size, or the size of each part.
Sections: TypeAlias = Size | tuple[Size, ...] | list[Size]

part = define(
    "part(Tensor(a) input, int dim, Size start, Size length) -> Tensor(a)",
    "`length` indices of a dim from `start` on. That they lie in it is the caller's promise where sizes are symbols.",
    facts=Fact.VIEW | Fact.PROMISED,
    variants="",
)


@part.view
def part_view(input: Layout, dim: int, start: Size, length: Size) -> Layout:
    dim = own_dim(dim, input.shape, "part")
    size = input.shape[dim]
    if isinstance(start, int) and isinstance(length, int) and isinstance(size, int):
        fits = start >= 0 and length >= 0 and start + length <= size
        require(fits, "I001", "part: the range leaves the dim", start=start, length=length, size=size)
    return Layout(replaced(input.shape, dim, length), input.strides, input.offset + start * input.strides[dim])


@part.ref
def part_ref(input: Array, dim: int, start: int, length: int) -> Array:
    return np.take(input, range(start, start + length), dim)


@part.lower
def part_lower(at: At, input: Operand, dim: int, start: Size, length: Size) -> Scalar:
    dim = wrap_dim(dim, len(at), "part")
    return input[replaced(at, dim, at[dim] + start)]


@part.vjp(types=("input",))
def part_vjp(g: Value, input: TensorType, dim: int, start: Size, length: Size) -> Value:
    return slice_backward(g, input.shape, dim, start, start + length, 1)


@part.inverse
def part_inverse(base: Value, value: Value, dim: int, start: Size, length: Size) -> Value:
    return slice_scatter(base, value, dim, start, start + length)


@part.samples
def part_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1, 1, 3)
    yield Sample(normal(rng, 3, 5), 0, 3, 0)


narrow = define(
    "narrow(Tensor(a) input, int dim, Size start, Size length) -> Tensor(a)",
    "`length` indices of a dim from `start` on.",
)


@narrow.decompose
def narrow_decompose(input: Value, dim: int, start: Size, length: Size) -> Value:
    wrapped_dim = own_dim(dim, input.shape, "narrow")
    size = input.shape[wrapped_dim]
    first = start + size if isinstance(start, int) and start < 0 else start
    fits = required(ge(first, 0)) and required(ge(length, 0)) and required(le(first + length, size))
    require(fits, "I001", "narrow: the range leaves the dim", start=start, length=length, size=size)
    return part(input, wrapped_dim, first, length)


@narrow.ref
def narrow_ref(input: Array, dim: int, start: int, length: int) -> Array:
    first = start + input.shape[dim] if start < 0 else start
    return np.take(input, range(first, first + length), dim)


@narrow.samples
def narrow_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1, 1, 3)
    yield Sample(normal(rng, 3, 5), 0, -2, 2)


split = define(
    "split(Tensor(a) tensor, any split_size_or_sections, int dim=0) -> Tensor(a)[]",
    "Parts of one size, the last one smaller if need be, or of the sizes given.",
    variants="function",
)


def split_sizes(size: Size, sections: Sections) -> tuple[Size, ...]:
    """The sizes of the parts of a dim; S010 when they do not add up. The number of parts is always an int."""
    several = isinstance(sections, (tuple, list))
    for section in sections if several else (sections,):
        whole = isinstance(section, (int, SizeExpr))
        require(whole, "A001", "split: an int is expected, or several", split_size_or_sections=sections)
    if several:
        sizes: tuple[Size, ...] = tuple(sections)
        if not same_size(total(sizes), size):
            fail("S010", "split: the parts do not add up", size=size, parts=sizes)
        fits = all(required(ge(length, 0)) for length in sizes)
        require(fits, "A002", "split: a size is negative", split_sizes=sizes)
        return sizes
    require(not isinstance(sections, int) or sections >= 0, "A002", "split: a size is negative", split_size=sections)
    if guard(eq(size, 0)):  # the number of results cannot be open
        return (0,)
    require(guard(ne(sections, 0)), "A002", "split: parts of size 0 never add up", size=size)
    count = ceildiv(size, sections)
    if isinstance(count, SizeExpr):
        quotient = guarding_hint_or_throw(count)
        guard(eq(count, quotient))
        count = quotient
    return (*(sections,) * (count - 1), size - sections * (count - 1))


@split.decompose
def split_decompose(tensor: Value, split_size_or_sections: Sections, dim: int) -> tuple[Value, ...]:
    require(tensor.ndim, "S002", "split: a tensor with dims is expected", tensor=tensor.shape)
    wrapped_dim = own_dim(dim, tensor.shape, "split")
    parts: list[Value] = []
    start: Size = 0
    for size in split_sizes(tensor.shape[wrapped_dim], split_size_or_sections):
        parts.append(part(tensor, wrapped_dim, start, size))
        start = start + size
    return tuple(parts)


@split.ref
def split_ref(tensor: Array, split_size_or_sections: Sections, dim: int) -> tuple[Array, ...]:
    sizes: Any = split_sizes(tensor.shape[dim], split_size_or_sections)
    return tuple(np.split(tensor, np.cumsum(sizes)[:-1], dim))


@split.vjp(types=("tensor",))
def split_vjp(g: Gradients, tensor: TensorType, split_size_or_sections: Sections, dim: int) -> Value:
    position = own_dim(dim, tensor.shape, "split")
    sizes = split_sizes(tensor.shape[position], split_size_or_sections)
    return _joined(g, [replaced(tensor.shape, position, size) for size in sizes], position)


def _joined(grads: Gradients, shapes: list[Shape], dim: int) -> Value:
    given = next(grad for grad in grads if grad is not None)
    filled = [zeros_of(given, shape) if grad is None else grad for grad, shape in zip(grads, shapes, strict=True)]
    return cat(tuple(filled), dim)


@split.samples
def split_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 6), 2, 1)
    yield Sample(normal(rng, 5, 2), 2)
    yield Sample(normal(rng, 5, 2), (1, 0, 4))


chunk = define(
    "chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor(a)[]",
    "At most `chunks` parts of one size, the last smaller.",
)


def _chunk_size(shape: Shape, chunks: int, dim: int) -> Size:
    require(chunks > 0, "A002", "chunk: the number of chunks must be positive", chunks=chunks)
    return ceildiv(shape[own_dim(dim, shape, "chunk")], chunks)


@chunk.decompose
def chunk_decompose(input: Value, chunks: int, dim: int) -> tuple[Value, ...]:
    size = _chunk_size(input.shape, chunks, dim)
    if guard(eq(size, 0)):  # as many parts as asked for
        return split(input, (0,) * chunks, dim)
    return split(input, size, dim)


@chunk.ref
def chunk_ref(input: Array, chunks: int, dim: int) -> tuple[Array, ...]:
    size = _chunk_size(input.shape, chunks, dim)
    return split_ref(input, size if size else (0,) * chunks, dim)


@chunk.samples
def chunk_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 6), 3, 1)
    yield Sample(normal(rng, 5, 2), 3)


unbind = define("unbind(Tensor(a) input, int dim=0) -> Tensor(a)[]", "The slices of a dim.")


@unbind.decompose
def unbind_decompose(input: Value, dim: int) -> tuple[Value, ...]:
    wrapped_dim = own_dim(dim, input.shape, "unbind")
    size = input.shape[wrapped_dim]
    if isinstance(size, SizeExpr):
        count = guarding_hint_or_throw(size)
        guard(eq(size, count))
        size = count
    return tuple([select(input, wrapped_dim, position) for position in range(size)])


@unbind.ref
def unbind_ref(input: Array, dim: int) -> tuple[Array, ...]:
    return tuple([np.take(input, position, dim) for position in range(input.shape[dim])])


@unbind.vjp(types=("input",))
def unbind_vjp(g: Gradients, input: TensorType, dim: int) -> Value:
    position = own_dim(dim, input.shape, "unbind")
    given = next(grad for grad in g if grad is not None)
    return stack(tuple([zeros_of(given, given.shape) if grad is None else grad for grad in g]), position)


@unbind.samples
def unbind_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 2))
    yield Sample(normal(rng, 3, 2), -1)
