"""Views that reorder, add and drop dims: no data moves, so each has a layout rule, and its lowering maps indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar
from rushlight.ir.type import Layout, TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import (
    Array,
    At,
    Dims,
    Shape,
    inserted,
    normal,
    replaced,
    wrap_dim,
    wrap_dims,
)
from rushlight.ops.promote import is_one, sum_to
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import fail, require
from rushlight.sym import MEETING, Size, eq, ne, required


def _permuted(layout: Layout, order: tuple[int, ...]) -> Layout:
    shape = tuple([layout.shape[dim] for dim in order])
    return Layout(shape, tuple([layout.strides[dim] for dim in order]), layout.offset)


def _exchanged(ndim: int, dim0: int, dim1: int, op: str) -> tuple[int, ...]:
    first, second = wrap_dim(dim0, ndim, op), wrap_dim(dim1, ndim, op)
    order = list(range(ndim))
    if ndim:
        order[first], order[second] = order[second], order[first]
    return tuple(order)


def _order(dims: tuple[int, ...], ndim: int, op: str) -> tuple[int, ...]:
    require(len(dims) == ndim, "S002", f"{op}: {len(dims)} dims given for a tensor of {ndim}")
    order = tuple([wrap_dim(dim, ndim, op) for dim in dims])
    require(len(set(order)) == ndim, "I006", f"{op}: {dims} names a dim twice")
    return order


def _inverse_order(order: tuple[int, ...]) -> tuple[int, ...]:
    inverse = [0] * len(order)
    for position, dim in enumerate(order):
        inverse[dim] = position
    return tuple(inverse)


transpose = define(
    "transpose(Tensor(a) input, int dim0, int dim1) -> Tensor(a)", "Two dims exchanged.", facts=Fact.VIEW
)


@transpose.view
def transpose_view(input: Layout, dim0: int, dim1: int) -> Layout:
    return _permuted(input, _exchanged(len(input.shape), dim0, dim1, "transpose"))


@transpose.ref
def transpose_ref(input: Array, dim0: int, dim1: int) -> Array:
    return np.swapaxes(input, dim0, dim1) if input.ndim else input


@transpose.lower
def transpose_lower(at: At, input: Operand, dim0: int, dim1: int) -> Scalar:
    return input[tuple([at[dim] for dim in _exchanged(len(at), dim0, dim1, "transpose")])]


@transpose.vjp
def transpose_vjp(g: Value, dim0: int, dim1: int) -> Value:
    return transpose(g, dim0, dim1)


@transpose.inverse
def transpose_inverse(base: Value, value: Value, dim0: int, dim1: int) -> Value:
    return transpose(value, dim0, dim1)


@transpose.samples
def transpose_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), 0, 2)
    yield Sample(normal(rng, 3, 4), -1, -2)
    yield Sample(normal(rng), 0, -1)


permute = define("permute(Tensor(a) input, int[] dims) -> Tensor(a)", "Dims in another order.", facts=Fact.VIEW)


@permute.view
def permute_view(input: Layout, dims: tuple[int, ...]) -> Layout:
    return _permuted(input, _order(dims, len(input.shape), "permute"))


@permute.ref
def permute_ref(input: Array, dims: tuple[int, ...]) -> Array:
    return np.transpose(input, dims)


@permute.lower
def permute_lower(at: At, input: Operand, dims: tuple[int, ...]) -> Scalar:
    order = _inverse_order(_order(dims, len(at), "permute"))
    return input[tuple([at[dim] for dim in order])]


@permute.vjp
def permute_vjp(g: Value, dims: tuple[int, ...]) -> Value:
    return permute(g, _inverse_order(_order(dims, len(dims), "permute")))


@permute.inverse
def permute_inverse(base: Value, value: Value, dims: tuple[int, ...]) -> Value:
    return permute(value, _inverse_order(_order(dims, len(dims), "permute")))


@permute.samples
def permute_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), (2, 0, 1))
    yield Sample(normal(rng, 2, 1, 3, 4), (0, -1, 1, 2))
    yield Sample(normal(rng), ())


mT = define(  # noqa: N816 - PyTorch's name
    "mT(Tensor(a) input) -> Tensor(a)", "The last two dims exchanged.", variants="property", syntax="mT"
)


@mT.decompose
def mT_decompose(input: Value) -> Value:  # noqa: N802 - PyTorch's name
    require(input.ndim >= 2, "S002", "mT: the tensor must have at least 2 dims", input=input)
    return transpose(input, -2, -1)


@mT.ref
def mT_ref(input: Array) -> Array:  # noqa: N802 - PyTorch's name
    return np.swapaxes(input, -2, -1)


@mT.samples
def mT_samples(rng: np.random.Generator) -> Iterator[Sample]:  # noqa: N802 - PyTorch's name
    yield Sample(normal(rng, 2, 3, 4))


T = define("T(Tensor(a) input) -> Tensor(a)", "All dims in reverse order.", variants="property")


@T.decompose
def T_decompose(input: Value) -> Value:  # noqa: N802 - PyTorch's name
    return permute(input, tuple(reversed(range(input.ndim))))


@T.ref
def T_ref(input: Array) -> Array:  # noqa: N802 - PyTorch's name
    return input.T


@T.samples
def T_samples(rng: np.random.Generator) -> Iterator[Sample]:  # noqa: N802 - PyTorch's name
    yield Sample(normal(rng, 3, 4))


t = define("t(Tensor(a) input) -> Tensor(a)", "A matrix transposed; tensors of fewer dims pass.")


@t.decompose
def t_decompose(input: Value) -> Value:
    require(input.ndim <= 2, "S002", "t: the tensor may have at most 2 dims", input=input, hint="use .mT")
    return transpose(input, 0, 1) if input.ndim == 2 else alias(input)


@t.ref
def t_ref(input: Array) -> Array:
    return input.T


@t.samples
def t_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4))
    yield Sample(normal(rng, 3))


swapaxes = define("swapaxes(Tensor(a) input, int axis0, int axis1) -> Tensor(a)", "Another name of transpose.")


@swapaxes.decompose
def swapaxes_decompose(input: Value, axis0: int, axis1: int) -> Value:
    return transpose(input, axis0, axis1)


@swapaxes.ref
def swapaxes_ref(input: Array, axis0: int, axis1: int) -> Array:
    return transpose_ref(input, axis0, axis1)


@swapaxes.samples
def swapaxes_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), 0, 1)


swapdims = define("swapdims(Tensor(a) input, int dim0, int dim1) -> Tensor(a)", "Another name of transpose.")


@swapdims.decompose
def swapdims_decompose(input: Value, dim0: int, dim1: int) -> Value:
    return transpose(input, dim0, dim1)


@swapdims.ref
def swapdims_ref(input: Array, dim0: int, dim1: int) -> Array:
    return transpose_ref(input, dim0, dim1)


@swapdims.samples
def swapdims_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), 1, -1)


movedim = define(
    "movedim(Tensor(a) input, int[] source, int[] destination) -> Tensor(a)",
    "Dims moved to other positions; the rest keep their order.",
)


@movedim.decompose
def movedim_decompose(input: Value, source: tuple[int, ...], destination: tuple[int, ...]) -> Value:
    require(len(source) == len(destination), "A004", "movedim: source and destination differ in length")
    moved = [wrap_dim(dim, input.ndim, "movedim") for dim in source]
    places = [wrap_dim(dim, input.ndim, "movedim") for dim in destination]
    unique = len(set(moved)) == len(moved) == len(set(places))
    require(unique, "I006", "movedim: a dim is named twice", source=source, destination=destination)
    if input.ndim == 0:  # its one dim is none
        return permute(input, ())
    order = [dim for dim in range(input.ndim) if dim not in moved]
    for position, dim in sorted(zip(places, moved, strict=True)):
        order.insert(position, dim)
    return permute(input, tuple(order))


@movedim.ref
def movedim_ref(input: Array, source: tuple[int, ...], destination: tuple[int, ...]) -> Array:
    return np.moveaxis(input, source, destination) if input.ndim else input


@movedim.samples
def movedim_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), 0, -1)
    yield Sample(normal(rng, 2, 3, 4, 5), (0, 1), (2, 3))
    yield Sample(normal(rng), 0, -1)


unsqueeze = define("unsqueeze(Tensor(a) input, int dim) -> Tensor(a)", "A dim of size 1 inserted.", facts=Fact.VIEW)


@unsqueeze.view
def unsqueeze_view(input: Layout, dim: int) -> Layout:
    position = wrap_dim(dim, len(input.shape) + 1, "unsqueeze")
    step = input.shape[position] * input.strides[position] if position < len(input.shape) else 1
    return Layout(inserted(input.shape, position, 1), inserted(input.strides, position, step), input.offset)


@unsqueeze.ref
def unsqueeze_ref(input: Array, dim: int) -> Array:
    return np.expand_dims(input, dim)


@unsqueeze.lower
def unsqueeze_lower(at: At, input: Operand, dim: int) -> Scalar:
    return input[replaced(at, wrap_dim(dim, len(at), "unsqueeze"))]


@unsqueeze.vjp
def unsqueeze_vjp(g: Value, dim: int) -> Value:
    return squeeze(g, dim)


@unsqueeze.inverse
def unsqueeze_inverse(base: Value, value: Value, dim: int) -> Value:
    return squeeze(value, dim)


@unsqueeze.samples
def unsqueeze_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), 1)
    yield Sample(normal(rng, 2, 3), -1)
    yield Sample(normal(rng), 0)


squeeze = define(
    "squeeze(Tensor(a) input, int[]? dim=None) -> Tensor(a)",
    "Dims of size 1 dropped: all, or those named.",
    facts=Fact.VIEW,
)


_KEPT = "squeeze: a size that is not known before the program runs is not 1"


def _squeezed(shape: Shape, dim: Dims) -> tuple[int, ...]:
    # The result's rank depends on it, so it is guarded; a size that nobody knows is taken to be another than 1.
    dims = tuple(range(len(shape))) if dim is None else () if dim == () else wrap_dims(dim, len(shape), "squeeze")
    return tuple([axis for axis in dims if not required(ne(shape[axis], 1), _KEPT)])


@squeeze.view
def squeeze_view(input: Layout, dim: Dims) -> Layout:
    dropped = _squeezed(input.shape, dim)
    kept = [position for position in range(len(input.shape)) if position not in dropped]
    return _permuted(input, tuple(kept))


@squeeze.ref
def squeeze_ref(input: Array, dim: Dims) -> Array:
    return np.squeeze(input, _squeezed(input.shape, dim))


@squeeze.lower
def squeeze_lower(at: At, input: Operand, dim: Dims) -> Scalar:
    dropped = _squeezed(input.shape, dim)
    rest = iter(at)
    return input[tuple([0 if position in dropped else next(rest) for position in range(len(input.shape))])]


@squeeze.vjp(types=("input",))
def squeeze_vjp(g: Value, input: TensorType, dim: Dims) -> Value:
    return _restored(g, input.shape, dim)


@squeeze.inverse
def squeeze_inverse(base: Value, value: Value, dim: Dims) -> Value:
    return _restored(value, base.shape, dim)


def _restored(value: Value, shape: Shape, dim: Dims) -> Value:
    for position in _squeezed(shape, dim):
        value = unsqueeze(value, position)
    return value


@squeeze.samples
def squeeze_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 1, 3, 1, 2))
    yield Sample(normal(rng, 1, 3, 1, 2), 0)
    yield Sample(normal(rng, 1, 3, 1, 2), (0, 1, -2))
    yield Sample(normal(rng), 0)


expand = define(
    "expand(Tensor(a) input, Size[] size) -> Tensor(a)",
    "Dims of size 1 repeated without a copy, and new dims in front; -1 keeps a size.",
    facts=Fact.VIEW | Fact.REPEATING,
)


def _expanded(shape: Shape, size: Shape) -> Shape:
    lead = len(size) - len(shape)
    require(lead >= 0, "S008", "expand: fewer sizes than dims", input=shape, size=size)
    result: list[Size] = []
    for dim, wanted in enumerate(size):
        old = shape[dim - lead] if dim >= lead else None
        keep = isinstance(wanted, int) and wanted == -1
        if old is None:
            require(not keep, "S008", "expand: a new dim cannot be -1", input=shape, size=size)
            result.append(wanted)
        elif keep or (not is_one(old) and required(eq(old, wanted), MEETING)):
            result.append(old)
        elif required(eq(old, 1), MEETING):
            result.append(wanted)
        else:
            fail("S008", f"expand: dim {dim - lead} cannot be expanded", input=shape, size=size)
    return tuple(result)


@expand.view
def expand_view(input: Layout, size: Shape) -> Layout:
    shape = _expanded(input.shape, size)
    lead = len(shape) - len(input.shape)
    strides: list[Size] = []
    for old, new, stride in zip(input.shape, shape[lead:], input.strides, strict=True):
        strides.append(0 if is_one(old) and not is_one(new) else stride)
    for dim in range(lead - 1, -1, -1):  # a new dim of size 1 lies around the others, as that of `unsqueeze`
        around = shape[dim + 1] * strides[0] if strides else 0
        strides.insert(0, around if is_one(shape[dim]) else 0)
    return Layout(shape, tuple(strides), input.offset)


@expand.ref
def expand_ref(input: Array, size: Shape) -> Array:
    shape: Any = _expanded(input.shape, size)
    return np.broadcast_to(input, shape)


@expand.lower
def expand_lower(at: At, input: Operand, size: Shape) -> Scalar:
    lead = len(at) - len(input.shape)
    return input[tuple([0 if is_one(old) else axis for old, axis in zip(input.shape, at[lead:], strict=True)])]


@expand.vjp(types=("input",))
def expand_vjp(g: Value, input: TensorType) -> Value:
    return sum_to(g, input.shape)


@expand.samples
def expand_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 1), (3, 4))
    yield Sample(normal(rng, 1, 3), (2, -1, 3))
    yield Sample(normal(rng), (2, 3))


expand_as = define("expand_as(Tensor(a) input, Tensor other) -> Tensor(a)", "Expanded to the shape of another tensor.")


@expand_as.decompose
def expand_as_decompose(input: Value, other: Value) -> Value:
    return expand(input, other.shape)


@expand_as.ref
def expand_as_ref(input: Array, other: Array) -> Array:
    return np.broadcast_to(input, other.shape)


@expand_as.samples
def expand_as_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 1), normal(rng, 2, 3, 4))


broadcast_to = define("broadcast_to(Tensor(a) input, Size[] size) -> Tensor(a)", "Another name of expand.")


@broadcast_to.decompose
def broadcast_to_decompose(input: Value, size: Shape) -> Value:
    return expand(input, size)


@broadcast_to.ref
def broadcast_to_ref(input: Array, size: Shape) -> Array:
    return expand_ref(input, size)


@broadcast_to.samples
def broadcast_to_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 1), (2, 3, 4))


alias = define("alias(Tensor(a) input) -> Tensor(a)", "The same elements as a new tensor.", facts=Fact.VIEW)


@alias.view
def alias_view(input: Layout) -> Layout:
    return input


@alias.ref
def alias_ref(input: Array) -> Array:
    return input


@alias.lower
def alias_lower(at: At, input: Operand) -> Scalar:
    return input[at]


@alias.vjp
def alias_vjp(g: Value) -> Value:
    return g


@alias.inverse
def alias_inverse(base: Value, value: Value) -> Value:
    return value


@alias.samples
def alias_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3))


detach = define(
    "detach(Tensor(a) input) -> Tensor(a)",
    "The same elements without a gradient.",
    facts=Fact.VIEW | Fact.NONDIFFERENTIABLE,
)


@detach.view
def detach_view(input: Layout) -> Layout:
    return input


@detach.ref
def detach_ref(input: Array) -> Array:
    return input


@detach.lower
def detach_lower(at: At, input: Operand) -> Scalar:
    return input[at]


@detach.inverse
def detach_inverse(base: Value, value: Value) -> Value:
    return value


@detach.samples
def detach_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3))
